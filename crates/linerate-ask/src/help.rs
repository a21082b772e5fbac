//! What `--help` says after the options: examples, and the exit codes.

#![allow(missing_docs, reason = "each is what --help of the verb of its name says at its end")]

use linerate_model::exit::Exit;

/// Of a verb that measures: what only the doctor ends with is left out.
fn with_exit_codes(examples: &str) -> String {
    with_codes(examples, Exit::ALL.into_iter().filter(|exit| *exit != Exit::Found))
}

/// Of what answers others until Ctrl-C, which ends it as it should.
fn until_ctrl_c(examples: &str) -> String {
    with_codes(examples, [Exit::Complete, Exit::Failed, Exit::Usage, Exit::Unreachable])
}

fn with_codes(examples: &str, exits: impl IntoIterator<Item = Exit>) -> String {
    let mut text = format!("Examples:\n{examples}\nExit codes:\n");
    for exit in exits {
        text.push_str(&format!("{:>5}  {}\n", exit as u8, exit.words()));
    }
    text
}

pub fn top() -> String {
    with_codes(
        "  linerate udp --local                 see a real result on this machine alone
  linerate serve                       the server, on another machine
  linerate udp HOST --rate 1G          loss, jitter and CPU at a given rate
  linerate tcp HOST                    what TCP gets through
  linerate rr HOST                     transactions per second and latency
  linerate sweep HOST --zoom           where received leaves offered, and which end limits it
  linerate search HOST --max 1G        the highest rate with at most 0.5% loss
  linerate doctor HOST                 what is set badly on this host for that path
  linerate profile udp HOST --rate 1G  where this host's CPU time goes
  linerate watch                       what this host's cores and interfaces do now
  linerate tune tcp HOST               the best window, streams and cores for it
",
        Exit::ALL,
    )
}

pub fn doctor() -> String {
    with_codes(
        "  linerate doctor                             this host alone
  linerate doctor HOST --rate 25G             judged against a goal; HOST runs `linerate serve`
  linerate doctor HOST -v                     every note with its reasons, and what could not be looked at
  linerate doctor HOST --json                 facts and findings (`linerate schema doctor`)
  linerate doctor HOST --prove offload.tso --allow-settings
                                              what that change is worth; it is put back afterwards
",
        Exit::ALL.into_iter().filter(|exit| *exit != Exit::Invalid),
    )
}

pub fn profile() -> String {
    with_exit_codes(
        "  linerate profile udp --local                            both ends, on this machine alone
  linerate profile udp HOST --rate 2G --save p.json       where this host's CPU time goes at that rate
  linerate report p.json -o p.html                        the same as a page with a flame graph
  linerate profile udp HOST --at-knee                     below and above the highest rate with little loss
  linerate profile tcp HOST --against '--tx sendfile'     what differs between two tests
  linerate profile --compare before.json after.json       the same of two that were kept
",
    )
}

pub fn watch() -> String {
    tools(
        "  linerate watch                            cores, interfaces, drops and interrupts; q quits
  linerate watch -i 500ms
  linerate watch -n 10 > host.txt           no terminal: plain rows
  linerate watch --json-lines | jq .        (`linerate schema watch-line`)
",
    )
}

/// Of all of a program, or of a server alone, which has no pages and controls no host.
pub fn serve(whole: bool) -> String {
    let examples = "  linerate serve
  linerate serve --bind 192.0.2.1 --max-rate 1G --max-tests 4
  linerate serve --key-file ~/.linerate.key
  linerate serve --keys keys.toml           a key for each client: linerate keys new NAME --keys keys.toml
  linerate serve --audit-log audit.jsonl    who asked for what, and what came of it
  linerate serve --web                      what runs and ran, and who was refused, as a page in a browser
  linerate serve --metrics                  the same, counted for Prometheus, at 127.0.0.1:15201/metrics
  linerate serve --user nobody              root is given up once the ports are bound
  linerate serve --user nobody --key-file /etc/linerate/key --allow-settings
  linerate serve --exclusive --queue 4      iperf3's clients one at a time; four may wait
";
    let alone = |line: &&str| {
        !["--web", "--metrics", "--allow-settings", "linerate keys"]
            .iter()
            .any(|part| line.contains(part))
    };
    let shown = examples.split_inclusive('\n').filter(|line| whole || alone(line));
    until_ctrl_c(&shown.collect::<String>())
}

