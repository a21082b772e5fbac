//! The server alone, as a router has it (`--no-default-features`), where it was built.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Server, alone, linerate, skip};
use linerate_model::plan::Dialect;

/// Where `./test --long` builds it, and `cargo xtask dist TARGET --server`.
fn built() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_linerate")).ancestors().nth(2)?;
    let places = ["server/debug", "x86_64-unknown-linux-musl/router"];
    places.map(|place| target.join(place).join("linerate")).into_iter().find(|path| path.exists())
}

#[test]
#[ignore = "long"]
fn the_server_alone_serves_clients_of_every_dialect_and_has_no_other_verb() {
    let test = "the_server_alone_serves_clients_of_every_dialect_and_has_no_other_verb";
    let Some(program) = built() else {
        return skip(test, "it is not built; ./test --long does");
    };
    let refused = Command::new(&program).args(["udp", "--local"]).output().expect("it starts");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");

    let _alone = alone();
    let server = Server::of(Command::new(&program), &["--all-dialects"]);
    let own = server.port.to_string();
    for (verb, more) in [("udp", "-b 20M --both"), ("tcp", "-P 2 -R"), ("rr", "--udp --rate 1k")] {
        println!("{verb} {more}");
        let line = format!("{verb} 127.0.0.1 -p {own} -t 300ms --json {more}");
        linerate(None, &line.split(' ').collect::<Vec<_>>()).complete();
    }
    for dialect in Dialect::ALL {
        let name: &str = dialect.as_ref();
        let mut port = own.clone();
        if dialect.port() != Dialect::Native.port() {
            port = dialect.port().to_string();
            server.says(&format!(":{port}\",\"dialect\":\"{name}\""), 1);
        }
        let line = format!("tcp 127.0.0.1 -p {port} --dialect {name} -n 64K --json");
        let ran = linerate(None, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        assert_eq!(ran.record()["agreed"]["dialect"], name);
    }
}
