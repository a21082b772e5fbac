//! Names of functions: the kernel's by /proc/kallsyms, a program's and its libraries' by their own tables.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

/// A kernel with all its modules has some 200,000 symbols in 15 MB.
const MOST_KALLSYMS: u64 = 64 << 20;

/// Names by address, ascending; the end of a symbol is the next one's beginning.
#[derive(Debug, Default)]
struct Names {
    list: Vec<(u64, Box<str>)>,
}

impl Names {
    fn of(mut list: Vec<(u64, Box<str>)>) -> Self {
        list.sort_by_key(|(address, _)| *address);
        // Of several names of one place the first in the table is the usual one.
        list.dedup_by_key(|(address, _)| *address);
        Self { list }
    }

    fn at(&self, address: u64) -> Option<&str> {
        let after = self.list.partition_point(|(start, _)| *start <= address);
        self.list.get(after.checked_sub(1)?).map(|(_, name)| &**name)
    }
}

/// The kernel's functions, or nothing where their addresses are hidden: all are then 0.
fn kallsyms(text: &str) -> Names {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let (kind, name) = (words.next()?, words.next()?);
        let code = matches!(kind, "t" | "T" | "w" | "W");
        // What the compiler parted from a function is still that function.
        let name = name.split('.').next().filter(|name| !name.is_empty()).unwrap_or(name);
        (code && address > 0).then(|| (address, name.into()))
    });
    Names::of(lines.collect())
}

/// Those of the running one.
fn kernel() -> Names {
    let mut bytes = Vec::new();
    let file = File::open("/proc/kallsyms");
    let read = file.and_then(|file| file.take(MOST_KALLSYMS).read_to_end(&mut bytes));
    read.map_or_else(|_| Names::default(), |_| kallsyms(&String::from_utf8_lossy(&bytes)))
}

/// A piece of a file that a process can run, by /proc/PID/maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    start: u64,
    end: u64,
    /// Of `start` in the file.
    offset: u64,
    path: PathBuf,
}

/// Those of a process.
pub(super) fn mappings(text: &str) -> Vec<Mapping> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let path = words.nth(2)?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        rights.contains('x').then_some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            offset,
            path: path.into(),
        })
    };
    text.lines().filter_map(line).collect()
}

/// A file's functions, and where its pieces are meant to lie.
#[derive(Debug, Default)]
struct Program {
    names: Names,
    /// Offset in the file, length, address.
    pieces: Vec<(u64, u64, u64)>,
}

impl Program {
    fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let pieces = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        let code = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| {
            symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.address() > 0
        });
        let named = code.filter_map(|symbol| {
            let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
            Some((symbol.address(), name.into_boxed_str()))
        });
        Some(Self { names: Names::of(named.collect()), pieces: pieces.collect() })
    }

    fn at(&self, offset: u64) -> Option<&str> {
        let within = |(begin, length, _): &&(u64, u64, u64)| {
            offset >= *begin && offset.wrapping_sub(*begin) < *length
        };
        let (begin, _, address) = self.pieces.iter().find(within)?;
        self.names.at(offset.wrapping_sub(*begin).wrapping_add(*address))
    }
}

/// What has been looked up so far.
#[derive(Default)]
pub(super) struct Symbols {
    kernel: Option<Names>,
    programs: HashMap<PathBuf, Program>,
}

impl Symbols {
    /// A function of the kernel.
    pub fn kernel(&mut self, address: u64) -> &str {
        self.kernel.get_or_insert_with(kernel).at(address).unwrap_or("[kernel]")
    }

    /// Reads the kernel's and linerate's own names now.
    pub fn read_all(&mut self) {
        self.kernel.get_or_insert_with(kernel);
        if let Ok(own) = std::env::current_exe() {
            let program = Program::read(&own).unwrap_or_default();
            self.programs.insert(own, program);
        }
    }

