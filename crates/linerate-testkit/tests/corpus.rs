//! Replays what the fuzz targets have found, and some thousand random inputs each, with the stable
//! compiler.

use std::path::{Path, PathBuf};

use linerate_testkit::fuzz;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(fuzz_dir().join("corpus").join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn every_target_has_its_files() {
    let manifest = std::fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
    for (name, _) in fuzz::ALL {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in Cargo.toml");
        let main = fuzz_dir().join(format!("fuzz_targets/{name}.rs"));
        let main = std::fs::read_to_string(main).unwrap();
        assert!(main.contains(&format!("fuzz::{name}(")), "{name}");
        assert!(!corpus(name).is_empty(), "{name} has no corpus");
    }
}

#[test]
fn the_corpus_stays_small() {
    let inputs: Vec<_> = fuzz::ALL.iter().flat_map(|(name, _)| corpus(name)).collect();
    let bytes: usize = inputs.iter().map(Vec::len).sum();
    assert!(inputs.len() <= 250 && bytes <= 300 * 1024, "{} files, {bytes}", inputs.len());
}

/// The corpus, then random bytes, and inputs of the corpus with some bytes changed: the latter
/// get past the first checks of a parser.
fn replay(name: &str) {
    let (_, target) = fuzz::ALL.iter().find(|(known, _)| *known == name).unwrap();
    let seeds = corpus(name);
    seeds.iter().for_each(|seed| target(seed));
    let random = prop::collection::vec(any::<u8>(), 0..600);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let changed = (prop::sample::select(seeds), changes).prop_map(|(mut seed, changes)| {
        for (index, byte) in changes {
            let at = index.index(seed.len().max(1));
            if let Some(place) = seed.get_mut(at) {
                *place = byte;
            }
        }
        seed
    });
    let config = Config { cases: 2_000, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop_oneof![random, changed], |input| {
            target(&input);
            Ok(())
        })
        .unwrap();
}

macro_rules! replayed {
    ($($name:ident)*) => {
        $(#[test] fn $name() { replay(stringify!($name)); })*

        #[test]
        fn no_target_is_left_out() {
            let named = [$(stringify!($name)),*];
            assert!(fuzz::ALL.iter().map(|(name, _)| *name).eq(named));
        }
    };
}

replayed! {
    client_message server_message datagram_header stream_opening units run_record
    sequence_window receiver server_story setting undo_journal agent_message order
    web_request agent_policy broker_message fleet_plan campaign_plan
    iperf3_parameters iperf3_results iperf3_control iperf3_datagram iperf2
    netperf_message nuttcp nuttcp_blocks
}
