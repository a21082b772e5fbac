use proptest::prelude::*;

use super::*;

fn here() -> Place {
    Place { boot_id: "b".into(), namespace: 7 }
}

fn mtu() -> Knob {
    Knob::Mtu(Device { name: "eth0".into(), index: 2, address: "02aa".into() })
}

fn ring() -> Knob {
    let device = Device { name: "eth0".into(), index: 2, address: "02aa".into() };
    Knob::Ring(device, "rx".into())
}

fn change(id: u64, knob: Knob, before: &str, asked: &str) -> Record {
    let wishes = vec![Turn { knob, before: before.into(), asked: asked.into() }];
    Record::Change { id, place: here(), wishes, around: vec![] }
}

fn done(id: u64, knob: Knob, before: &str, now: &str) -> Record {
    let turned = vec![Turned { knob, before: before.into(), now: now.into() }];
    Record::Done { id, place: here(), turned, unread: vec![] }
}

fn sample() -> Vec<Record> {
    vec![
        change(1, mtu(), "1500", "9000"),
        done(1, mtu(), "1500", "9000"),
        change(2, ring(), "256", "500"),
        done(2, ring(), "256", "512"),
    ]
}

fn written(records: &[Record]) -> Vec<u8> {
    records.iter().filter_map(line).collect::<String>().into_bytes()
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(parse(&written(&sample())), (sample(), vec![]));
    assert_eq!(parse(b""), (vec![], vec![]));
}

#[test]
fn every_truncation_is_a_torn_tail_at_most() {
    let bytes = written(&sample());
    for length in 0..bytes.len() {
        let (records, damages) = parse(&bytes[..length]);
        assert!(sample().starts_with(&records), "{length}");
        let cut = length > 0 && bytes[length - 1] != b'\n';
        assert_eq!(damages.len(), usize::from(cut), "{length}");
        assert!(damages.iter().all(|d| matches!(d, Damage::Torn(_))));
    }
}

#[test]
fn every_change_of_one_byte_is_found_and_hides_at_most_the_neighbour() {
    let bytes = written(&sample());
    for at in 0..bytes.len() {
        for flip in [1_u8, 0x20, 0x80, 0xff, bytes[at] ^ b'\n', bytes[at] ^ b'"'] {
            if flip == 0 {
                continue;
            }
            let mut bytes = bytes.clone();
            bytes[at] ^= flip;
            let (records, damages) = parse(&bytes);
            // The space between sum and text says nothing, so its loss loses nothing.
            let space = written(&sample())[at] == b' ' && damages.is_empty();
            assert!(!damages.is_empty() || space && records == sample(), "{at} {flip:#x}");
            assert!(records.len() >= sample().len() - 2, "{at} {flip:#x}");
            assert!(records.iter().all(|r| sample().contains(r)), "{at} {flip:#x}");
        }
    }
}

#[test]
fn a_knob_is_put_back_to_its_first_value_unless_someone_else_set_it() {
    let records =
        [sample(), vec![change(3, mtu(), "9000", "4000"), done(3, mtu(), "9000", "4000")]].concat();
    let undos = undos(&records, &here());
    assert_eq!(undos.iter().map(|u| u.knob.clone()).collect::<Vec<_>>(), [ring(), mtu()]);
    let [ring, mtu] = &undos[..] else { panic!("two") };
    assert_eq!(mtu.before, "1500");
    assert_eq!(mtu.decide("4000"), Decision::Restore);
    assert_eq!(mtu.decide("1500"), Decision::Nothing);
    assert_eq!(mtu.decide("9000"), Decision::Leave, "an earlier value of ours, set by others");
    assert_eq!(ring.decide("512"), Decision::Restore);
    assert_eq!(ring.decide("500"), Decision::Leave);
}

#[test]
fn a_change_whose_result_is_unknown_counts_both_ways() {
    let records =
        [&sample()[..2], &[change(3, mtu(), "9000", "4000"), change(4, ring(), "256", "500")]]
            .concat();
    let undos = undos(&records, &here());
    let [ring, mtu] = &undos[..] else { panic!("two") };
    for (value, decision) in [
        ("9000", Decision::Restore),
        ("4000", Decision::Restore),
        ("1500", Decision::Nothing),
        ("1400", Decision::Leave),
    ] {
        assert_eq!(mtu.decide(value), decision, "{value}");
    }
    assert_eq!(ring.decide("512"), Decision::Restore, "drivers round rings");
}

#[test]
fn a_change_that_did_nothing_leaves_nothing_to_undo() {
    let refused = Record::Done { id: 1, place: here(), turned: vec![], unread: vec![] };
    let records = [change(1, mtu(), "1500", "9000"), refused];
    assert!(undos(&records, &here()).is_empty());
}

#[test]
fn what_others_set_between_two_changes_is_what_comes_back() {
    let records = [
        change(1, mtu(), "1500", "9000"),
        done(1, mtu(), "1500", "9000"),
        // Somebody else sets 4000 here.
        change(2, mtu(), "4000", "2000"),
        done(2, mtu(), "4000", "2000"),
    ];
    let undos = undos(&records, &here());
    assert_eq!(undos[0].before, "4000", "{undos:?}");
    assert_eq!(undos[0].decide("2000"), Decision::Restore);
    // After a change that did nothing, too.
    let refused = Record::Done { id: 1, place: here(), turned: vec![], unread: vec![] };
    let records = [&[records[0].clone(), refused], &records[2..]].concat();
    assert_eq!(super::undos(&records, &here())[0].before, "4000");
}

