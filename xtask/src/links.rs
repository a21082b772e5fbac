//! Links of the pages: each leads to a file that is there, and to a heading that it has. And `cargo xtask book`: the
//! same pages as a site with a search.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::root;

/// Pages beside `docs/` that are pages of the site as well.
const BESIDE: &[&str] = &[
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "ROADMAP.md",
    "CODE_OF_CONDUCT.md",
    "python/README.md",
];

/// A link of a page.
struct Link<'a> {
    line: usize,
    /// The whole of it, `[words](to)`.
    whole: &'a str,
    words: &'a str,
    to: &'a str,
}

/// The links of a page, without those in code. One may begin on a line and end on the next, not in another paragraph.
fn links(page: &str) -> Vec<Link<'_>> {
    let mut found = vec![];
    let (mut line, mut fenced) = (1, false);
    for paragraph in page.split_inclusive("\n\n") {
        let fences = paragraph.lines().filter(|line| line.trim_start().starts_with("```")).count();
        let (was_fenced, lines) = (fenced, paragraph.matches('\n').count());
        fenced ^= fences % 2 == 1;
        let mut from = 0;
        while let Some(at) = paragraph[from..].find("](").map(|at| from + at) {
            let open = paragraph[from..at].rfind('[').map(|open| from + open);
            let close = paragraph[at..].find(')').map(|close| at + close);
            let (Some(open), Some(close)) = (open, close) else { break };
            let before = &paragraph[..open];
            let in_fence = before.matches("```").count() % 2 == usize::from(!was_fenced);
            let in_code = before.replace("```", "").matches('`').count() % 2 == 1;
            if !in_fence && !in_code {
                let (whole, words) = (&paragraph[open..=close], &paragraph[open + 1..at]);
                let line = line + paragraph[..at].matches('\n').count();
                found.push(Link { line, whole, words, to: &paragraph[at + 2..close] });
            }
            from = close + 1;
        }
        line += lines;
    }
    found
}

