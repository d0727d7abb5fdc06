//! Function names, files and lines of addresses.
//!
//! They come from the debug information or the symbol table of the binary, or of a separate debug
//! file that the system has for its build id. A binary without any of these resolves nothing; its
//! profiles have addresses and build ids, by which `go tool pprof` resolves them with an
//! unstripped copy.
//!
//! The symbol table has the full path of a function, `server::pipeline::apply::Applier::turn`. Line
//! tables only have its last name, `turn`, but also know the functions that were inlined into it.

use std::collections::{BTreeSet, HashMap};
use std::ptr;

use backtrace::SymbolName;

use crate::elf;
use crate::mapped_files::MappedFile;

/// The most bytes of a name or path that are kept.
const TEXT_BYTES_MAX: usize = 1024;

/// A function at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// The name, without the hash that tells instances apart.
    pub(crate) function: String,
    /// The source file; empty if unknown.
    pub(crate) file: String,
    /// The line; zero if unknown.
    pub(crate) line: u32,
}

/// Resolved addresses.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    calls: HashMap<u64, Vec<Call>>,
}

impl Symbols {
    /// Resolves addresses in the given files. The debug information is read once, and released.
    pub(crate) fn resolve(addresses: &BTreeSet<u64>, files: &[MappedFile]) -> Symbols {
        let mut names = HashMap::new();
        files.iter().for_each(|file| add_names(file, addresses, &mut names));
        let calls = addresses.iter().map(|&address| {
            let name = names.get(&address).map(Vec::as_slice);
            (address, calls_at(address, name))
        });
        let symbols = Symbols { calls: calls.collect() };
        backtrace::clear_symbol_cache();
        symbols
    }

    /// Returns the functions at an address: first those that were inlined, last the one that
    /// contains them. Empty if it is unknown.
    pub(crate) fn get(&self, address: u64) -> &[Call] {
        self.calls.get(&address).map_or(&[], Vec::as_slice)
    }
}

/// Looks up the addresses in the symbol table of a file.
fn add_names(file: &MappedFile, addresses: &BTreeSet<u64>, names: &mut HashMap<u64, Vec<u8>>) {
    if addresses.range(file.addresses.clone()).next().is_none() {
        return;
    }
    elf::each_function(file, |range, name| {
        for address in addresses.range(range) {
            names.insert(*address, name.to_vec());
        }
    });
}

/// Returns the functions at an address. `name` is its name in the symbol table.
fn calls_at(address: u64, name: Option<&[u8]>) -> Vec<Call> {
    let mut calls = Vec::new();
    // The library expects return addresses, and looks up the byte before.
    let after = usize::try_from(address).ok().and_then(|address| address.checked_add(1));
    let Some(after) = after else { return calls };
    backtrace::resolve(ptr::without_provenance_mut(after), |symbol| {
        let Some(name) = symbol.name() else { return };
        let file = symbol.filename().map(|file| shorten(file.display().to_string()));
        calls.push(Call {
            function: demangled(&name),
            file: file.unwrap_or_default(),
            line: symbol.lineno().unwrap_or(0),
        });
    });
    if let (Some(outermost), Some(name)) = (calls.last_mut(), name) {
        outermost.function = demangled(&SymbolName::new(name));
    }
    calls
}

fn demangled(name: &SymbolName<'_>) -> String {
    shorten(format!("{name:#}"))
}

/// Bounds the length of a text: the names of generic functions can be very long.
fn shorten(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped_files::mapped_files;

    #[inline(never)]
    fn a_function_to_find() -> u64 {
        std::hint::black_box(7)
    }

    fn resolve(address: u64) -> Vec<Call> {
        let symbols = Symbols::resolve(&BTreeSet::from([address]), &mapped_files());
        symbols.get(address).to_vec()
    }

    #[test]
    fn a_function_of_this_binary_is_resolved() {
        a_function_to_find();
        let calls = resolve(a_function_to_find as *const () as u64);
        let call = calls.last().expect("the test binary has symbols");
        assert_eq!(call.function, "profile::symbols::tests::a_function_to_find");
        assert!(call.file.ends_with("symbols.rs") && call.line > 0, "{call:?}");
    }

    #[test]
    fn an_unknown_address_resolves_to_nothing() {
        assert_eq!(resolve(1), []);
        assert_eq!(resolve(u64::MAX), []);
        assert_eq!(Symbols::default().get(1), []);
    }

    #[test]
    fn long_names_are_shortened() {
        let text = shorten("é".repeat(TEXT_BYTES_MAX));
        assert_eq!(text.chars().count(), TEXT_BYTES_MAX / 2 + 1);
        assert_eq!(shorten("short".to_owned()), "short");
    }
}
