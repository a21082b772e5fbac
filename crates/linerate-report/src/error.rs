//! An error as a person reads it: what was tried, why it failed, what to try.

use linerate_model::lines::NoDocument;
use linerate_model::record::ErrorRecord;

use crate::clean::clean;
use crate::style::{Paint, Tone};

/// Several lines; ends in a line end.
pub fn text(error: &ErrorRecord, paint: Paint) -> String {
    let mut out = format!("{} {}\n", paint.apply(Tone::Bad, "error:"), clean(&error.what));
    if !error.why.is_empty() {
        out.push_str(&format!("  caused by: {}\n", clean(&error.why)));
    }
    if !error.hints.is_empty() {
        out.push('\n');
    }
    out + &hints(error, paint)
}

/// What to try, a line each: where the error itself has been shown already.
pub fn hints(error: &ErrorRecord, paint: Paint) -> String {
    let mut out = String::new();
    for hint in &error.hints {
        out.push_str(&format!("{} {}\n", paint.apply(Tone::Label, "hint:"), clean(hint)));
    }
    out
}

/// `{"error":{…}}`, for a program that asked for JSON and gets no record.
pub fn json(error: &ErrorRecord) -> serde_json::Value {
    serde_json::to_value(NoDocument { error }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_why_and_what_to_try() {
        let error = linerate_testkit::records::failed().error.unwrap();
        insta::assert_snapshot!(text(&error, Paint { colour: false }), @r"
        error: cannot reach a linerate server at hydra2 port 5201
          caused by: Connection refused (os error 111)

        hint: start one there: linerate serve
        hint: if it listens on another port: --port N
        ");
        insta::assert_snapshot!(json(&error), @r#"{"error":{"exit_code":3,"hints":["start one there: linerate serve","if it listens on another port: --port N"],"kind":"refused","what":"cannot reach a linerate server at hydra2 port 5201","why":"Connection refused (os error 111)"}}"#);
    }
}
