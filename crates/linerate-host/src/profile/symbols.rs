//! Names of functions: the kernel's by /proc/kallsyms, a program's and its libraries' by their own tables.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, SymbolIndex, SymbolKind};

/// A kernel with all its modules has some 200,000 symbols in 15 MB.
const MOST_KALLSYMS: u64 = 64 << 20;
/// A program or library beyond it has no names. One that is built for a debugger has some hundred MB.
const MOST_PROGRAM: u64 = 1 << 30;

/// What is known of a function by where it begins, ascending; its end is the next one's beginning.
type ByAddress<T> = Vec<(u64, T)>;

/// In order, one for each place: of several the first is the usual one.
fn ordered<T>(mut all: ByAddress<T>) -> ByAddress<T> {
    all.sort_by_key(|(address, _)| *address);
    all.dedup_by_key(|(address, _)| *address);
    all
}

fn at<T>(all: &ByAddress<T>, address: u64) -> Option<&T> {
    let after = all.partition_point(|(start, _)| *start <= address);
    all.get(after.checked_sub(1)?).map(|(_, what)| what)
}

fn read(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The kernel's functions, or nothing where their addresses are hidden: all are then 0.
#[derive(Debug, Default)]
struct Kernel {
    text: String,
    /// Where in the text the name of each begins. Few of them are ever asked for.
    names: ByAddress<usize>,
}

impl Kernel {
    /// As /proc/kallsyms has them: `ffffffff81000100 t udp_rcv`, and the module's name behind a tab.
    fn of(text: String) -> Self {
        let line = |line: &str| {
            let (address, rest) = line.split_once(' ')?;
            let (kind, name) = rest.split_once(' ')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            let code = matches!(kind, "t" | "T" | "w" | "W");
            (code && address > 0 && !name.is_empty()).then_some((address, line.len() - name.len()))
        };
        let mut begin = 0;
        let mut names = Vec::new();
        for one in text.split_inclusive('\n') {
            names.extend(line(one.trim_end()).map(|(address, within)| (address, begin + within)));
            begin += one.len();
        }
        Self { names: ordered(names), text }
    }

    /// Those of the running one.
    fn read() -> Self {
        let bytes = read(Path::new("/proc/kallsyms"), MOST_KALLSYMS).unwrap_or_default();
        Self::of(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn at(&self, address: u64) -> Option<&str> {
        let name = self.text.get(*at(&self.names, address)?..)?;
        let name = name.split(['\n', '\t', ' ']).next()?;
        // What the compiler parted from a function is still that function.
        Some(name.split('.').next().filter(|part| !part.is_empty()).unwrap_or(name))
    }
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
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        // After device and inode; it may have spaces itself.
        let path = words.nth(2)?.trim_start();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        (rights.contains('x') && !path.is_empty()).then_some(Mapping {
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
    /// The file. Names are taken out of it when they are asked for: a large program has half a million.
    bytes: Vec<u8>,
    /// Whether it stands in the dynamic table, and where.
    names: ByAddress<(bool, SymbolIndex)>,
    /// Offset in the file, length, address.
    pieces: Vec<(u64, u64, u64)>,
}

impl Program {
    fn read(path: &Path) -> Option<Self> {
        let bytes = read(path, MOST_PROGRAM)?;
        let file = object::File::parse(&*bytes).ok()?;
        let pieces = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        let pieces = pieces.collect();
        let own = file.symbols().map(|symbol| (false, symbol));
        let all = own.chain(file.dynamic_symbols().map(|symbol| (true, symbol)));
        let code = all.filter(|(_, symbol)| {
            symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.address() > 0
        });
        let names = code.map(|(dynamic, symbol)| (symbol.address(), (dynamic, symbol.index())));
        Some(Self { names: ordered(names.collect()), pieces, bytes })
    }

    fn at(&self, offset: u64) -> Option<String> {
        let within = |(begin, length, _): &&(u64, u64, u64)| {
            offset >= *begin && offset.wrapping_sub(*begin) < *length
        };
        let (begin, _, address) = self.pieces.iter().find(within)?;
        let place = offset.wrapping_sub(*begin).wrapping_add(*address);
        let (dynamic, index) = at(&self.names, place)?;
        let file = object::File::parse(&*self.bytes).ok()?;
        let table = if *dynamic { file.dynamic_symbol_table() } else { file.symbol_table() };
        let symbol = table?.symbol_by_index(*index).ok()?;
        Some(format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?)))
    }
}

/// What has been looked up so far.
#[derive(Default)]
pub(super) struct Symbols {
    kernel: Option<Kernel>,
    programs: HashMap<PathBuf, Program>,
}

impl Symbols {
    /// A function of the kernel.
    pub fn kernel(&mut self, address: u64) -> &str {
        self.kernel.get_or_insert_with(Kernel::read).at(address).unwrap_or("[kernel]")
    }

    /// Reads the kernel's and linerate's own names now.
    pub fn read_all(&mut self) {
        self.kernel.get_or_insert_with(Kernel::read);
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
        Some(program.at(offset).unwrap_or_else(unnamed))
    }

    /// What could not be named, as sentences without a full stop.
    pub fn missing(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.kernel.as_ref().is_some_and(|kernel| kernel.names.is_empty()) {
            notes.push(
                "the kernel hides where its functions are, so that its part has no layers \
                 (sysctl kernel.kptr_restrict=0, or run linerate as root)"
                    .to_owned(),
            );
        }
        let own = std::env::current_exe().unwrap_or_default();
        if self.programs.get(&own).is_some_and(|program| program.names.is_empty()) {
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
        let names = Kernel::of(text.to_owned());
        assert_eq!(names.at(0xffff_ffff_8100_0000), Some("_text"));
        assert_eq!(names.at(0xffff_ffff_8100_01ff), Some("udp_rcv"));
        assert_eq!(names.at(0xffff_ffff_8100_0200), Some("skb_copy"));
        assert_eq!(names.at(0xffff_ffff_c000_0040), Some("veth_xmit"));
        assert_eq!(names.at(0x1000), None);
        // As kptr_restrict shows them.
        let hidden =
            Kernel::of("0000000000000000 T _text\n0000000000000000 t udp_rcv\n".to_owned());
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
        let text = "1000-2000 r-xp 00000000 fe:00 7      /opt/a b/linerate\n3000-4000 r-xp 00000000 00:00 0 \n";
        let found = mappings(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, Path::new("/opt/a b/linerate"));
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
            let _ = Kernel::of(text.clone()).at(at);
            let _ = mappings(&text);
        }
    }
}
