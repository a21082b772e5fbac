//! The files of a crate as tokens: what is production, its functions, and which file uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens::{
    attribute, ends_visibility, error_kinds, fields, function, is, item_len, lines, option,
    path_of, shape, use_tree, word,
};

/// A crate's production code: what is reached from `lib.rs` or `main.rs` without `#[cfg(test)]`.
#[derive(Default)]
pub struct Crate {
    pub name: String,
    pub files: Vec<File>,
    pub modules: Vec<Module>,
    /// Lines of `#[cfg(test)]` items, of files only they reach, and of `tests/`.
    pub test_lines: usize,
}

#[derive(Default)]
pub struct File {
    pub path: PathBuf,
    /// Without the lines of `#[cfg(test)]` items.
    pub lines: usize,
    pub functions: Vec<Function>,
    /// `Instant::now` and its like.
    pub clocks: usize,
    /// Those of linerate-runner's `clock`.
    pub clocks_of_runner: usize,
    /// Names of fields and parameters where they are declared, given or read, and `--words` of texts;
    /// not those of comments.
    pub words: BTreeSet<String>,
    /// Long options that the file defines: as the field is called, and as the user writes it.
    pub options: Vec<(String, String)>,
    /// Texts with one of [`OLD_WORDS`].
    pub old_words: Vec<String>,
    /// Blocks of `unsafe`.
    pub unsafe_blocks: usize,
    /// Kinds of errors that the file defines.
    pub kinds: BTreeSet<String>,
}

pub struct Function {
    pub name: String,
    pub lines: usize,
}

/// A struct or an enum with braces.
pub struct Shape {
    pub name: String,
    /// Of an enum those of all variants.
    pub fields: BTreeSet<String>,
    /// What its declaration names.
    pub holds: BTreeSet<Vec<String>>,
}

/// A module and the paths its code names.
#[derive(Default)]
pub struct Module {
    pub file: usize,
    pub parent: Option<usize>,
    pub children: BTreeMap<String, usize>,
    /// What `use` brings in: as it is called here, and the path.
    pub imports: BTreeMap<String, Vec<String>>,
    pub globs: Vec<Vec<String>>,
    /// Names of items that stand here.
    pub items: BTreeSet<String>,
    /// Structs and enums that stand here, also in functions.
    pub shapes: Vec<Shape>,
    /// Paths that the code names, but for `pub use`, which only passes on.
    pub paths: BTreeSet<Vec<String>>,
}

const CLOCKS: &[[&str; 2]] = &[
    ["Instant", "now"],
    ["SystemTime", "now"],
    ["Timestamp", "now"],
    ["Zoned", "now"],
    ["ClockId", "CLOCK_MONOTONIC"],
    ["ClockId", "CLOCK_REALTIME"],
];

const CLOCKS_OF_RUNNER: &[[&str; 2]] =
    &[["Stopwatch", "start"], ["clock", "wall"], ["clock", "local_date"]];

/// Where the field has words: retrans, local send errors, dup, server or peer, bytes, rcvbuf drops, min RTT.
const OLD_WORDS: &[&str] = &[
    "sent again",
    " resent",
    "refused by this host",
    "far end",
    "far host",
    " octets",
    "lost on host",
    "least rtt",
    "held back by",
];

