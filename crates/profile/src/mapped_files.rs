//! The files that this process executes code of: the binary and its shared libraries.
//!
//! ```text
//!   /proc/self/maps    55d0c3a00000-55d0c4100000 r-xp 00400000 08:01 1234  /usr/bin/bowline
//!                      start        limit        code offset in the file   path
//! ```

use std::ops::Range;

/// The most files that are read.
const FILES_MAX: usize = 256;

/// A range of addresses with code of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappedFile {
    /// The addresses.
    pub(crate) addresses: Range<u64>,
    /// The position of the first address in the file.
    pub(crate) offset: u64,
    /// The path; in brackets if the code belongs to the kernel, such as `[vdso]`.
    pub(crate) path: String,
}

/// Returns the files of this process, by address; none if they cannot be determined.
pub(crate) fn mapped_files() -> Vec<MappedFile> {
    parse(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

fn parse(maps: &str) -> Vec<MappedFile> {
    maps.lines().filter_map(parse_line).take(FILES_MAX).collect()
}

/// Parses a line about code; none for other memory.
fn parse_line(line: &str) -> Option<MappedFile> {
    let (range, rest) = word(line)?;
    let (permissions, rest) = word(rest)?;
    let (offset, rest) = word(rest)?;
    let (_device, rest) = word(rest)?;
    let (_inode, path) = word(rest)?;
    let (start, end) = range.split_once('-')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (addresses, offset) = (hexadecimal(start)?..hexadecimal(end)?, hexadecimal(offset)?);
    // The path is the rest of the line, and may contain spaces.
    let path = path.trim();
    let is_code = permissions.contains('x') && !path.is_empty();
    is_code.then(|| MappedFile { addresses, offset, path: path.to_owned() })
}

/// Splits off the first word.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_returned() {
        let maps = "\
55d0c3600000-55d0c3a00000 r--p 00000000 08:01 1234                       /usr/bin/bow line
55d0c3a00000-55d0c4100000 r-xp 00400000 08:01 1234                       /usr/bin/bow line
55d0c4100000-55d0c4200000 rw-p 00000000 00:00 0
7ffd1c9fe000-7ffd1ca00000 r-xp 00000000 00:00 0                          [vdso]
7f0000000000-7f0000001000 r-xp 00000000 00:00 0
";
        let file =
            |addresses, offset, path: &str| MappedFile { addresses, offset, path: path.to_owned() };
        let expected = [
            file(0x55d0_c3a0_0000..0x55d0_c410_0000, 0x40_0000, "/usr/bin/bow line"),
            file(0x7ffd_1c9f_e000..0x7ffd_1ca0_0000, 0, "[vdso]"),
        ];
        assert_eq!(parse(maps), expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_function_is_in_a_mapped_file() {
        let here = mapped_files as *const () as u64;
        let files = mapped_files();
        let file = files.iter().find(|file| file.addresses.contains(&here)).unwrap();
        let binary = std::env::current_exe().unwrap();
        assert_eq!(file.path, binary.to_str().unwrap());
    }
}
