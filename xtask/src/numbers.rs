//! Numbers that say whether the house stays one in which things are found, and their limits.
//!
//! Production code is what is reached from a crate's `lib.rs` or `main.rs` without the items marked
//! `#[cfg(test)]`, of all crates but those in [`TESTS_ONLY`]. Its lines are all lines, comments and
//! empty ones too. A function goes from `fn` to its last brace.

mod circles;
mod options;
mod source;
mod tokens;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::source::{Crate, File, Function, read, rust_files};

/// A number that may get better, but not worse.
struct Row {
    name: &'static str,
    wanted: u64,
    /// What was reached. Whoever makes it better lowers this as well.
    limit: u64,
    better: Better,
    shown: Shown,
    count: fn(&Tree) -> u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    Less,
    More,
}

#[derive(Clone, Copy)]
enum Shown {
    Whole,
    /// Of a thousand, as percent.
    Permille,
    /// Hundredths.
    Ratio,
}

use Better::{Less, More};
use Shown::{Permille, Ratio, Whole};

/// First what is wanted, then what holds. Where they differ, what is in the way stands above the row.
const ROWS: &[Row] = &[
    // A feature may raise this by what it takes, and nothing else may; docs/decisions/0010-size.md says why it is not
    // what was wanted.
    row("production lines", 52_000, 130_282, Less, Whole, |t| sum(t.files().map(|f| f.lines))),
    // Long are what asks a dialect's questions in one go, data loops, and pages of the report.
    row("function p95", 45, 40, Less, Whole, |t| p95(t.functions().map(|f| f.lines))),
    row("functions over 70 lines", 10, 5, Less, Permille, |t| {
        share(t.functions().filter(|f| f.lines > LONG).count(), t.functions().count(), 1000)
    }),
    row("longest function", 120, 104, Less, Whole, |t| max(t.functions().map(|f| f.lines))),
    row("file p95", 400, 389, Less, Whole, |t| p95(t.files().map(|f| f.lines))),
    row("longest file", 600, 600, Less, Whole, |t| max(t.files().map(|f| f.lines))),
    row("circles of files", 0, 0, Less, Whole, |t| sum(t.circles().map(|_| 1))),
    row("files in them", 0, 0, Less, Whole, |t| sum(t.circles().map(|circle| circle.len()))),
    row("clock readings outside runner, data and engine", 0, 0, Less, Whole, |t| {
        sum(t.clocks().map(|f| f.clocks))
    }),
    // As `Stopwatch`, a date or the time of day from linerate-runner's `clock`: the binary's screens, logs and waits.
    row("clock readings by way of runner's", 0, 29, Less, Whole, |t| {
        let others = t.crates.iter().filter(|c| !MAY_READ_CLOCKS.contains(&&*c.name));
        sum(others.flat_map(|c| &c.files).map(|f| f.clocks_of_runner))
    }),
    // Tests of the program are not counted here.
    row("tests of runner to its code", 40, 45, More, Ratio, |t| {
        let runner = || t.crates.iter().filter(|c| c.name == "linerate-runner");
        let tests = runner().map(|c| c.test_lines).sum::<usize>();
        share(tests, runner().map(Crate::lines).sum(), 100)
    }),
    row("tests of runner, data and dialect to their code", 40, 51, More, Ratio, |t| {
        let both = || t.crates.iter().filter(|c| CONVERSING.contains(&&*c.name));
        let tests = both().map(|c| c.test_lines).sum::<usize>() + t.whole_tests;
        share(tests, both().map(Crate::lines).sum(), 100)
    }),
    // A request has its options, its plan, its message, its record and its lines; each dialect has its own
    // words for them. A file that is parted may count twice.
    row("files that name an option (median)", 5, 5, Less, Whole, |t| {
        let mut counts: Vec<_> = t.options().into_iter().map(|(_, files)| files).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).map_or(0, |count| whole(*count))
    }),
    // Those of a test are in each protocol, and what is called like a member that many types have (`plan`, `bytes`) is
    // found too often: the most, over 100, says nothing.
    row("options named in more than 5 files", 0, 84, Less, Whole, |t| {
        whole(t.options().into_iter().filter(|(_, files)| *files > 5).count())
    }),
    // Verbs of what came after the aim was set, and the faces of four programs; docs/decisions/0010-size.md.
    row("lines of the binary and its arguments", 5_000, 20_216, Less, Whole, |t| {
        sum(t.crates.iter().filter(|c| BINARY.contains(&&*c.name)).map(Crate::lines))
    }),
    // What the field calls otherwise: source.rs has them.
    row("old words in texts", 0, 0, Less, Whole, |t| sum(t.files().map(|f| f.old_words.len()))),
    // Each has its reason, which a lint asks for, and all are in one crate.
    row("blocks of unsafe", 60, 24, Less, Whole, |t| sum(t.files().map(|f| f.unsafe_blocks))),
    row("kinds of errors that no page lists", 0, 0, Less, Whole, |t| whole(t.unlisted().len())),
];