pub fn probe() -> String {
    until_ctrl_c(
        "  linerate probe a.example b.example 192.0.2.0/24
  curl 'http://127.0.0.1:15202/probe?target=a.example&module=udp'
  linerate probe a.example --modules probes.toml

  A file of modules:
    [voice]
    kind = \"udp\"
    rate = \"100k\"
    size = 200
    time = \"3s\"
    both = true
",
    )
}

pub fn keys() -> String {
    with_exit_codes(
        "  linerate keys new ci --keys keys.toml --out ci.key       then: linerate serve --keys keys.toml
  linerate udp HOST --key-file ci.key                      at the client
  linerate keys list --keys keys.toml
  linerate keys revoke ci --keys keys.toml                 holds at once
",
    )
}

pub fn udp() -> String {
    with_exit_codes(
        "  linerate udp --local                      on this machine, as fast as it can
  linerate udp HOST                         100 Mbit/s for 10 s, no harm to others
  linerate udp HOST -b max -P 2 -t 30s      two streams as fast as they go
  linerate udp HOST -b 160M -R              from the server to here
  linerate udp HOST -b 100kpps -l 64        datagrams per second
  linerate udp HOST -b 1G --cpu 2,3/4,5 -P 2
  linerate udp HOST -b 1G -t 10m --watch    a screen; + and - change the rate while it runs
  linerate udp HOST -b 1G -t 10m --web      the same as a page in a browser
  linerate udp 192.0.2.7 --send-only -l 64    send only: nobody has to answer
",
    )
}

pub fn tcp() -> String {
    with_exit_codes(
        "  linerate tcp --local
  linerate tcp HOST -P 4 -t 30s
  linerate tcp HOST -R -C bbr               the server sends, with BBR
  linerate tcp HOST -b 500M                 paced by the kernel
  linerate tcp HOST --rx copy               receivers copy the bytes, as an application does
",
    )
}

pub fn rr() -> String {
    with_exit_codes(
        "  linerate rr --local
  linerate rr HOST --udp
  linerate rr HOST --request 100 --response 8Ki --outstanding 16
  linerate rr HOST --rate 10k               a fixed schedule; latency counts from it
",
    )
}

pub fn report() -> String {
    with_exit_codes(
        "  linerate udp HOST --json > run.json && linerate report run.json -o report.html
  linerate report sweep.json search.json -o report.html -o report.png
  linerate report run.json --figure rate-over-time -o slide.png     one picture, 1600x900
  linerate report sweep.json --figures slides         every figure as a picture of its own
  linerate report before.stat after.stat -o report.html
  linerate report *.json --skip-damaged -o all.csv
  linerate report offload.db -o offload.html          a campaign: every pair, odd runs, every run
  linerate udp --local --json | linerate report - --format md
",
    )
}

pub fn search() -> String {
    with_exit_codes(
        "  linerate search --local --preset quick             in half a minute, on this machine alone
  linerate search HOST --max 1G                      what arrives with at most 0.5% loss
  linerate search HOST --goal loss=0 --goal loss=0.5%,delay-p99=5ms
  linerate search HOST --ci --max 1G -R              the limit with its 95% interval, from there to here
  linerate search HOST --preset ndr --log a.jsonl    every trial kept; Ctrl-C, then:
  linerate search --resume a.jsonl                   goes on
  linerate search --replay a.jsonl --json            the same answer without a network
",
    )
}

pub fn tune() -> String {
    with_exit_codes(
        "  linerate tune tcp HOST                             window, block, streams, congestion control, cores
  linerate tune udp HOST --rate max --profile fast   then: linerate udp HOST --profile fast
  linerate tune udp HOST --rate 10G --objective rate,loss=0.1%
  linerate tune tcp HOST --factor window=1Mi,4Mi,16Mi --factor streams --max-time 5m
  linerate tune rr HOST --allow-settings --factor cores --factor coalesce.rx-usecs=0,20
  linerate tune udp --local --objective efficiency
  linerate tune tcp HOST --save t.json               keeps what is known after each trial
  linerate tune --resume t.json                      goes on where that ended
  linerate report t.json -o tune.html                its result as a page
",
    )
}

