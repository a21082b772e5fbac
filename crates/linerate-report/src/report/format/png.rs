//! The figures as pixels: the SVG with its colours written out and its texts as outlines of a font of its own, so
//! that the picture is the same on every machine.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::roxmltree::{Document, Node};
use resvg::usvg::{Error, Options, Tree};

use super::{Look, svg};
use crate::draw::WIDTH;
use crate::packed::packed;
use crate::report::figure::PIXELS;
use crate::report::view::View;

/// Roboto 2.138 (Apache 2.0), regular and bold: Latin, Greek, Cyrillic and signs; see `assets/README.md`.
static FONTS: LazyLock<[String; 2]> =
    LazyLock::new(|| [packed!("Roboto-Regular.txt"), packed!("Roboto-Bold.txt")]);

/// Units of the fonts for each em.
const EM: f64 = 2048.0;

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
    let pixmap = drawn(svg, scale, width, height)?;
    encode(&pixmap).map_err(|e| format!("the picture cannot be encoded: {e}"))
}

fn drawn(svg: &str, scale: f64, width: u32, height: u32) -> Result<Pixmap, String> {
    let tree = outlined(svg)
        .and_then(|text| Tree::from_str(&text, &Options::default()))
        .map_err(|e| format!("the drawing cannot be read: {e}"))?;
    let mut pixmap = Pixmap::new(width, height).ok_or("the picture has no size")?;
    resvg::render(&tree, Transform::from_scale(scale as f32, scale as f32), &mut pixmap.as_mut());
    Ok(pixmap)
}

/// The drawing with outlines in place of its texts: resvg is built without what reads fonts.
fn outlined(svg: &str) -> Result<String, Error> {
    let fonts = FONTS.each_ref().map(|font| letters(font));
    let document = Document::parse(svg)?;
    let mut out = String::new();
    let mut end = 0;
    for text in document.descendants().filter(|node| node.has_tag_name("text")) {
        let range = text.range();
        out.push_str(svg.get(end..range.start).unwrap_or_default());
        out.push_str(&outline(text, &fonts));
        end = range.end;
    }
    out.push_str(svg.get(end..).unwrap_or_default());
    Ok(out)
}

/// A font's letters, each with its width and its outline as a path of relative steps.
type Letters = HashMap<char, (i64, &'static str)>;

/// Reads what `assets/roboto/outlines.py` wrote.
fn letters(table: &'static str) -> Letters {
    let letter = |line: &'static str| {
        let mut fields = line.split('\t');
        let letter = fields.next()?.parse::<char>().ok()?;
        let width = fields.next()?.parse::<i64>().ok()?;
        Some((letter, (width, fields.next().unwrap_or_default())))
    };
    table.lines().filter_map(letter).collect()
}

