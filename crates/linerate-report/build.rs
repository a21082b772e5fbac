//! Packs the large texts that the program has in it: half a MiB becomes an eighth of one.

use std::io::{Error, Write as _};
use std::path::Path;

use flate2::{Compression, write::DeflateEncoder};

/// In the folder `assets`. Without that folder they are called the same where `src/packed.rs` reads them.
const TEXTS: [&str; 4] = [
    "schemas.json",
    "uplot/uPlot.iife.min.js",
    "roboto/Roboto-Regular.txt",
    "roboto/Roboto-Bold.txt",
];

fn main() -> Result<(), Error> {
    println!("cargo::rerun-if-changed=assets");
    let out = std::env::var_os("OUT_DIR").ok_or_else(|| Error::other("cargo says no OUT_DIR"))?;
    for text in TEXTS {
        let from = Path::new("assets").join(text);
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&std::fs::read(&from)?)?;
        let name = from.file_name().unwrap_or_default();
        std::fs::write(Path::new(&out).join(name), packed.finish()?)?;
    }
    Ok(())
}