const fn row(
    name: &'static str,
    wanted: u64,
    limit: u64,
    better: Better,
    shown: Shown,
    count: fn(&Tree) -> u64,
) -> Row {
    Row { name, wanted, limit, better, shown, count }
}

/// Lines above which a function is a long one.
const LONG: usize = 70;
/// Lines above which a file is looked at.
const LARGE: usize = 400;
const TESTS_ONLY: &[&str] = &["linerate-lab", "linerate-testkit"];
const MAY_READ_CLOCKS: &[&str] = &["linerate-runner", "linerate-data", "linerate-engine"];
const BINARY: &[&str] = &["linerate", "linerate-ask"];
const CONVERSING: &[&str] = &["linerate-runner", "linerate-data", "linerate-dialect"];

/// What the testkit has for whole tests of conversations: the world, what must hold in it, a toy dialect.
const WHOLE_TESTS: &[&str] = &["whole.rs", "whole", "toy.rs"];

/// Production code and documentation.
struct Tree {
    crates: Vec<Crate>,
    /// Lines of [`WHOLE_TESTS`].
    whole_tests: usize,
    docs: String,
}

impl Tree {
    fn read(root: &Path) -> Result<Self, String> {
        let folder = |name: &str| {
            let path = root.join(name);
            let entries =
                std::fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            Ok::<_, String>(paths)
        };
        let names =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let crates = folder("crates")?.into_iter().filter(|p| !TESTS_ONLY.contains(&&*names(p)));
        let pages =
            folder("docs")?.into_iter().filter(|p| p.extension().is_some_and(|e| e == "md"));
        let testkit = root.join("crates/linerate-testkit");
        let of_them = |path: &PathBuf| {
            WHOLE_TESTS.iter().any(|name| path.starts_with(testkit.join("src").join(name)))
        };
        let whole = rust_files(&testkit)
            .into_iter()
            .filter(of_them)
            .map(|path| Ok(read(&path)?.lines().count()));
        Ok(Self {
            whole_tests: whole.sum::<Result<_, String>>()?,
            crates: crates.map(|path| Crate::read(&path)).collect::<Result<_, _>>()?,
            docs: pages.map(|path| read(&path)).collect::<Result<_, _>>()?,
        })
    }

    fn files(&self) -> impl Iterator<Item = &File> {
        self.crates.iter().flat_map(|c| &c.files)
    }

    fn circles(&self) -> impl Iterator<Item = Vec<&Path>> {
        self.crates.iter().flat_map(Crate::circles)
    }

    /// Files that read clocks and should be given the time.
    fn clocks(&self) -> impl Iterator<Item = &File> {
        let others = self.crates.iter().filter(|c| !MAY_READ_CLOCKS.contains(&&*c.name));
        others.flat_map(|c| &c.files).filter(|f| f.clocks > 0)
    }

    fn functions(&self) -> impl Iterator<Item = &Function> {
        self.files().flat_map(|f| &f.functions)
    }