#[test]
fn what_moves_with_a_change_is_undone_though_its_result_was_never_noted() {
    let gro = Knob::Feature(
        Device { name: "eth0".into(), index: 2, address: "02aa".into() },
        "rx-gro".into(),
    );
    let Record::Change { id, place, wishes, .. } = change(1, mtu(), "1500", "9000") else {
        panic!("a change")
    };
    let around = vec![Held { knob: gro.clone(), value: "on".into() }];
    let begun = Record::Change { id, place, wishes, around };
    let undos = undos(std::slice::from_ref(&begun), &here());
    let of_gro = undos.iter().find(|undo| undo.knob == gro).unwrap();
    assert_eq!(of_gro.decide("off"), Decision::Restore);
    assert_eq!(of_gro.decide("on"), Decision::Nothing);
    // Where it was noted, only what is in the note was moved.
    let records = [begun.clone(), done(1, mtu(), "1500", "9000")];
    let undos = super::undos(&records, &here());
    assert_eq!(undos.iter().map(|u| u.knob.clone()).collect::<Vec<_>>(), [mtu()]);
    // What could not be read back stays awaited.
    let Record::Done { id, place, turned, .. } = records[1].clone() else { panic!("done") };
    let unread = Record::Done { id, place, turned, unread: vec![gro.clone()] };
    let undos = super::undos(&[begun, unread], &here());
    assert!(undos.iter().any(|undo| undo.knob == gro && undo.swept), "{undos:?}");
}

#[test]
fn a_result_that_could_not_be_read_leaves_the_wish() {
    let unread = Record::Done { id: 1, place: here(), turned: vec![], unread: vec![mtu()] };
    let undos = undos(&[change(1, mtu(), "1500", "9000"), unread], &here());
    assert_eq!(undos[0].decide("9000"), Decision::Restore);
    assert_eq!(undos[0].decide("1400"), Decision::Leave);
}

#[test]
fn what_is_settled_is_forgotten_and_can_be_turned_again() {
    let settled = Record::Settled { id: 2, place: here(), knobs: vec![mtu()] };
    let records = [sample(), vec![settled]].concat();
    let undos = undos(&records, &here());
    assert_eq!(undos.iter().map(|u| u.knob.clone()).collect::<Vec<_>>(), [ring()]);
    let again = [records, vec![change(3, mtu(), "9000", "4000")]].concat();
    let undos = super::undos(&again, &here());
    assert_eq!(undos.iter().find(|u| u.knob == mtu()).unwrap().before, "9000");
}

#[test]
fn another_boot_and_another_namespace_are_not_this_one() {
    let elsewhere = Place { namespace: 8, ..here() };
    assert!(undos(&sample(), &elsewhere).is_empty());
    assert!(of_other_boots(&sample(), "c"));
    assert!(!of_other_boots(&sample(), "b"));
}

#[test]
fn an_interface_is_the_same_by_its_number_and_one_of_name_and_address() {
    let of = |name: &str, index, address: &str| Device {
        name: name.into(),
        index,
        address: address.into(),
    };
    let device = of("eth0", 2, "02aa");
    assert!(of("eth0", 2, "02bb").is(&device) && of("lan0", 2, "02aa").is(&device));
    assert!(!of("lan0", 2, "02bb").is(&device) && !of("eth0", 3, "02aa").is(&device));
}

#[test]
fn features_and_disciplines_are_compared_by_what_was_asked() {
    let device = Device { name: "eth0".into(), index: 2, address: String::new() };
    let feature = Knob::Feature(device.clone(), "rx-gro".into());
    assert!(feature.became("on", "off, wanted on"));
    assert!(!feature.became("on", "on, wanted off"));
    assert!(Knob::Qdisc(device).became("fq", "fq 8001: 0a"));
}

proptest! {
    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let (records, _) = parse(&bytes);
        undos(&records, &here());
    }

    /// A host with one knob: changes by us and by others in any order, and a crash after any
    /// line. What others set last is kept, also when we change it once more; else the first value
    /// comes back.
    #[test]
    fn what_others_set_is_kept_and_the_rest_comes_back(
        steps in prop::collection::vec((any::<bool>(), 1_u8..6), 0..12), cut in 0_usize..30
    ) {
        let (mut value, mut journal) = ("0".to_owned(), Vec::new());
        let (mut lines, mut others, mut home) = (0, false, value.clone());
        for (id, (ours, to)) in (1..).zip(steps) {
            let to = to.to_string();
            if to == value {
                continue;
            }
            if !ours {
                // A foreign value of its own, which nobody here ever sets.
                value = format!("f{to}");
                others = true;
                continue;
            }
            if lines == cut {
                break;
            }
            journal.push(change(id, mtu(), &value, &to));
            lines += 1;
            let before = std::mem::replace(&mut value, to.clone());
            if others {
                home.clone_from(&before);
            }
            others = false;
            if lines == cut {
                break;
            }
            journal.push(done(id, mtu(), &before, &to));
            lines += 1;
        }
        let undos = undos(&journal, &here());
        prop_assert!(undos.len() <= 1);
        if let Some(undo) = undos.first() {
            prop_assert_eq!(&undo.before, &home, "{:?} now {}", undo, value);
            let decision = undo.decide(&value);
            let expected = match (value == undo.before, others) {
                (true, _) => Decision::Nothing,
                (false, true) => Decision::Leave,
                (false, false) => Decision::Restore,
            };
            prop_assert_eq!(decision, expected, "{:?} now {}", undo, value);
        }
    }
}
