//! Each option of netperf, nuttcp and iperf 2 that docs/options.md names, alone: linerate under the program's name
//! against the real server, and the real client against linerate's server. Exit code and the shape of what is printed
//! (words, units, columns; no figures) are those of the real client and the real server.

use linerate_testkit::peer::LONG;
use std::process::Output;

use crate::support::netperf::{Netserver, an_address};
use crate::support::nuttcp::Theirs;
use crate::support::{self, alone, cores, wait_for};
use crate::{iperf2_face, netperf_face, nuttcp_face};

/// An option, and a command line of a client's that has it.
type Row = (&'static str, &'static str);

const NETPERF: &[Row] = &[
    ("TCP_STREAM", "-t TCP_STREAM -l 1"),
    ("TCP_MAERTS", "-t TCP_MAERTS -l 1"),
    ("TCP_SENDFILE", "-t TCP_SENDFILE -F /bin/sh -l 1"),
    ("UDP_STREAM", "-t UDP_STREAM -l 1 -- -m 1000"),
    ("TCP_RR", "-t TCP_RR -l 1"),
    ("UDP_RR", "-t UDP_RR -l 1"),
    ("TCP_CRR", "-t TCP_CRR -l 1"),
    ("TCP_CC", "-t TCP_CC -l 1"),
    ("omni", "-t omni -l 1 -- -d send -T udp -m 1000"),
    ("omni", "-t omni -l 1 -- -d rr -k THROUGHPUT,DIRECTION,PROTOCOL"),
    ("-l", "-t TCP_STREAM -l -1000000"),
    ("-l", "-t TCP_RR -l -300"),
    ("-D", "-t TCP_STREAM -l 1 -D 0.3"),
    ("-I", "-t TCP_RR -l -300 -I 95,10000 -i 4,3"),
    ("-i", "-t TCP_RR -l -300 -I 99,10000 -i 5,4"),
    ("-c", "-t TCP_STREAM -l 1 -c"),
    ("-C", "-t TCP_STREAM -l 1 -C"),
    ("-T", "-t UDP_RR -l 1 -T CORE,CORE"),
    ("-m", "-t TCP_STREAM -l 1 -- -m 1000"),
    ("-m", "-t UDP_STREAM -l 1 -- -m 1000,2000"),
    ("-M", "-t TCP_MAERTS -l 1 -- -M 3000,2000"),
    ("-s", "-t TCP_STREAM -l 1 -- -s 64K,32K"),
    ("-S", "-t UDP_STREAM -l 1 -- -S 64K -m 1000"),
    ("-r", "-t UDP_RR -l 1 -- -r 100,200"),
    ("-R", "-t UDP_STREAM -l 1 -- -R 1 -m 1000"),
    ("-b", "-t TCP_RR -l 1 -- -b 3"),
    ("-W", "-t TCP_STREAM -l 1 -W 3,3"),
    ("-a", "-t TCP_STREAM -l 1 -a 16,16 -A 16,16 -O 4,4 -n 2"),
    ("-o", "-t TCP_STREAM -l 1 -- -o THROUGHPUT,THROUGHPUT_UNITS,LOCAL_SEND_SIZE"),
    ("-O", "-t TCP_RR -l 1 -- -O THROUGHPUT,REQUEST_SIZE;P99_LATENCY"),
    ("-k", "-t UDP_STREAM -l 1 -- -m 1000 -k THROUGHPUT,REMOTE_RECV_THROUGHPUT,SOCKET_TYPE"),
    ("-u", "-t TCP_RR -l 1 -- -u mine -k UUID,THROUGHPUT_UNITS"),
    ("-K", "-t TCP_STREAM -l 1 -- -K CONGESTION -k LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL"),
    ("-Y", "-t TCP_STREAM -l 1 -Y CS1,CS2 -- -k LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS"),
    ("-P", "-t UDP_STREAM -l 1 -P 0 -- -m 1000"),
    ("-P of a test", "-t TCP_STREAM -l 1 -- -P ,20001 -k THROUGHPUT_UNITS"),
    ("-D of a test", "-t TCP_RR -l 1 -- -D"),
    ("-v", "-t TCP_RR -l 1 -v 2"),
    ("-f", "-t TCP_MAERTS -l 1 -f K"),
    ("-B", "-t TCP_RR -l 1 -P 0 -v 0 -B mark"),
    ("-4", "-4 -t TCP_RR -l 1"),
    ("-6", "-H ::1 -6 -t UDP_STREAM -l 1 -- -m 1000"),
    ("-H", "-H ::1,6 -t TCP_RR -l 1"),
    ("-L", "-L 127.0.0.1 -t TCP_STREAM -l 1"),
];

