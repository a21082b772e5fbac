//! `docs/errors.md` is made of the kinds of errors and doubts; here it is held to them.

use std::fmt::Write;

use linerate_model::error::ErrorKind;
use linerate_model::record::DoubtKind;

fn page() -> String {
    let mut page = String::from(
        "# Errors and doubts

Every failure is an error with `kind`, `what` (was tried, on what), `why`, `hints` and `exit_code`: the same on a screen, in
a [record](record.md) (`error`) and in JSON without one. `kind` is stable; a later release may add some. This page is made of the
types in `linerate-model`.

| error | means | exit code | try |
|---|---|---|---|
",
    );
    for kind in ErrorKind::ALL {
        let exits: Vec<String> =
            kind.exits().iter().map(|exit| (*exit as u8).to_string()).collect();
        let (meaning, exits) = (kind.meaning(), exits.join(", "));
        let _ = writeln!(page, "| `{kind}` | {meaning} | {exits} | {} |", kind.advice());
    }
    page.push_str(
        "
Where there are two exit codes, the first is the usual one. The other: `3` where a server or a campaign's host refuses,
`2` where its own plan or command line says so first, `1` where it is found on this machine.

## Doubts

A test that ran may have reasons why its result does not mean what it seems to: `doubts[]` of the record, each with `kind`,
`host` (`client` or `server`, where it is about one of them) and, in `text`, its numbers.

| doubt | means | try |
|---|---|---|
",
    );
    for kind in DoubtKind::ALL {
        let _ = writeln!(page, "| `{kind}` | {} | {} |", kind.meaning(), kind.advice());
    }
    page
}

#[test]
fn the_page_lists_every_kind() {
    let wanted = page();
    if std::env::var_os("LINERATE_RENEW").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        std::fs::write(path, &wanted).unwrap();
        return;
    }
    assert!(
        include_str!("../../../docs/errors.md") == wanted,
        "docs/errors.md is not of these kinds; LINERATE_RENEW=1 cargo test -p linerate-model --test errors_page writes it"
    );
}
