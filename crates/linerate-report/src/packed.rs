//! Large texts, which the program has in it in few bytes: `build.rs` packs them.

use std::io::Read as _;

use flate2::read::DeflateDecoder;

/// What `build.rs` packed under a name.
macro_rules! packed {
    ($name:literal) => {
        $crate::packed::text(include_bytes!(concat!(env!("OUT_DIR"), "/", $name)))
    };
}
pub(crate) use packed;

/// Nothing where it was not packed by `build.rs`.
pub(crate) fn text(packed: &[u8]) -> String {
    let mut text = String::new();
    match DeflateDecoder::new(packed).read_to_string(&mut text) {
        Ok(_) => text,
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_packed_comes_out_as_it_was() {
        assert_eq!(packed!("schemas.json"), include_str!("../assets/schemas.json"));
        let uplot = include_str!("../assets/uplot/uPlot.iife.min.js");
        assert_eq!(packed!("uPlot.iife.min.js"), uplot);
        let regular = include_str!("../assets/roboto/Roboto-Regular.txt");
        assert_eq!(packed!("Roboto-Regular.txt"), regular);
        assert_eq!(packed!("Roboto-Bold.txt"), include_str!("../assets/roboto/Roboto-Bold.txt"));
        assert_eq!(super::text(b"no stream"), "");
    }
}