    /// A function of a program with these mappings; nothing where no piece of a file lies there.
    pub fn user(&mut self, mappings: &[Mapping], address: u64) -> Option<String> {
        let found = mappings.iter().find(|m| (m.start..m.end).contains(&address))?;
        let file = found.path.file_name().unwrap_or(found.path.as_os_str()).to_string_lossy();
        let unnamed = || format!("[{}]", file.trim_matches(['[', ']']));
        if !found.path.is_absolute() {
            return Some(unnamed());
        }
        let read = || Program::read(&found.path).unwrap_or_default();
        let program = self.programs.entry(found.path.clone()).or_insert_with(read);
        let offset = address.wrapping_sub(found.start).wrapping_add(found.offset);
        Some(program.at(offset).map_or_else(unnamed, str::to_owned))
    }

    /// What could not be named, as sentences without a full stop.
    pub fn missing(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.kernel.as_ref().is_some_and(|names| names.list.is_empty()) {
            notes.push(
                "the kernel hides where its functions are, so that its part has no layers \
                 (sysctl kernel.kptr_restrict=0, or run linerate as root)"
                    .to_owned(),
            );
        }
        let own = std::env::current_exe().unwrap_or_default();
        if self.programs.get(&own).is_some_and(|program| program.names.list.is_empty()) {
            notes.push(
                "linerate's own functions have no names: its file carries no symbols, as those that are handed out \
                 (cargo build --release keeps them)"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernels_functions_are_found_between_their_beginnings() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t udp_rcv\nffffffff81000100 T __alias\n\
                    ffffffff81000200 t skb_copy.isra.0\nffffffff81000150 d a_datum\nffffffffc0000000 t veth_xmit\t[veth]\n";
        let names = kallsyms(text);
        assert_eq!(names.at(0xffff_ffff_8100_0000), Some("_text"));
        assert_eq!(names.at(0xffff_ffff_8100_01ff), Some("udp_rcv"));
        assert_eq!(names.at(0xffff_ffff_8100_0200), Some("skb_copy"));
        assert_eq!(names.at(0xffff_ffff_c000_0040), Some("veth_xmit"));
        assert_eq!(names.at(0x1000), None);
        // As kptr_restrict shows them.
        let hidden = kallsyms("0000000000000000 T _text\n0000000000000000 t udp_rcv\n");
        assert_eq!(hidden.at(0xffff_ffff_8100_0000), None);
    }

    #[test]
    fn only_what_can_run_is_a_mapping() {
        let text = "55d0c0a00000-55d0c0b00000 r-xp 0001a000 fe:00 1234  /usr/bin/linerate\n\
                    55d0c0b00000-55d0c0c00000 rw-p 0011a000 fe:00 1234  /usr/bin/linerate\n\
                    7ffd1000-7ffd3000 r-xp 00000000 00:00 0  [vdso]\n7f00-8f00 r-xp 00000000 00:00 0\nx\n";
        let found = mappings(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].start, found[0].offset), (0x55d0_c0a0_0000, 0x1a000));
        let mut symbols = Symbols::default();
        assert_eq!(symbols.user(&found, 0x7ffd_1010).as_deref(), Some("[vdso]"));
        assert_eq!(symbols.user(&found, 0x10), None);
    }

    #[test]
    fn this_program_names_its_own_functions() {
        let maps = mappings(&std::fs::read_to_string("/proc/self/maps").unwrap());
        let mut symbols = Symbols::default();
        let here: fn() = this_program_names_its_own_functions;
        let name = symbols.user(&maps, here as usize as u64).unwrap();
        assert!(name.contains("this_program_names_its_own_functions"), "{name}");
        assert!(symbols.missing().is_empty());
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "([0-9a-fx-]{0,17} [a-zT-]{0,5} [0-9a-z.]{0,9} [a-z/ ]{0,9}\n?){0,8}", at: u64) {
            let _ = kallsyms(&text).at(at);
            let _ = mappings(&text);
        }
    }
}