/// Of builds with intervals alone.
const NETPERF_PACED: &[Row] = &[
    ("-b", "-t UDP_STREAM -l 1 -b 5 -w 10 -- -m 1000"),
    ("-b", "-t UDP_STREAM -l 1 -b 5 -- -m 1000"),
    ("-w", "-t TCP_STREAM -l 1 -b 5 -w 10000us -- -m 1000"),
    ("-b", "-t TCP_MAERTS -l 1 -b 5 -w 10"),
    ("-b", "-t TCP_RR -l 1 -b 5 -w 10"),
    ("-w", "-t UDP_RR -l 1 -b 2 -w 5"),
];

const NUTTCP: &[Row] = &[
    ("-T", "-T0.5"),
    ("-r", "-r -T0.5"),
    ("-n", "-n160 -l8k"),
    ("-n", "-n2m -r"),
    ("-n -T", "-n2m -T60"),
    ("-n -T", "-n900g -T0.5"),
    ("-n -T", "-r -n2m -T60"),
    ("-n -T", "-r -n900g -T0.5"),
    ("-n -T", "-u -R8m -l1000 -n1g -T0.5"),
    ("-l", "-l1000 -T0.5"),
    ("-N", "-N3 -T0.5"),
    ("-i sent", "-T1 -i0.3"),
    ("-i", "-r -T1 -i0.3"),
    ("-w", "-w128 -T0.5"),
    ("-ws", "-ws128 -T0.5"),
    ("-wr", "-w128 -wr64 -T0.5"),
    ("-fparse", "-fparse -T0.5"),
    ("-fparse", "-fparse -u -R8m -l1000 -T0.5 -i0.2"),
    ("-u", "-u -l1000 -T0.5"),
    ("-R", "-u -R8m -l1000 -T0.5"),
    ("-R", "-R20m -T0.5"),
    ("-Ri", "-u -Ri8m -l1000 -T0.5"),
    ("-Ru", "-u -Ru -l1000 -T0.3"),
    ("-R burst", "-u -Ri8m/4 -l1000 -T0.5"),
    ("-u -r", "-u -r -R8m -l1000 -T0.5"),
    ("-xc", "-xcCORE/CORE -T0.5"),
    ("-D", "-D -T0.5"),
    ("-M", "-M1000 -T0.5"),
    ("-c", "-c0x10 -T0.5"),
    ("-c", "-c5p -T0.5"),
    ("-I", "-Imine -T0.5"),
    ("-b", "-b -T0.5"),
    ("-uu", "-uu -l1000 -T0.3"),
    ("-Ra", "-u -Ra8m -l1000 -T0.5"),
    ("-w bytes", "-w65536b -T0.5"),
    ("-4", "-4 -T0.5"),
    ("-fxmitstats", "-u -R8m -l1000 -T0.7 -i0.2 -fxmitstats"),
    ("-frunningtotal", "-u -R8m -l1000 -T0.7 -i0.2 -frunningtotal"),
    ("-fxmitstats", "-u -R8m -l1000 -T0.7 -i0.2 -fxmitstats -frunningtotal"),
    ("-fxmitstats", "-u -R8m -l1000 -T0.7 -i0.2 -fxmitstats -frunningtotal -fparse"),
    ("-fxmitstats -r", "-u -r -R8m -l1000 -T0.7 -i0.2 -fxmitstats -frunningtotal"),
    ("-f-drops", "-u -R8m -l1000 -T0.7 -i0.2 -frunningtotal -f-drops"),
    ("-f-percentloss", "-u -R8m -l1000 -T0.7 -i0.2 -frunningtotal -f-percentloss"),
    ("-R apart", "-u -R 8m -l1000 -T0.5"),
    ("-R packets", "-u -R1kp -l1000 -T0.5"),
    ("-frtt", "-f-rtt -frtt -T0.5"),
    ("-i0", "-r -T2.5 -i0"),
];

/// Options that 6.1.2 has not, or whose test it does not end by itself. With `-i` its own server says of each interval that
/// nothing was sent again, whatever was: linerate's does not.
const NOT_OF_6_1_2: [&str; 5] = ["-xc", "-R burst", "-c", "-i sent", "-fxmitstats -r"];

