//! The pages. Each is complete in one file: what it shows comes as events and is drawn by its script, or, of a fleet, is
//! in it.

use linerate_report::page::{Page, UPLOT_STYLE, render, uplot};

const STYLE: &str = include_str!("../../assets/web.css");
/// What the pages share.
const SHARED: &str = include_str!("../../assets/web.js");

/// A page.
pub struct Html(String);

impl Html {
    /// Of a test.
    pub fn of_test() -> Self {
        const BODY: &str = include_str!("../../assets/test.html");
        let style = format!("{UPLOT_STYLE}{STYLE}");
        let uplot = uplot();
        let scripts = [uplot.as_str(), SHARED, include_str!("../../assets/test.js")];
        Self::new("linerate: a test", &style, BODY, &scripts)
    }

    /// Of a server.
    pub fn of_server() -> Self {
        const BODY: &str = include_str!("../../assets/serve.html");
        let scripts = [SHARED, include_str!("../../assets/serve.js")];
        Self::new("linerate serve", STYLE, BODY, &scripts)
    }

    /// Of a fleet, with this body.
    pub(super) fn of_fleet(title: &str, body: &str) -> Self {
        let style = format!("{STYLE}{}", include_str!("../../assets/fleet.css"));
        let scripts = [SHARED, include_str!("../../assets/fleet.js")];
        Self::new(title, &style, body, &scripts)
    }

    fn new(title: &str, style: &str, body: &str, scripts: &[&str]) -> Self {
        Self(render(&Page { title, style, body, scripts, data: &[], connects: true }))
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_asks_only_where_it_came_from() {
        for (page, parts) in [
            (Html::of_test(), ["id=\"rates\"", "id=\"lost\"", "id=\"cores\"", "id=\"answer\""]),
            (
                Html::of_server(),
                ["id=\"running\"", "id=\"ended\"", "id=\"refused\"", "id=\"other\""],
            ),
        ] {
            let page = page.as_str();
            assert!(page.contains("connect-src 'self';") && page.contains("default-src 'none';"));
            for part in parts.iter().chain(&["id=\"state\"", "EventSource(\"events\")"]) {
                assert!(page.contains(part), "{part}");
            }
            // No address of another place, but for names of XML and of licences.
            for outside in
                ["src=\"", "@import", "url(", "<link", "innerHTML", "style=\"", "onclick=\""]
            {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }
}
