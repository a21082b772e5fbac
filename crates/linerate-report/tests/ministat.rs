//! The printed texts of `ministat`, classic and modern, against examples kept as data.

use linerate_report::ministat::{Options, ReadError, Set, print};
use linerate_stats::offline::ministat::{Arithmetic, LEVELS};
use serde_json::Value;

fn options(flags: &str, arithmetic: Arithmetic) -> Options {
    let mut options = Options { arithmetic, ..Options::default() };
    let mut words = flags.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-s" => options.separate_bars = true,
            "-A" => options.plot = false,
            "-n" => options.comparisons = false,
            "-w" => options.width = words.next().unwrap().parse().unwrap(),
            "-c" => {
                let level: f64 = words.next().unwrap().parse().unwrap();
                options.level = LEVELS.iter().position(|l| l.0 == level).unwrap();
            }
            other => panic!("unknown flag {other}"),
        }
    }
    options
}

#[test]
fn examples() {
    let text = include_str!("data/ministat-examples.json");
    let examples: Value = serde_json::from_str(text).unwrap();
    let mut checked = 0;
    for case in examples["cases"].as_array().unwrap() {
        for (key, arithmetic) in [("classic", Arithmetic::Classic), ("modern", Arithmetic::Modern)]
        {
            for (flags, expected) in case[key].as_object().unwrap() {
                let options = options(flags, arithmetic);
                let sets = case["sets"].as_object().unwrap().iter().map(|(name, values)| {
                    let values = values.as_array().unwrap().iter();
                    let lines: String =
                        values.map(|v| format!("{}\n", v.as_f64().unwrap())).collect();
                    Set::read(lines.as_bytes(), &options)
                        .map(|set| (name.clone().into_bytes(), set))
                });
                let sets: Result<Vec<_>, _> = sets.collect();
                checked += 1;
                let Some(expected) = expected.as_str() else {
                    assert!(matches!(sets, Err(ReadError::TooFew)));
                    continue;
                };
                // The data file lists the sets of a case by file name in order of use; JSON keys
                // come back sorted, so put them in the order of the expected text.
                let mut sets = sets.unwrap();
                sets.sort_by_key(|(name, _)| expected.find(std::str::from_utf8(name).unwrap()));
                let mut out = Vec::new();
                print(&mut out, &sets, &options).unwrap();
                let got = String::from_utf8(out).unwrap();
                assert_eq!(got, expected, "{} {key} {flags}", case["id"]);
            }
        }
    }
    assert!(checked >= 40, "only {checked} examples found");
}

#[test]
fn what_the_original_crashes_on_is_an_error() {
    for (text, width) in [("1\n2\n3\n", 1), ("1\ninf\n3\n", 74), ("1\n2\n3\n", -5)] {
        let options = Options { width, ..Options::default() };
        let set = Set::read(text.as_bytes(), &options).unwrap();
        let mut out = Vec::new();
        let error = print(&mut out, &[(b"a".to_vec(), set)], &options).unwrap_err();
        assert!(error.to_string().contains("cannot be drawn"), "{error}");
        assert!(out.is_empty(), "half an output");
    }
}
