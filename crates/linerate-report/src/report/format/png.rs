//! The figures as pixels: the SVG with its colours written out, drawn with a font of its own, so
//! that the picture is the same on every machine.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::{Look, svg};
use crate::draw::WIDTH;
use crate::report::figure::PIXELS;
use crate::report::view::View;

/// Roboto 2.138 (Apache 2.0): Latin, Greek, Cyrillic and signs; see `assets/README.md`.
const FONTS: [&[u8]; 2] = [
    include_bytes!("../../../assets/roboto/Roboto-Regular.ttf"),
    include_bytes!("../../../assets/roboto/Roboto-Bold.ttf"),
];

/// Pixels for each unit of a drawing.
const SCALE: f64 = 2.0;

/// Most rows of a picture: beyond, viewers give up, and so would memory (7.5 kB a row).
const MOST_ROWS: f64 = 30_000.0;

/// Whether a file begins as [`encode`] begins one: signature, header, then the word on who made it.
pub(super) fn is_report(head: &[u8]) -> bool {
    /// Eight bytes, and a chunk of 13 with its length, name and checksum.
    const SIGNATURE_AND_HEADER: usize = 8 + 25;
    head.starts_with(b"\x89PNG\r\n\x1a\n")
        && head
            .get(SIGNATURE_AND_HEADER + 4..)
            .is_some_and(|chunk| chunk.starts_with(b"tEXtSoftware\0linerate report "))
}

pub(super) fn render(view: &View, look: &Look) -> Result<Vec<u8>, String> {
    if let Some(name) = &look.figure {
        let (width, height) = PIXELS;
        let text = view.slide(name, look.theme())?;
        return pixels(&text, f64::from(width) / WIDTH, width, height);
    }
    let (height, text) = svg::draw(view, look.theme())?;
    let scale = SCALE.min(MOST_ROWS / height);
    if scale < 0.5 {
        return Err(format!(
            "the figures are {height:.0} units high, too many for one picture: write .svg or .html, or report fewer files"
        ));
    }
    pixels(&text, scale, (WIDTH * scale).ceil() as u32, (height * scale).ceil() as u32)
}

fn pixels(svg: &str, scale: f64, width: u32, height: u32) -> Result<Vec<u8>, String> {
    let mut fonts = fontdb::Database::new();
    for font in FONTS {
        fonts.load_font_data(font.to_vec());
    }
    let text = readable(svg);
    let options =
        Options { font_family: "Roboto".into(), fontdb: Arc::new(fonts), ..Options::default() };
    let tree =
        Tree::from_str(&text, &options).map_err(|e| format!("the drawing cannot be read: {e}"))?;
    let mut pixmap = Pixmap::new(width, height).ok_or("the picture has no size")?;
    resvg::render(&tree, Transform::from_scale(scale as f32, scale as f32), &mut pixmap.as_mut());
    encode(&pixmap).map_err(|e| format!("the picture cannot be encoded: {e}"))
}

/// Letters that both fonts have, as ranges; a test keeps them so.
const LETTERS: &[(u32, u32)] = &[
    (0x20, 0x7e),
    (0xa0, 0x17f),
    (0x391, 0x3a1),
    (0x3a3, 0x3c9),
    (0x400, 0x45f),
    (0x2010, 0x2015),
    (0x2018, 0x201e),
    (0x2020, 0x2022),
    (0x2026, 0x2026),
    (0x2030, 0x2030),
    (0x2032, 0x2033),
    (0x2039, 0x203a),
    (0x2044, 0x2044),
    (0x20ac, 0x20ac),
    (0x2122, 0x2122),
    (0x2202, 0x2202),
    (0x2206, 0x2206),
    (0x2211, 0x2212),
    (0x221a, 0x221a),
    (0x221e, 0x221e),
    (0x2248, 0x2248),
    (0x2260, 0x2260),
    (0x2264, 0x2265),
    (0xfffd, 0xfffd),
];

fn known(letter: char) -> bool {
    let code = letter as u32;
    LETTERS.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Letters that the font lacks become the sign for that, instead of vanishing.
fn readable(svg: &str) -> String {
    svg.chars()
        .map(|c| match c {
            '\n' => '\n',
            '→' => '›',
            c if known(c) => c,
            _ => '\u{fffd}',
        })
        .collect()
}

/// The pixels as PNG, with a word on who made it. Everything is opaque.
fn encode(pixmap: &Pixmap) -> Result<Vec<u8>, png::EncodingError> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, pixmap.width(), pixmap.height());
    // With its alpha, which packs to little: a loop over millions of pixels would be slow in a crate that is built soon.
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    encoder.add_text_chunk(
        "Software".into(),
        concat!("linerate report ", env!("CARGO_PKG_VERSION")).into(),
    )?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixmap.data())?;
    writer.finish()?;
    Ok(out)
}
