//! What `--help` says after the options: examples, and the exit codes.

use crate::exit::Exit;

fn with_exit_codes(examples: &str) -> String {
    let mut text = format!("Examples:\n{examples}\nExit codes:\n");
    for exit in Exit::ALL {
        text.push_str(&format!("{:>5}  {}\n", exit as u8, exit.words()));
    }
    text
}

pub fn top() -> String {
    with_exit_codes(
        "  linerate udp --local                 see a real result on this machine alone
  linerate serve                       the far end, on another machine
  linerate udp HOST --rate 1G          loss, jitter and CPU at a given rate
  linerate tcp HOST                    what TCP gets through
  linerate rr HOST                     transactions per second and latency
",
    )
}

pub fn serve() -> String {
    with_exit_codes(
        "  linerate serve
  linerate serve --bind 192.0.2.1 --max-rate 1G --max-tests 4
  linerate serve --key-file ~/.linerate.key
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
  linerate udp 192.0.2.7 --discard -l 64    send only: nobody has to answer
",
    )
}

pub fn tcp() -> String {
    with_exit_codes(
        "  linerate tcp --local
  linerate tcp HOST -P 4 -t 30s
  linerate tcp HOST -R -C bbr               the server sends, with BBR
  linerate tcp HOST -b 500M                 paced by the kernel
  linerate tcp HOST --rx discard            receivers do not copy the bytes
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

pub fn tools(examples: &str) -> String {
    format!("Examples:\n{examples}")
}