/// An option, what the server is told, and the client's command line.
const IPERF2: &[(&str, &str, &str)] = &[
    ("-r", "", "-b 20M -r -t 1 -y C"),
    ("-d", "", "-b 20M -d -t 1 -y C"),
    ("-t", "", "-t 1 -b 20M"),
    ("-n", "", "-n 2M"),
    ("-b", "-u", "-u -b 4M -t 1"),
    ("-b", "", "-b 20M -t 1 -i 0.5"),
    ("-u", "-u", "-u -t 1"),
    ("-l", "-u", "-u -b 2M -l 200 -t 1"),
    ("-l", "", "-b 20M -l 4K -t 1"),
    ("-w", "", "-b 20M -w 64K -t 1"),
    ("-P", "-u", "-u -b 2M -P 2 -t 1"),
    ("-P", "", "-b 20M -P 2 -t 1"),
    ("-R", "", "-b 20M -R -t 1"),
    ("-e", "-u", "-u -b 2M -e -t 1"),
    ("-e", "", "-b 20M -e -i 0.5 -t 1"),
    ("-i", "-u", "-u -b 2M -i 0.5 -t 1"),
    ("-y C", "", "-b 20M -y C -t 1"),
    ("-y C", "-u", "-u -b 2M -i 0.5 -y C -t 1"),
    ("-f", "", "-b 20M -f k -t 1"),
    ("-N", "", "-b 20M -N -M 1000 -t 1"),
    ("-S", "-u", "-u -b 2M -S 0x28 -t 1"),
    ("-X", "", "-b 20M -X -t 1"),
    ("-Z", "", "-b 20M -Z CONGESTION -t 1"),
    ("-B", "", "-b 20M -B 127.0.0.1 -t 1"),
    ("-V", "-V", "-c ::1 -V -b 20M -t 1"),
    ("-V", "-u -V", "-c ::1 -V -u -b 2M -t 1"),
    ("-l short", "-u", "-u -b 500K -l 64 -t 1"),
    ("-b pps", "-u", "-u -b 500pps -t 1"),
    ("-S name", "-u", "-u -b 2M -S ef -t 1"),
    ("-w server", "-w 64K -M 1000 -N", "-b 20M -t 1"),
    ("-1 server", "-1", "-b 20M -t 1"),
    ("--trip-times", "-u", "-u -b 2M --trip-times -t 1"),
    ("--trip-times", "", "-b 20M --trip-times -t 1"),
    ("--trip-times", "", "-b 20M --trip-times -R -t 1"),
];

/// Options of iperf 2's that go one way alone: of the face against its server, …
const IPERF2_OURS: &[(&str, &str, &str)] = &[
    ("-R", "-u", "-u -b 2M -R -t 1"),
    ("--full-duplex", "", "-b 20M --full-duplex -t 1 -y C"),
    ("--trip-times", "-u", "-u -b 2M --trip-times -R -t 1"),
];

/// … and of its client against linerate's server.
const IPERF2_THEIRS: &[(&str, &str, &str)] = &[
    ("--full-duplex", "", "-b 20M --full-duplex -t 1 -y C"),
    ("--isochronous", "-u", "-u --isochronous=60:2m,0 -t 1"),
];

/// A row that is lost is noticed.
#[test]
fn every_option_has_a_row() {
    let netperf: Vec<&str> = NETPERF.iter().chain(NETPERF_PACED).map(|row| row.0).collect();
    let nuttcp: Vec<&str> = NUTTCP.iter().map(|row| row.0).collect();
    let iperf2 = [IPERF2, IPERF2_OURS, IPERF2_THEIRS].concat();
    let iperf2: Vec<&str> = iperf2.iter().map(|row| row.0).collect();
    for (rows, wanted) in [
        (
            netperf,
            "-D -I -i -c -C -T -m -M -s -S -r -R -b -w -W -o -k -K TCP_STREAM TCP_MAERTS \
            TCP_SENDFILE UDP_STREAM TCP_RR UDP_RR TCP_CRR TCP_CC omni",
        ),
        (nuttcp, "-u -r -i -Ri -Ru -R -w -ws -wr -l -N -xc -n -T -fparse"),
        (iperf2, "-b -u -l -w -P -d -r -R --full-duplex --trip-times -e -i --isochronous -y"),
    ] {
        for option in wanted.split_whitespace() {
            let named = |row: &&str| row.split(' ').next() == Some(option);
            assert!(rows.iter().any(named), "{option} has no row");
        }
    }
}