    fn options(&self) -> Vec<(&str, usize)> {
        options::options(&self.crates)
    }

    fn unlisted(&self) -> BTreeSet<&str> {
        let kinds = self.files().flat_map(|f| &f.kinds).map(String::as_str);
        kinds.filter(|kind| !self.docs.contains(&format!("`{kind}`"))).collect()
    }
}

fn whole(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn sum(of: impl Iterator<Item = usize>) -> u64 {
    whole(of.sum())
}

fn max(of: impl Iterator<Item = usize>) -> u64 {
    whole(of.max().unwrap_or(0))
}

/// The smallest that is not below 95 of a hundred.
fn p95(of: impl Iterator<Item = usize>) -> u64 {
    let mut of: Vec<_> = of.collect();
    of.sort_unstable();
    let at = (of.len() * 95).div_ceil(100);
    whole(at.checked_sub(1).map_or(0, |at| of[at]))
}

/// `part` of `all` in parts of `scale`, rounded.
fn share(part: usize, all: usize, scale: usize) -> u64 {
    whole((part * scale + all / 2).checked_div(all).unwrap_or(0))
}

impl Row {
    fn is_worse(&self, than: u64, value: u64) -> bool {
        if self.better == Less { value > than } else { value < than }
    }

    fn show(&self, value: u64) -> String {
        match self.shown {
            Whole => value.to_string(),
            Permille => format!("{}.{} %", value / 10, value % 10),
            Ratio => format!("{}.{:02}", value / 100, value % 100),
        }
    }
}

/// What is worse than it was.
pub fn faults(root: &Path) -> Vec<String> {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(fault) => return vec![fault],
    };
    let fault = |row: &Row| {
        let value = (row.count)(&tree);
        row.is_worse(row.limit, value).then(|| {
            format!(
                "{}: {}, which was {} before (xtask/src/numbers.rs); \
                 `cargo xtask tidy --numbers` shows where",
                row.name,
                row.show(value),
                row.show(row.limit)
            )
        })
    };
    ROWS.iter().filter_map(fault).collect()
}

/// The numbers of a tree: in sum, of each crate, and what is largest.
pub fn table(root: &Path) -> Result<String, Vec<String>> {
    let tree = Tree::read(root).map_err(|fault| vec![fault])?;
    let mut text = format!("\n{:<44}{:>9}{:>9}{:>9}\n", "", "is", "limit", "wanted");
    for row in ROWS {
        let value = (row.count)(&tree);
        let [is, limit, wanted] = [value, row.limit, row.wanted].map(|value| row.show(value));
        let mark = match (row.is_worse(row.limit, value), value == row.limit) {
            (true, _) => "  worse",
            (_, true) => "",
            _ => "  better: set the limit to it",
        };
        text += &format!("{:<44}{is:>9}{limit:>9}{wanted:>9}{mark}\n", row.name);
    }
    let columns = ["tests", "fns", "p95", ">70", "max", "files", "p95", "max", "circles", "clocks"];
    text += &line("", "lines", columns.map(str::to_owned));
    for one in &tree.crates {
        let functions = || one.files.iter().flat_map(|f| &f.functions).map(|f| f.lines);
        let files = || one.files.iter().map(|f| f.lines);
        let columns = [
            whole(one.test_lines),
            whole(functions().count()),
            p95(functions()),
            whole(functions().filter(|lines| *lines > LONG).count()),
            max(functions()),
            whole(files().count()),
            p95(files()),
            max(files()),
            whole(one.circles().len()),
            sum(one.files.iter().map(|f| f.clocks)),
        ];
        text += &line(&one.name, &one.lines().to_string(), columns.map(|n| n.to_string()));
    }
    Ok(text + &worst(&tree, root))
}

fn line(name: &str, lines: &str, columns: [String; 10]) -> String {
    let columns = columns.map(|column| format!("{column:>8}")).concat();
    format!("{name:<22}{lines:>6}{columns}\n")
}

