//! The `linerate` program.

mod ministat;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from("linerate"));
    if Path::new(&program).file_name() == Some(OsStr::new("ministat")) {
        return ministat::run(&program, args.collect());
    }
    let verb = args.next();
    match verb.as_deref().and_then(OsStr::to_str) {
        Some("ministat") => ministat::run(OsStr::new("ministat"), args.collect()),
        _ => {
            eprintln!("error: no such command");
            ExitCode::from(2)
        }
    }
}