/// What a machine decides.
fn filled(args: &str) -> String {
    let core = cores()[0].to_string();
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let known = known.unwrap_or_default();
    // The last is seldom the default.
    let congestion = known.split_whitespace().last().unwrap_or("cubic");
    args.replace("CORE", &core).replace("CONGESTION", congestion)
}

/// What a run ended with, and the shape of what it printed.
type Shape = (Option<i32>, Vec<String>);

fn shape(out: &Output, masked: impl Fn(&str) -> Vec<String>) -> Shape {
    (out.status.code(), masked(&String::from_utf8_lossy(&out.stdout)))
}

fn texts(runs: &[(&str, &Output)]) -> String {
    let text = |(who, out): &(&str, &Output)| {
        let [out, err] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        format!("--- {who}\n{out}{err}")
    };
    runs.iter().map(text).collect()
}

/// All that differ, so that one run shows them.
fn none(differ: &[String]) {
    assert!(differ.is_empty(), "{} rows differ\n{}", differ.len(), differ.join("\n\n"));
}

fn netperf_rows(test: &str, flags: &[&str], rows: &[Row]) {
    let Some(bin) = support::netperf::programs_with(test, flags) else { return };
    an_address();
    let theirs = Netserver::start(&bin);
    let (server, at) = support::netperf::serve(&[]);
    // Their build says what it was built with.
    let masked = &|text: &str| netperf_face::masked(&text.replace(" : interval", ""));
    let mut differ = Vec::new();
    for (option, args) in rows {
        let args = filled(args);
        let real = netperf_face::real(&bin, theirs.port, &args);
        let ours = netperf_face::ours(theirs.port, &args);
        let served = netperf_face::real(&bin, at.port(), &args);
        let wanted = shape(&real, masked);
        if shape(&ours, masked) != wanted || shape(&served, masked) != wanted {
            let runs = [("theirs", &real), ("our client", &ours), ("our server", &served)];
            differ.push(format!("{option}: {args}\n{}", texts(&runs)));
        }
    }
    none(&differ);
    assert!(!server.log().contains("\"failed\""), "{}", server.log());
}

#[test]
#[ignore = "long"]
fn of_netperf() {
    let _alone = alone();
    netperf_rows("of_netperf", &[], NETPERF);
}

#[test]
#[ignore = "long"]
fn of_netperf_with_intervals() {
    let _alone = alone();
    netperf_rows("of_netperf_with_intervals", &["--enable-intervals"], NETPERF_PACED);
}

#[test]
#[ignore = "long"]
fn of_nuttcp() {
    let _alone = alone();
    let (_server, at) = support::nuttcp::serve(&[]);
    let mut differ = Vec::new();
    for (release, bin) in support::nuttcp::programs("of_nuttcp") {
        let theirs = Theirs::start(&bin);
        let old = release == "6.1.2";
        for (option, args) in NUTTCP.iter().filter(|row| !old || !NOT_OF_6_1_2.contains(&row.0)) {
            let args = filled(&format!("{} {args}", nuttcp_face::DATA));
            let real = nuttcp_face::run(nuttcp_face::real(&bin), theirs.port, &args);
            // Our client prints what 8.2.2 prints.
            let less = match (old && !args.contains("-u"), args.contains("-N")) {
                (false, _) => "",
                (true, false) => "-f-cwnd",
                (true, true) => "-f-cwnd -f-retrans",
            };
            let in_full = format!("{args} {less}");
            let ours = nuttcp_face::run(nuttcp_face::face(), theirs.port, &in_full);
            let served = nuttcp_face::run(nuttcp_face::real(&bin), at.port(), &args);
            let shape = |out: &Output| shape(out, nuttcp_face::masked);
            let wanted = shape(&real);
            if shape(&ours) != wanted || shape(&served) != wanted {
                let runs = [("theirs", &real), ("our client", &ours), ("our server", &served)];
                differ.push(format!("{release} {option}: {args}\n{}", texts(&runs)));
            }
        }
    }
    none(&differ);
}