pub fn campaign() -> String {
    with_exit_codes(
        "  linerate campaign explain offload.toml     every run in its order, and the time it takes
  linerate campaign run offload.toml         begin; Ctrl-C, a crash or a power cut lose nothing
  linerate campaign resume offload.toml      go on
  linerate campaign status offload.toml      where it stands, also while it runs
  linerate compare offload.db                which settings differ, boots paired
  linerate campaign export offload.toml      .stat files for ministat
",
    )
}

pub fn fleet() -> String {
    with_exit_codes(
        "  linerate serve --key-file KEY --allow-settings               on each of the hosts
  linerate fleet explain --hosts a,b,c,d                       the rounds; nothing is sent
  linerate fleet run --hosts a,b,c --key-file KEY tcp -t 5s    all pairs
  linerate fleet run --hosts a,b,c --key-file KEY --pairs star=a --each-way rr
  linerate fleet run --hosts a,b,c,d --key-file KEY --each-way --times 4 --keep fleet.db udp -b 100M
  linerate fleet results fleet.db                              medians, which host or link is bad, what changed
  linerate fleet schedule --hosts a,b,c --key-file KEY --every 1h --jitter 5m --keep fleet.db tcp -t 5s
  linerate fleet serve fleet.db                                the same as a page in a browser
  linerate fleet init fleet                                    a broker, for hosts that are agents
  linerate fleet hosts fleet                                   its agents; `fleet doctor fleet` says what is not well
  linerate fleet run --hosts a,b,c --nats fleet --keep fleet.db tcp -t 5s
",
    )
}

pub fn tools(examples: &str) -> String {
    format!("Examples:\n{examples}")
}

pub fn sweep() -> String {
    with_exit_codes(
        "  linerate sweep HOST --both-ways --zoom     1 to 1000 Mbit/s each way, finer at the knees
  linerate sweep HOST --rates 64M,70M,128M --repeat 5 -t 10s
  linerate sweep HOST --rates 10M..200M --step 10M
  linerate sweep HOST --rates 1M..max --save runs
  linerate sweep HOST --over size=64..mtu --rate 500M --zoom
  linerate sweep HOST --over streams=1..8 --rate max
  linerate sweep --resume runs               go on after Ctrl-C or a lost server
",
    )
}

/// `linerate iperf3 --help`: the options by what they are for; their meaning is iperf3's.
pub fn iperf3() -> String {
    "Usage: iperf3 -s [options]
       iperf3 -c HOST [options]

iperf3's command line and output, run by linerate. Sizes take K, M, G, T of 1024, rates of 1000.

Both ends
  -p N  port (5201)               -B ADDRESS  local address       -4, -6  IP version
  -f k|m|g|t|K|M|G|T  rate unit   -i SECONDS  interval, 0 is none (1)
  -V  more lines                  -J  JSON document               --json-stream  JSON lines
  --json-stream-full-output       --logfile FILE                  --timestamps[=FORMAT]
  -I FILE  process number         -A N[,M]  cores                 --rcv-timeout MS (120000)
  -v, -h

Server
  -s  -1  one test                -D  in the background           --idle-timeout SECONDS
  --server-bitrate-limit RATE     --server-max-duration SECONDS
  Logins, where built with the feature iperf3-auth: --rsa-private-key-path FILE,
  --authorized-users-path FILE, --use-pkcs1-padding, --time-skew-threshold SECONDS (10)

Client
  -c HOST  -u  UDP                -b RATE[/BURST]  of each stream (UDP 1M, TCP unlimited)
  -t SECONDS (10)                 -n BYTES                        -k BLOCKS
  -O SECONDS  omitted first       -P N  streams                   -R  server sends
  --bidir  both send              -l BYTES  block or datagram     -w BYTES  socket buffers
  -C NAME  congestion control     -M BYTES  segment size          -N  no delay
  -S N, --dscp N|NAME             -Z  sendfile                    --skip-rx-copy
  --cport N  first local port     --connect-timeout MS            --fq-rate RATE
  -T TEXT  title                  --extra-data TEXT               --get-server-output
  --udp-counters-64bit            --repeating-payload, --dont-fragment  (the server's datagrams)

Taken, and without effect: --snd-timeout, --cntl-ka, --debug, --pacing-timer (old servers obey it),
--no-fq-socket-pacing, --gsro (segmentation offload is always used), --forceflush (always done).
Refused, each with its reason: --sctp, -X, --nstreams, -m, -F, --bind-dev, -L, --username,
--rsa-public-key-path.

Exit codes: 0 complete, 1 anything else, as iperf3's.
"
    .to_owned()
}
