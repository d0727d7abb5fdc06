//! All that happened, as one number: two runs of a seed are the same if theirs is. (FNV-1a.)

use std::io;
use std::path::Path;

use env::{Disk as _, Kind, SimDisk};

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// All that happened so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(OFFSET)
    }
}

impl Digest {
    /// Something happened.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Some number was so.
    pub fn add_number(&mut self, number: u64) {
        self.add(&number.to_le_bytes());
    }

    /// A message arrived.
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

    /// All that is on a disk, name by name.
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

    /// The number.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}