/// What shapes leave out, by what the programs say of their sockets.
#[test]
fn values_of_netperf_reach_the_sockets() {
    let _alone = alone();
    let Some(bin) = support::netperf::programs("values_of_netperf_reach_the_sockets") else {
        return;
    };
    an_address();
    let theirs = Netserver::start(&bin);
    let (_server, at) = support::netperf::serve(&[]);
    let keys = "LSS_SIZE_END,RSR_SIZE_END,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,LOCAL_SEND_SIZE";
    let args =
        format!("-t TCP_STREAM -l 1 -P 0 -Y CS1,CS2 -- -m 1000 -s 32K,32K -S 48K,48K -k {keys}");
    let text = |out: Output| String::from_utf8_lossy(&out.stdout).into_owned();
    let real = text(netperf_face::real(&bin, theirs.port, &args));
    assert!(real.contains("LSS_SIZE_END=65536"), "{real}");
    assert_eq!(text(netperf_face::ours(theirs.port, &args)), real);
    assert_eq!(text(netperf_face::real(&bin, at.port(), &args)), real);
}

/// The same, by what the kernel has of our client's socket.
#[test]
fn values_of_nuttcp_and_iperf_2_reach_the_sockets() {
    let _alone = alone();
    let (_nuttcp, at) = support::nuttcp::serve(&[]);
    let server = iperf2_face::Server::start(iperf2_face::Whose::Ours, "");
    let (nuttcp, iperf) = (at.port().to_string(), server.port().to_string());
    for (words, data, wanted) in [
        (format!("nuttcp -w128 -T60 -R5m -p 7000 -P {nuttcp} 127.0.0.1"), "7000", "tb262144"),
        (format!("nuttcp -w65536b -T60 -R5m -p 7001 -P {nuttcp} 127.0.0.1"), "7001", "tb131072"),
        (format!("iperf -c 127.0.0.1 -p {iperf} -w 96K -b 5M -t 60"), iperf.as_str(), "tb196608"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let client = support::Client::start(None, &words);
        let filter = format!("( dport = :{data} )");
        let seen = || {
            let out = std::process::Command::new("ss").args(["-Htnm", &filter]).output();
            String::from_utf8_lossy(&out.expect("ss").stdout).into_owned()
        };
        let set = wait_for(LONG, || seen().contains(wanted));
        let last = seen();
        client.signal(nix::sys::signal::Signal::SIGINT);
        client.end();
        assert!(set, "{words:?}: {last}");
    }
}

/// What a client of the one ends with and prints, of a server of the other that has not served before: a real one forgets
/// to report to a second client that comes at once.
fn iperf2(
    (client, server): (iperf2_face::Whose, iperf2_face::Whose),
    (told, args): (&str, &str),
) -> Output {
    let server = iperf2_face::Server::start(server, told);
    // A real server that connects back to its own host needs another port than its own.
    let back = [" -r ", " -d "].iter().any(|option| args.contains(option));
    let listens = if back && client == iperf2_face::Whose::Theirs { " -L 20011" } else { "" };
    iperf2_face::ran(client, server.port(), &format!("{args}{listens}"))
}

#[test]
#[ignore = "long"]
fn of_iperf_2() {
    use iperf2_face::Whose::{Ours, Theirs};
    let _alone = alone();
    if !iperf2_face::installed("of_iperf_2") {
        return;
    }
    let mut differ = Vec::new();
    let all = [(IPERF2, true, true), (IPERF2_OURS, true, false), (IPERF2_THEIRS, false, true)];
    for (rows, ours, served) in all {
        for (option, told, args) in rows {
            let args = &filled(args);
            let run = |ends| iperf2(ends, (told, args));
            let real = run((Theirs, Theirs));
            let mut runs = vec![("theirs", real)];
            runs.extend(ours.then(|| ("our client", run((Ours, Theirs)))));
            runs.extend(served.then(|| ("our server", run((Theirs, Ours)))));
            let shape = |out: &Output| {
                let text = String::from_utf8_lossy(&out.stdout).into_owned();
                let shown = if args.contains("-y C") { rows_of(&text) } else { kinds(&text) };
                (out.status.code(), shown)
            };
            let shapes: Vec<_> = runs.iter().map(|(_, out)| shape(out)).collect();
            if shapes.windows(2).any(|pair| pair[0] != pair[1]) {
                let runs: Vec<_> = runs.iter().map(|(who, out)| (*who, out)).collect();
                differ.push(format!("{option}: {args}\n{}", texts(&runs)));
            }
        }
    }
    none(&differ);
}

fn kinds(text: &str) -> Vec<String> {
    iperf2_face::kinds(text).into_iter().collect()
}

/// Of CSV: how many fields a line of each kind has. A client's own line of datagrams has as many here as its server's.
fn rows_of(text: &str) -> Vec<String> {
    let mut counts: Vec<_> = text.lines().map(|line| line.split(',').count().to_string()).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}
