use super::table::{OPTIONS, Side};
use super::*;
use crate::getopt::Takes;

fn line(text: &str) -> Parsed<Line> {
    parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn options_are_read_as_getopt_reads_them() {
    let a = line("-c h -u -b 10M/5 -t 3 -P 2 -R -w 4M -l 1K -O 1 -i 0.5").unwrap();
    let b = line("--client=h --udp --bandwidth 10M/5 -t3 --paral 2 --rev -w4m -l1k -O1 -i.5");
    assert_eq!(a, b.unwrap());
    assert_eq!((a.rate_bps, a.burst, a.window), (Some(10_000_000), 5, Some(4 << 20)));
    assert_eq!((a.length, a.omit_s, a.interval_s), (Some(1_024), 1, 0.5));
    let server = line("-s1Vp 5000").unwrap();
    assert!(server.one_off && server.verbose && server.host.is_none());
    assert_eq!(server.port, 5_000);
    assert_eq!(line("-c h --timestamps").unwrap().timestamps.as_deref(), Some("%c "));
    assert_eq!(line("-c h --timestamps=%s").unwrap().timestamps.as_deref(), Some("%s"));
    assert_eq!(line("-c h -b 1.5Gbit").unwrap().rate_bps, Some(1_500_000_000));
    assert_eq!(line("-c h -S 0x34").unwrap().tos, 0x34);
    assert_eq!(line("-c h --dscp af41").unwrap().tos, 34 << 2);
    assert_eq!(line("-c h --dscp ef").unwrap().tos, 46 << 2);
    assert_eq!(line("-c h --dscp lowdelay").unwrap().tos, 0x10);
    assert_eq!(line("-c h -A 2,3").unwrap().affinity, (Some(2), Some(3)));
    assert_eq!(line("-s -h"), Err(Stop::Help));
}

#[test]
fn every_option_is_taken_or_refused_by_name() {
    for (_, name, takes, side) in OPTIONS {
        let value = match (*takes, *name) {
            (Takes::Value, "format") => " m",
            (Takes::Value, "bind") => " 127.0.0.1",
            (Takes::Value, "client") => " h",
            (Takes::Value, "rcv-timeout") => " 1000",
            (Takes::Value, "length") => " 100",
            (Takes::Value, "rsa-private-key-path") => " k --authorized-users-path u",
            (Takes::Value, "authorized-users-path") => " u --rsa-private-key-path k",
            (Takes::Value, _) => " 2",
            _ => "",
        };
        let role = match side {
            Side::Server => "-s",
            _ if matches!(*name, "server" | "client") => "",
            _ => "-c h",
        };
        match line(&format!("{role} --{name}{value}")) {
            Ok(_) | Err(Stop::Help | Stop::Version) => {}
            Err(Stop::Refused(text)) => assert!(text.contains(name), "{text}"),
            other => panic!("--{name}: {other:?}"),
        }
    }
}

#[test]
fn faults_have_iperf3s_words() {
    for (words, text) in [
        ("", "must either be a client (-c) or server (-s)"),
        ("-s -c x", "cannot be both server and client"),
        ("-s -A 0,1", "some option you are trying to set is client only"),
        ("-s -6 -B 127.0.0.1", "-6 and -B 127.0.0.1 do not go together"),
        ("-s -u", "some option you are trying to set is client only"),
        ("-c x -D", "some option you are trying to set is server only"),
        ("-c x -t 999999", "test duration too long (maximum = 86400 seconds)"),
        ("-c x -t 5 -n 5", "only one test end condition (-t, -n, -k) may be specified"),
        ("-c x -R --bidir", "cannot be both reverse and bidirectional"),
        ("-c x -P 200", "number of parallel streams too large (maximum = 128)"),
        ("-c x -l 2M", "block size too large (maximum = 1048576 bytes)"),
        ("-c x -u -l 5", "block size invalid (minimum = 16 bytes, maximum = 65507 bytes)"),
        ("-c x -i 0.01", "invalid report interval (min = 0.1, max = 60 seconds)"),
        ("-c x -O 1000", "bogus value for --omit"),
        ("-c x -S 300", "bad TOS value (must be between 0 and 255 inclusive)"),
        ("-c x -p 99999", "port number must be between 1 and 65535 inclusive"),
    ] {
        assert_eq!(line(words), Err(Stop::Parameter(text.into())), "{words}");
    }
    assert_eq!(
        line("-c x --nonsense"),
        Err(Stop::Unknown("unrecognized option '--nonsense'".into()))
    );
    assert_eq!(line("-c x -q"), Err(Stop::Unknown("invalid option -- 'q'".into())));
    assert_eq!(line("-c x --ver"), Err(Stop::Unknown("option '--ver' is ambiguous".into())));
}

#[test]
fn an_option_without_effect_is_said() {
    let notes = |words| line(words).map(|line| line.notes);
    // As iperf3 says it, with or without intervals.
    for words in ["-c x -J -f m", "-c x -f K -J -i 1", "-s -J -f g"] {
        let said = notes(words).unwrap_or_default();
        assert_eq!(said, ["Report format (-f) flag ignored with JSON output (-J)"], "{words}");
    }
    assert_eq!((notes("-c x -f m -i 1"), notes("-c x -J -i 1")), (Ok(vec![]), Ok(vec![])));
    assert_eq!(notes("-s -A 0 --rcv-timeout 500 -6"), Ok(vec![]));
    assert_eq!(notes("-s -1 --idle-timeout 5"), Ok(vec![]));
    let said = notes("-s --idle-timeout 5").unwrap_or_default();
    assert!(said.iter().any(|note| note.starts_with("--idle-timeout changes nothing")), "{said:?}");
}
