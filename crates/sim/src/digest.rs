//! The parts of a run that its digest covers: delivered messages and the contents of disks.

use std::io;
use std::path::Path;

use env::{Disk as _, Kind, SimDisk};
use simkit::Digest;

/// Adds a delivered message.
pub(crate) fn add_message(digest: &mut Digest, message: &raft::Message) {
    digest.add(message.kind.as_str().as_bytes());
    let numbers = [
        message.from.0,
        message.to.0,
        message.term.0,
        message.index.0,
        message.log_term.0,
        message.commit.0,
    ];
    numbers.into_iter().for_each(|number| digest.add_number(number));
    for entry in &message.entries {
        digest.add_number(entry.index.0);
        digest.add_number(entry.term.0);
        digest.add(&entry.data);
    }
}

/// Adds the names and contents of all files on a disk.
pub(crate) fn add_disk(digest: &mut Digest, disk: &SimDisk, dir: &Path) -> io::Result<()> {
    let mut names = disk.read_dir(dir)?;
    names.sort();
    for name in names {
        let path = dir.join(&name);
        digest.add(name.as_bytes());
        match disk.kind(&path)? {
            Some(Kind::Dir) => add_disk(digest, disk, &path)?,
            _ => digest.add(&disk.contents(&path).unwrap_or_default()),
        }
    }
    Ok(())
}
