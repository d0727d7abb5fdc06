//! Parts of a binary or shared library that unwinding and symbolizing need: where it was loaded,
//! its unwind tables, its symbols and its build id.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, ReadRef,
    SymbolKind,
};

use crate::mapped_files::MappedFile;

/// The binary of this process.
const BINARY: &str = "/proc/self/exe";
/// The name of the code that the kernel maps into every process.
const VDSO: &str = "[vdso]";
/// The most bytes of that code.
const VDSO_BYTES_MAX: u64 = 1 << 20;

/// A loaded binary or library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elf {
    /// The difference between addresses in memory and in the file.
    pub(crate) bias: u64,
    /// The section with the code.
    pub(crate) text: Option<Range<u64>>,
    /// Unwind tables, and the index of them.
    pub(crate) eh_frame: Option<Section>,
    pub(crate) eh_frame_hdr: Option<Section>,
}

/// A section of a file: its addresses as in the file, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) addresses: Range<u64>,
    pub(crate) bytes: Vec<u8>,
}

impl Elf {
    /// Reads the parts of a file; none if it cannot be read.
    pub(crate) fn read(mapped: &MappedFile) -> Option<Elf> {
        match Source::open(mapped)? {
            Source::Memory(bytes) => Elf::parse(&*bytes, mapped),
            Source::File(file) => Elf::parse(&ReadCache::new(file), mapped),
        }
    }

    fn parse<'data>(data: impl ReadRef<'data>, mapped: &MappedFile) -> Option<Elf> {
        let file = object::File::parse(data).ok()?;
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            let addresses = section.address()..section.address().checked_add(section.size())?;
            Some(Section { addresses, bytes: section.data().ok()?.to_vec() })
        };
        let text = file.section_by_name(".text");
        Some(Elf {
            bias: bias(&file, mapped)?,
            text: text.map(|text| text.address()..text.address().saturating_add(text.size())),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
        })
    }
}

/// Passes the addresses in memory and the name of each function in a file's symbol table to `take`.
pub(crate) fn each_function(mapped: &MappedFile, take: impl FnMut(Range<u64>, &[u8])) {
    fn parse<'data>(
        data: impl ReadRef<'data>,
        mapped: &MappedFile,
        mut take: impl FnMut(Range<u64>, &[u8]),
    ) -> Option<()> {
        let file = object::File::parse(data).ok()?;
        let bias = bias(&file, mapped)?;
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() == SymbolKind::Text && symbol.size() > 0 {
                let start = symbol.address().wrapping_add(bias);
                if let Ok(name) = symbol.name_bytes() {
                    take(start..start.saturating_add(symbol.size()), name);
                }
            }
        }
        Some(())
    }
    // A file that cannot be read has no symbols.
    let _ = match Source::open(mapped) {
        Some(Source::Memory(bytes)) => parse(&*bytes, mapped, take),
        Some(Source::File(file)) => parse(&ReadCache::new(file), mapped, take),
        None => None,
    };
}

/// Returns the id of the build that a file is from; empty if it has none.
pub(crate) fn build_id(mapped: &MappedFile) -> Vec<u8> {
    fn parse<'data>(data: impl ReadRef<'data>) -> Option<Vec<u8>> {
        Some(object::File::parse(data).ok()?.build_id().ok()??.to_vec())
    }
    let id = match Source::open(mapped) {
        Some(Source::Memory(bytes)) => parse(&*bytes),
        Some(Source::File(file)) => parse(&ReadCache::new(file)),
        None => None,
    };
    id.unwrap_or_default()
}

/// A source of the bytes of a file.
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    fn open(mapped: &MappedFile) -> Option<Source> {
        if mapped.path == VDSO {
            return read_memory(&mapped.addresses).ok().map(Source::Memory);
        }
        // The path of a binary that was replaced leads to another; this link still leads to it.
        let binary = fs::read_link(BINARY).ok();
        let is_binary = binary.is_some_and(|binary| binary.to_str() == Some(&mapped.path));
        let path = if is_binary { BINARY } else { &mapped.path };
        File::open(path).ok().map(Source::File)
    }
}

/// Computes the load bias from the segment that the mapped range shows.
fn bias<'data>(
    file: &object::File<'data, impl ReadRef<'data>>,
    mapped: &MappedFile,
) -> Option<u64> {
    let segment = file.segments().find(|segment| {
        let (offset, len) = segment.file_range();
        // A range begins at a page border, the segment need not.
        offset < mapped.offset + (mapped.addresses.end - mapped.addresses.start)
            && mapped.offset < offset.saturating_add(len)
            && segment.permissions().executable()
    })?;
    let shift = segment.address().wrapping_sub(segment.file_range().0);
    Some(mapped.addresses.start.wrapping_sub(mapped.offset).wrapping_sub(shift))
}

/// Reads memory of this process through the kernel, which refuses what is not mapped.
fn read_memory(addresses: &Range<u64>) -> io::Result<Vec<u8>> {
    let len = (addresses.end - addresses.start).min(VDSO_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, addresses.start)?;
    Ok(bytes)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::mapped_files::mapped_files;

    #[test]
    fn the_binary_of_this_test_can_be_read() {
        let here = read_memory as *const () as u64;
        let files = mapped_files();
        let mapped = files.iter().find(|file| file.addresses.contains(&here)).unwrap();
        let elf = Elf::read(mapped).unwrap();
        assert!(elf.text.unwrap().contains(&here.wrapping_sub(elf.bias)));
        assert!(!elf.eh_frame.unwrap().bytes.is_empty());
        assert!(!elf.eh_frame_hdr.unwrap().bytes.is_empty());
    }
}