/// Where to begin.
fn worst(tree: &Tree, root: &Path) -> String {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let list = |title: &str, mut rows: Vec<(usize, String)>| {
        rows.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let rows: Vec<_> = rows.iter().map(|(n, what)| format!("{n:>5} {what}\n")).collect();
        format!("\n{title}\n{}", rows.concat())
    };
    let long = tree.files().flat_map(|file| {
        let long = file.functions.iter().filter(|f| f.lines > LONG);
        long.map(move |f| (f.lines, format!("{} {}", name(&file.path), f.name)))
    });
    let circles = tree.circles().map(|circle| {
        let names: Vec<_> = circle.iter().map(|path| format!("\n        {}", name(path))).collect();
        (circle.len(), format!("files{}", names.concat()))
    });
    let large = tree.files().filter(|file| file.lines > LARGE);
    let large = large.map(|file| (file.lines, name(&file.path)));
    let clocks = tree.clocks().map(|file| (file.clocks, name(&file.path)));
    let options = tree.options().into_iter().map(|(option, files)| (files, format!("--{option}")));
    let old = tree.files().flat_map(|file| {
        file.old_words.iter().map(|text| (1, format!("{} {text}", name(&file.path))))
    });
    let kinds = tree.unlisted().into_iter().map(|kind| (1, kind.to_owned()));
    [
        list("functions over 70 lines", long.collect()),
        list("files over 400 lines", large.collect()),
        list("circles", circles.collect()),
        list("clock readings outside runner, data and engine", clocks.collect()),
        list("files that name an option", options.collect()),
        list("old words in texts", old.collect()),
        list("kinds of errors that no page lists", kinds.collect()),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (std::path::PathBuf, Tree) {
        let thread = std::thread::current().name().unwrap_or_default().replace("::", "-");
        let root = std::env::temp_dir().join(format!("{thread}-{}", std::process::id()));
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::read(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        (root, tree)
    }

    #[test]
    fn tests_are_not_production() {
        let (_, tree) = tree(&[
            ("docs/a.md", ""),
            ("crates/linerate-lab/src/lib.rs", "fn not_counted() {}\n"),
            (
                "crates/a/src/lib.rs",
                "//! Doc.\n\nfn f() {\n    g(|| 1)\n}\n#[cfg(test)]\nmod tests;\nmod b;\n",
            ),
            ("crates/a/src/tests.rs", "fn t() {}\nfn u() { Instant::now() }\n"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n"),
            ("crates/a/tests/whole.rs", "fn t() {}\n"),
        ]);
        let [one] = &tree.crates[..] else { panic!("one crate") };
        assert_eq!((one.lines(), one.test_lines), (6, 2 + 4 + 2 + 1));
        let functions: Vec<_> = tree.functions().map(|f| (&*f.name, f.lines)).collect();
        assert_eq!(functions, [("f", 3)]);
        assert_eq!(tree.files().map(|f| f.clocks).sum::<usize>(), 0);
    }

    #[test]
    fn blocks_of_unsafe_are_counted_wherever_they_stand() {
        let code = "// unsafe { 1 }\nunsafe fn f() { unsafe { g() } }\nunsafe impl S for T {}\n\
                    fn h() { let s = \"unsafe {\"; m!(unsafe { g() }); k(|| unsafe { *p }) }\n\
                    #[cfg(test)]\nmod tests { fn t() { unsafe { g() } } }\n";
        let (_, tree) = tree(&[("docs/a.md", ""), ("crates/a/src/lib.rs", code)]);
        assert_eq!(tree.files().map(|f| f.unsafe_blocks).sum::<usize>(), 3);
    }

    #[test]
    fn a_circle_is_of_files_beside_each_other() {
        let (root, tree) = tree(&[
            ("docs/a.md", ""),
            // What a folder's file passes on, and what a part takes of its folder, is no circle.
            ("crates/a/src/lib.rs", "mod b;\nmod c;\npub use c::Thing;\nfn own() { b::f() }\n"),
            ("crates/a/src/b.rs", "mod d;\nuse crate::Thing;\nfn f(_: Thing) { crate::own() }\n"),
            ("crates/a/src/b/d.rs", "use super::f;\nfn g() { f() }\n"),
            ("crates/a/src/c.rs", "pub struct Thing;\nfn h() { vec![super::b::f()] }\n"),
        ]);
        let circles = tree.crates[0].circles();
        let source = root.join("crates/a/src");
        assert_eq!(circles, [[&*source.join("b.rs"), &*source.join("c.rs")]]);
    }

    #[test]
    fn options_clocks_and_kinds_are_found() {
        let (_, tree) = tree(&[
            ("docs/errors.md", "`no_route`"),
            (
                "crates/a/src/lib.rs",
                "mod b; mod c; struct Args {\n/// Doc --late.\n#[arg(long = \"late-start\")] late: u8,\n
                 #[arg(short, long)] my_rate: u8 }",
            ),
            ("crates/a/src/b.rs", "fn f() { hint(\"leave out --late-start\"); Instant::now(); my_rate!(x.my_rate()) }"),
            (
                "crates/a/src/c.rs",
                "error_kinds! { /** Doc. */ NoRoute = \"no_route\", \"try\"; TimedOut = \"timed_out\", \"try\"; } fn g() { args.my_rate }",
            ),
        ]);
        assert_eq!(tree.options(), [("late-start", 2), ("my-rate", 2)]);
        assert_eq!(tree.files().map(|f| f.clocks).sum::<usize>(), 1);
        assert_eq!(tree.unlisted().into_iter().collect::<Vec<_>>(), ["timed_out"]);
    }

    #[test]
    fn old_words_and_clocks_of_the_runner_are_found() {
        let code = "//! Sent again.\nfn f() { g(\"7 sent again\", \"presently\"); clock::wall(); \
                    Stopwatch::start(); wall(); }\n";
        let (_, tree) = tree(&[("docs/a.md", ""), ("crates/a/src/lib.rs", code)]);
        let words: Vec<_> = tree.files().flat_map(|f| &f.old_words).collect();
        assert_eq!(words, ["\"7 sent again\""]);
        assert_eq!(tree.files().map(|f| f.clocks_of_runner).sum::<usize>(), 2);
    }

    #[test]
    fn an_option_is_followed_by_the_types_that_carry_it() {
        let (_, tree) = tree(&[
            ("docs/a.md", ""),
            (
                "crates/ask/src/lib.rs",
                "mod b; use plan::{Plan, Traffic}; pub struct Args {\n#[arg(long)] rate: u8 }
                 impl Args { fn plan(&self) -> Traffic { Traffic::Udp(Plan { rate: self.rate }) } }",
            ),
            // The option's own crate, where its value may go by itself.
            ("crates/ask/src/b.rs", "fn checked(rate: u8) {}"),
            (
                "crates/plan/src/lib.rs",
                "mod b; pub enum Traffic { Udp(Plan) } pub struct Plan { pub rate: u8 }",
            ),
            // What another crate calls so, also in a type of the same name as one of the way.
            ("crates/plan/src/b.rs", "struct Meter { rate: u8 } fn f(m: &Meter) { m.rate }"),
            (
                "crates/data/src/lib.rs",
                "mod plan; use plan::Traffic; struct Plan { rate: u8 } fn f(p: &Plan) { p.rate }",
            ),
            ("crates/data/src/plan.rs", "pub enum Traffic { None }"),
            // Only what holds a type of the way is named.
            (
                "crates/show/src/lib.rs",
                "use plan::Traffic as It; fn f(It::Udp(plan): &It) { plan.rate }",
            ),
        ]);
        assert_eq!(tree.options(), [("rate", 4)]);
    }

    #[test]
    fn the_95th_of_a_hundred() {
        assert_eq!(p95(1..=100), 95);
        assert_eq!(p95(1..=10), 10);
        assert_eq!(p95([].into_iter()), 0);
        assert_eq!(share(45, 2854, 1000), 16);
    }
}
