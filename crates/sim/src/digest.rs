//! A digest of a whole run (FNV-1a): two runs of a seed are equal if their digests are.

use std::io;
use std::path::Path;

use env::{Disk as _, Kind, SimDisk};

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Running digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(OFFSET)
    }
}

impl Digest {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Adds a number.
    pub fn add_number(&mut self, number: u64) {
        self.add(&number.to_le_bytes());
    }

    /// Adds a delivered message.
    pub(crate) fn add_message(&mut self, message: &raft::Message) {
        self.add(message.kind.as_str().as_bytes());
        let numbers = [
            message.from.0,
            message.to.0,
            message.term.0,
            message.index.0,
            message.log_term.0,
            message.commit.0,
        ];
        numbers.into_iter().for_each(|number| self.add_number(number));
        for entry in &message.entries {
            self.add_number(entry.index.0);
            self.add_number(entry.term.0);
            self.add(&entry.data);
        }
    }

    /// Adds the names and contents of all files on a disk.
    pub(crate) fn add_disk(&mut self, disk: &SimDisk, folder: &Path) -> io::Result<()> {
        let mut names = disk.read_dir(folder)?;
        names.sort();
        for name in names {
            let path = folder.join(&name);
            self.add(name.as_bytes());
            match disk.kind(&path)? {
                Some(Kind::Dir) => self.add_disk(disk, &path)?,
                _ => self.add(&disk.contents(&path).unwrap_or_default()),
            }
        }
        Ok(())
    }

    /// Returns the digest.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}