/// A text as a path, one letter after the other from left to right, sized as [`crate::draw::rules`] say.
fn outline(text: Node<'_, '_>, [regular, bold]: &[Letters; 2]) -> String {
    let class = text.attribute("class").unwrap_or_default();
    let around = text.parent().and_then(|parent| parent.attribute("class"));
    let (size, font) = match class {
        "title" => (15.0, bold),
        "name" => (13.0, bold),
        "mark" => (12.0, bold),
        "soft" => (12.0, regular),
        _ if around == Some("frame") => (11.0, regular),
        _ => (13.0, regular),
    };
    let mut path = String::new();
    let mut width = 0_i64;
    // The font has no arrows.
    let letters = text.text().unwrap_or_default().replace('↔', "‹›").replace('→', "›");
    for letter in letters.chars() {
        // Letters that the font lacks become the sign for that, instead of vanishing.
        let known = font.get(&letter).or_else(|| font.get(&'\u{fffd}'));
        let Some((advance, steps)) = known else { continue };
        let _ = write!(path, "M{width} 0{steps}");
        width += *advance;
    }
    let before = match text.attribute("text-anchor") {
        Some("middle") => width / 2,
        Some("end") => width,
        _ => 0,
    };
    format!(
        "<path class=\"text {class}\" transform=\"{} translate({} {}) scale({}) translate({} 0)\" d=\"{path}\"/>",
        text.attribute("transform").unwrap_or_default(),
        text.attribute("x").unwrap_or("0"),
        text.attribute("y").unwrap_or("0"),
        size / EM,
        -before
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Theme, document, rules};

    /// Pixels of a unit in these tests, and width and height of their pictures.
    const FINE: f64 = 4.0;
    const SIDE: u32 = 240;

    /// H of the regular font and of the bold one: its left edge, its right edge, its width.
    const REGULAR: [f64; 3] = [169.0, 1288.0, 1461.0];
    const BOLD: [f64; 3] = [130.0, 1316.0, 1448.0];
    /// How high an H is in both.
    const HIGH: f64 = 1456.0;

    /// Left, right, upper and lower edge of what is dark, in units of the drawing, and the darkest colour.
    fn ink(body: &str) -> ([f64; 4], [u8; 3]) {
        let svg = document(Theme::Light, 60.0, "", body);
        let picture = drawn(&svg, FINE, SIDE, SIDE).unwrap();
        let mut edges = [f64::MAX, 0.0, f64::MAX, 0.0];
        let mut darkest = [255; 3];
        for (i, pixel) in picture.pixels().iter().enumerate() {
            if pixel.green() >= 128 {
                continue;
            }
            let at = |pixels: usize| pixels as f64 / FINE;
            let (x, y) = (i % SIDE as usize, i / SIDE as usize);
            edges = [
                edges[0].min(at(x)),
                edges[1].max(at(x + 1)),
                edges[2].min(at(y)),
                edges[3].max(at(y + 1)),
            ];
            if pixel.green() < darkest[1] {
                darkest = [pixel.red(), pixel.green(), pixel.blue()];
            }
        }
        (edges, darkest)
    }

    #[track_caller]
    fn stands(body: &str, wanted: [f64; 4], colour: [u8; 3]) {
        let (edges, darkest) = ink(body);
        // A pixel at the edge may be less than half covered.
        let near = edges.iter().zip(wanted).all(|(edge, wanted)| (edge - wanted).abs() < 0.3);
        assert!(near, "{body}: {edges:?}, not {wanted:?}");
        assert_eq!(darkest, colour, "{body}");
    }

    #[test]
    fn a_text_is_drawn_at_its_place_in_its_size_weight_and_colour() {
        let (dark, soft, red) = ([0x1b, 0x1f, 0x24], [0x59, 0x63, 0x6e], [0xb3, 0x26, 0x1e]);
        // The last is how many widths of an H the text begins before its point.
        for (class, size, [left, right, width], colour, anchor, before) in [
            ("", 13.0, REGULAR, dark, "start", 0.0),
            ("soft", 12.0, REGULAR, soft, "middle", 1.0),
            ("name", 13.0, BOLD, dark, "end", 2.0),
            ("title", 15.0, BOLD, dark, "start", 0.0),
            ("mark", 12.0, BOLD, red, "start", 0.0),
        ] {
            let em = |units: f64| (units - before * width) * size / EM;
            let body = format!(
                "<text class=\"{class}\" x=\"30\" y=\"40\" text-anchor=\"{anchor}\">HH</text>"
            );
            let top = 40.0 - HIGH * size / EM;
            stands(&body, [30.0 + em(left), 30.0 + em(width + right), top, 40.0], colour);
        }
        let em = |units: f64| units * 11.0 / EM;
        let [left, right, width] = REGULAR;
        let body = "<g class=\"frame\"><text x=\"30\" y=\"40\">HH</text></g>";
        stands(body, [30.0 + em(left), 30.0 + em(width + right), 40.0 - em(HIGH), 40.0], dark);
    }

    #[test]
    fn a_turned_text_and_one_in_a_smaller_drawing_go_where_these_go() {
        let [left, right, width] = REGULAR;
        let em = |units: f64| units * 12.0 / EM;
        let soft = [0x59, 0x63, 0x6e];
        // Upwards, from below its middle.
        let text = "<text class=\"soft\" transform=\"translate(20 30) rotate(-90)\" text-anchor=\"middle\">HH</text>";
        let (above, below) = (30.0 - em(right), 30.0 + em(width - left));
        stands(text, [20.0 - em(HIGH), 20.0, above, below], soft);
        let text = "<g transform=\"translate(10 0) scale(0.8)\"><text class=\"soft\" x=\"10\" y=\"50\">H</text></g>";
        let (from, to) = (18.0 + em(left) * 0.8, 18.0 + em(right) * 0.8);
        stands(text, [from, to, 40.0 - em(HIGH) * 0.8, 40.0], soft);
    }

    #[test]
    fn both_fonts_have_the_same_letters_and_all_but_spaces_can_be_seen() {
        let [regular, bold] = FONTS.each_ref().map(|font| letters(font));
        assert_eq!((regular.len(), bold.len()), (507, 507));
        assert!(regular.keys().all(|letter| bold.contains_key(letter)));
        for (letter, (width, steps)) in regular.iter().chain(&bold) {
            assert!((1..=4096).contains(width), "{letter} {width}");
            assert_eq!(steps.is_empty(), letter.is_whitespace(), "{letter}");
            assert!(steps.is_empty() || steps.starts_with('m') && steps.ends_with('z'), "{letter}");
        }
        assert_eq!((regular[&'A'].0, bold[&'A'].0), (1336, 1379));
    }

    #[test]
    fn what_the_font_lacks_is_drawn_as_the_sign_for_that() {
        let path = |text: &str| outlined(&format!("<svg><text>{text}</text></svg>")).unwrap();
        let lacking = path("\u{4e2d}\u{5e9}e\u{301}\u{1f680}");
        assert_eq!(lacking, path("\u{fffd}\u{fffd}e\u{fffd}\u{fffd}"));
        assert_eq!(path("a → b"), path("a › b"));
        assert_eq!(path("a ↔ b"), path("a ‹› b"));
        let [regular, _] = FONTS.each_ref().map(|font| letters(font));
        let wanted = format!("d=\"M0 0{}M1016 0{}\"/></svg>", regular[&'x'].1, regular[&'<'].1);
        assert!(path("x&lt;").ends_with(&wanted));
        assert!(path("").ends_with("d=\"\"/></svg>"));
        let (edges, _) = ink("<text x=\"10\" y=\"40\">\u{4e2d}</text>");
        assert!(edges[1] - edges[0] > 8.0 && edges[3] - edges[2] > 8.0, "{edges:?}");
    }

    /// Sizes and weights stand twice: for readers of SVG in the style sheet, and here.
    #[test]
    fn pictures_have_the_type_of_the_style_sheet() {
        for rule in [
            ".lr text{fill:var(--ink);font:13px ",
            ".lr .soft{fill:var(--soft);font-size:12px}",
            ".lr .name{font-weight:600}",
            ".lr .title{font-size:15px;font-weight:600}",
            ".lr .mark{fill:var(--mean);font-weight:600;font-size:12px}",
            ".lr .frame text{font-size:11px}",
        ] {
            assert!(rules().contains(rule), "{rule}");
        }
        assert_eq!(rules().matches("font").count(), 8);
    }
}