/// A heading as an address, as GitHub and mdBook make it.
fn address(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The addresses within a page: a heading that comes again has a number.
fn addresses(page: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    let mut found = vec![];
    for text in page.lines() {
        fenced ^= text.starts_with("```");
        let Some((marks, heading)) = text.split_once(' ') else { continue };
        if fenced || marks.is_empty() || marks.chars().any(|c| c != '#') {
            continue;
        }
        // What a heading links to is no part of its address.
        let plain =
            links(heading).iter().fold(heading.to_owned(), |h, l| h.replace(l.whole, l.words));
        let address = address(&plain);
        let times = seen.entry(address.clone()).or_default();
        found.push(if *times == 0 { address } else { format!("{address}-{times}") });
        *times += 1;
    }
    found
}

/// Links that lead nowhere, and pages that the table of contents leaves out.
pub fn faults(root: &Path) -> Vec<String> {
    let mut faults = vec![];
    for page in pages(root) {
        let Ok(text) = std::fs::read_to_string(&page) else { continue };
        let name = page.strip_prefix(root).unwrap_or(&page).display();
        for link in links(&text) {
            if link.to.contains("://") || link.to.starts_with("mailto:") {
                continue;
            }
            let (file, part) = link.to.split_once('#').unwrap_or((link.to, ""));
            let to = match file {
                "" => page.clone(),
                file => plain(&page.with_file_name("").join(file)),
            };
            if !to.exists() {
                faults.push(format!("{name}:{}: no {} that the link leads to", link.line, link.to));
            } else if !part.is_empty() && to.extension().is_some_and(|e| e == "md") {
                let there = std::fs::read_to_string(&to).unwrap_or_default();
                if !addresses(&there).iter().any(|address| address == part) {
                    faults.push(format!("{name}:{}: {file} has no heading #{part}", link.line));
                }
            }
        }
    }
    faults.extend(unlisted(root));
    faults
}

fn unlisted(root: &Path) -> Vec<String> {
    let docs = root.join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap_or_default();
    let listed: Vec<_> = links(&summary).iter().map(|link| plain(&docs.join(link.to))).collect();
    let pages = pages(&docs).into_iter().filter(|page| !page.ends_with("SUMMARY.md"));
    let missing = pages.filter(|page| !listed.contains(&plain(page)));
    missing.map(|page| format!("docs/SUMMARY.md leaves out {}", page.display())).collect()
}

/// The pages below a folder, without what is built.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let mut found = vec![];
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with(".git") {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir && plain.file_name().is_some() {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// `cargo xtask book`.
pub fn book() -> Result<String, Vec<String>> {
    let failed = |path: &Path, e: std::io::Error| vec![format!("{}: {e}", path.display())];
    let (docs, book) = (root().join("docs"), root().join("target/book"));
    let source = book.join("src");
    let _ = std::fs::remove_dir_all(&book);
    let beside = BESIDE.iter().map(|name| {
        // README.md of the tree would be that of docs/.
        (root().join(name), source.join(name.replace("README", "linerate")))
    });
    let inside = pages(&docs).into_iter().map(|page| {
        let to = source.join(page.strip_prefix(&docs).unwrap_or(&page));
        (page, to)
    });
    for (from, to) in inside.chain(beside) {
        let text = std::fs::read_to_string(&from).map_err(|e| failed(&from, e))?;
        let text = on_the_site(&from, &to, &text, &source);
        std::fs::create_dir_all(to.with_file_name("")).map_err(|e| failed(&to, e))?;
        std::fs::write(&to, text).map_err(|e| failed(&to, e))?;
    }
    let pictures = docs.join("pictures");
    let entries = std::fs::read_dir(&pictures).map_err(|e| failed(&pictures, e))?;
    std::fs::create_dir_all(source.join("pictures")).map_err(|e| failed(&source, e))?;
    for entry in entries.flatten() {
        let to = source.join("pictures").join(entry.file_name());
        std::fs::copy(entry.path(), &to).map_err(|e| failed(&to, e))?;
    }
    let settings = root().join("docs/book.toml");
    std::fs::copy(&settings, book.join("book.toml")).map_err(|e| failed(&settings, e))?;
    let built = Command::new("mdbook").arg("build").arg(&book).output();
    match built {
        Ok(out) if out.status.success() => Ok(book.join("book/index.html").display().to_string()),
        Ok(out) => Err(vec![String::from_utf8_lossy(&out.stderr).into_owned()]),
        Err(e) => Err(vec![format!("mdbook: {e}; cargo install --locked mdbook")]),
    }
}

/// A page with the links that it has on the site: those to what is no page there are words.
fn on_the_site(from: &Path, to: &Path, text: &str, source: &Path) -> String {
    let tree = plain(&root());
    let mut text = text.to_owned();
    let page = text.clone();
    for link in links(&page) {
        if link.to.contains("://") || link.to.starts_with('#') {
            continue;
        }
        let (file, part) = link.to.split_once('#').unwrap_or((link.to, ""));
        let whole = plain(&from.with_file_name("").join(file));
        let name = whole.strip_prefix(&tree).unwrap_or(&whole);
        let place = match name.strip_prefix("docs") {
            Ok(page) if page.extension().is_some() => Some(page.to_owned()),
            _ if BESIDE.iter().any(|page| name == Path::new(page)) => {
                Some(PathBuf::from(name.to_string_lossy().replace("README", "linerate")))
            }
            _ => None,
        };
        let there = match place {
            None => link.words.to_owned(),
            Some(place) => {
                let deep = to.strip_prefix(source).unwrap_or(to).components().count() - 1;
                let hash = if part.is_empty() { "" } else { "#" };
                let mut place = place.display().to_string();
                // mdbook makes an index.html of it, and leaves links to it as they are.
                if !to.ends_with("SUMMARY.md") {
                    place = place.replace("README.md", "index.md");
                }
                format!("[{}]({}{place}{hash}{part})", link.words, "../".repeat(deep))
            }
        };
        text = text.replace(link.whole, &there);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_where_they_are() {
        let page = "[a](b.md) `[no](c.md)` [`d`](e.md#f)\n```\n[no](g.md)\n\n[no](h.md)\n```\n\n- of\n  [two\n  lines](i.md)\n";
        let found: Vec<_> = links(page).iter().map(|l| (l.line, l.words, l.to)).collect();
        let two = (10, "two\n  lines", "i.md");
        assert_eq!(found, [(1, "a", "b.md"), (1, "`d`", "e.md#f"), two]);
    }

    #[test]
    fn headings_have_the_addresses_that_readers_give_them() {
        let page = "# What a server logs\n## `--json`, and more\n## As [a](b.md)\n```\n# no\n```\n## As a\n";
        assert_eq!(addresses(page), ["what-a-server-logs", "--json-and-more", "as-a", "as-a-1"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let tree = std::env::temp_dir().join(format!("linerate-links-{}", std::process::id()));
        let docs = tree.join("docs");
        std::fs::create_dir_all(&docs).unwrap();
        std::fs::write(docs.join("SUMMARY.md"), "[a](a.md)\n").unwrap();
        std::fs::write(docs.join("a.md"), "# A\n[b](b.md) [c](#c) [a](../docs/a.md#a)\n").unwrap();
        std::fs::write(docs.join("b.md"), "").unwrap();
        let found = faults(&tree);
        std::fs::remove_dir_all(&tree).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("a.md:2: "), "{found:?}");
        assert!(found[1].contains("leaves out"), "{found:?}");
    }

    /// mdbook takes no entry without a link.
    #[test]
    fn each_entry_of_the_sites_contents_is_a_page_of_it() {
        let (source, summary) = (Path::new("/site"), root().join("docs/SUMMARY.md"));
        let text = std::fs::read_to_string(&summary).unwrap();
        let shown = on_the_site(&summary, &source.join("SUMMARY.md"), &text, source);
        assert!(shown.contains("\n- [From Python](python/linerate.md)\n"), "{shown}");
        let entries = shown.lines().filter(|line| line.trim_start().starts_with("- "));
        let plain: Vec<_> = entries.filter(|entry| links(entry).len() != 1).collect();
        assert_eq!(plain, Vec::<&str>::new());
    }

    #[test]
    fn a_page_of_the_site_links_to_its_pages_alone() {
        let source = Path::new("/site");
        let page = "[x](../CONTRIBUTING.md#y) [code](../crates/a.rs) [l](loss.md) [r](../README.md) ![p](pictures/a.svg)";
        let shown = on_the_site(&root().join("docs/a.md"), &source.join("a.md"), page, source);
        assert_eq!(
            shown,
            "[x](CONTRIBUTING.md#y) code [l](loss.md) [r](linerate.md) ![p](pictures/a.svg)"
        );
    }
}
