//! Foreign text in a row of CSV.

/// Foreign text as a field, on one line and quoted where it must be. A spreadsheet takes what begins
/// like a formula for one (some take full-width signs too), so that begins with an apostrophe.
/// Numbers of our own are no foreign text and need none of this.
pub fn field(text: &str) -> String {
    let clean = crate::clean::clean(text);
    let signs = ['=', '+', '-', '@', '|', '%', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
    let formula = clean.trim_start().starts_with(signs);
    let text = if formula { format!("'{clean}") } else { clean.into_owned() };
    if text.contains([',', '"', ';']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_a_formula_or_breaks_its_row() {
        for (text, want) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            (" @SUM(1)", "' @SUM(1)"),
            ("two\nlines\r", "two lines"),
            ("\t=1+1", "' =1+1"),
            ("\u{ff1d}1+1", "'\u{ff1d}1+1"),
            ("a;b", "\"a;b\""),
            ("", ""),
        ] {
            assert_eq!(field(text), want);
        }
    }
}