impl Crate {
    /// Reads the crate in `folder`.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut found = Self { name, ..Self::default() };
        let source = folder.join("src");
        for root in ["lib.rs", "main.rs"].map(|name| source.join(name)) {
            if root.exists() {
                found.file(&root, &source, None)?;
            }
        }
        for path in rust_files(folder) {
            if !found.files.iter().any(|file| file.path == path) {
                found.test_lines += read(&path)?.lines().count();
            }
        }
        Ok(found)
    }

    pub fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// Reads a file as a module, and those it names. `children` is the folder of its modules.
    fn file(
        &mut self,
        path: &Path,
        children: &Path,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let text = read(path)?;
        let tokens: TokenStream = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
        let file = self.files.len();
        self.files.push(File { path: path.to_owned(), ..File::default() });
        let module = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        let tests = self.scan(tokens, module, children, true)?;
        self.test_lines += tests;
        self.files[file].lines = text.lines().count() - tests;
        Ok(module)
    }

    /// Goes through the tokens of a module or, if not `top`, of a part of one. Says how many lines
    /// are tests.
    fn scan(
        &mut self,
        tokens: TokenStream,
        module: usize,
        children: &Path,
        top: bool,
    ) -> Result<usize, String> {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let file = self.modules[module].file;
        let (mut at, mut tests) = (0, 0);
        while let Some(token) = tokens.get(at) {
            let rest = &tokens[at..];
            let mut step = 1;
            if let Some((attribute, len)) = attribute(rest) {
                let kind = word(attribute.stream().into_iter().next().as_ref());
                let inner = attribute.stream().to_string();
                step = len;
                if inner.replace(' ', "") == "cfg(test)" {
                    step = item_len(rest);
                    tests += lines(token.span(), rest[step - 1].span());
                } else if kind == "arg" {
                    self.files[file].options.extend(option(&attribute, &rest[len..]));
                } else if kind != "doc" {
                    self.scan(attribute.stream(), module, children, false)?;
                }
                at += step;
                continue;
            }
            match (token, word(Some(token)).as_str()) {
                (TokenTree::Group(group), _) => {
                    self.files[file].words.extend(fields(group));
                    tests += self.scan(group.stream(), module, children, false)?;
                }
                (TokenTree::Literal(literal), _) => {
                    let text = literal.to_string();
                    let words = text.split(|c: char| c != '-' && !c.is_ascii_alphanumeric());
                    let options = words.filter(|word| word.starts_with("--"));
                    self.files[file].words.extend(options.map(str::to_owned));
                    if OLD_WORDS.iter().any(|word| text.contains(word)) {
                        self.files[file].old_words.push(text);
                    }
                }
                (_, "use") if !rest.get(1).is_some_and(|token| is(token, '<')) => {
                    step = rest.iter().position(|t| is(t, ';')).unwrap_or(rest.len());
                    let passed_on = at > 0 && ends_visibility(&tokens[..at]);
                    self.imports(module, &rest[1..step], passed_on);
                }
                (_, "mod") if rest.len() > 2 => {
                    let name = word(rest.get(1));
                    step = 3;
                    if let Some(TokenTree::Group(group)) = rest.get(2) {
                        let child = self.modules.len();
                        self.modules.push(Module {
                            file,
                            parent: Some(module),
                            ..Module::default()
                        });
                        self.modules[module].children.insert(name.clone(), child);
                        tests += self.scan(group.stream(), child, &children.join(&name), true)?;
                    } else if is(&rest[2], ';') {
                        let below = children.join(&name);
                        let paths = [below.with_extension("rs"), below.join("mod.rs")];
                        let path = paths.iter().find(|path| path.exists());
                        let path = path.ok_or_else(|| format!("no file of {}", below.display()))?;
                        let child = self.file(path, &below, Some(module))?;
                        self.modules[module].children.insert(name, child);
                    }
                }
                (_, "") => {}
                (_, name) => {
                    if name == "fn" {
                        self.files[file].functions.extend(function(rest));
                    }
                    self.modules[module].shapes.extend(shape(rest));
                    if top && ITEMS.contains(&name) {
                        self.modules[module].items.insert(word(rest.get(1)));
                    }
                    let braces = matches!(rest.get(1), Some(TokenTree::Group(block))
                        if block.delimiter() == Delimiter::Brace);
                    self.files[file].unsafe_blocks += usize::from(name == "unsafe" && braces);
                    self.files[file].kinds.extend(error_kinds(rest));
                    let path;
                    (path, step) = path_of(rest);
                    let member = at > 0 && is(&tokens[at - 1], '.');
                    let called = matches!(rest.get(step), Some(TokenTree::Group(arguments))
                        if arguments.delimiter() == Delimiter::Parenthesis);
                    if member && !called {
                        self.files[file].words.extend(path.last().cloned());
                    }
                    self.name(module, path, member);
                }
            }
            at += step;
        }
        Ok(tests)
    }

    /// Notes a path that the code names.
    fn name(&mut self, module: usize, path: Vec<String>, member: bool) {
        let file = &mut self.files[self.modules[module].file];
        let ends =
            |last: &[&str]| path.len() >= last.len() && path[path.len() - last.len()..] == *last;
        file.clocks += usize::from(CLOCKS.iter().any(|clock| ends(clock)));
        file.clocks_of_runner += usize::from(CLOCKS_OF_RUNNER.iter().any(|clock| ends(clock)));
        if !member {
            self.modules[module].paths.insert(path);
        }
    }

    /// Notes what a `use` brings in.
    fn imports(&mut self, module: usize, tree: &[TokenTree], passed_on: bool) {
        let mut leaves = vec![];
        use_tree(tree, &[], &mut leaves);
        let module = &mut self.modules[module];
        for (path, name) in leaves {
            if !passed_on {
                module.paths.insert(path.clone());
            }
            match name {
                Some(name) => drop(module.imports.insert(name, path)),
                None => module.globs.push(path),
            }
        }
    }
}

/// What follows them is an item's name.
const ITEMS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// All `.rs` files below `src` and `tests`.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut todo) = (vec![], vec![folder.join("src"), folder.join("tests")]);
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found
}
