//! Removes segments that nobody needs.

use std::path::Path;

use env::{Disk, Lock, Locking, Open};

use crate::error::{Failure, OpenError};
use crate::segment::{self, SUFFIX, SegmentName};

/// Removes the oldest segments until `keep` are left, or until one is needed: its number is not below `needed`, which is
/// [`Wal::first_needed`](crate::Wal::first_needed), or somebody else has it locked. Gives back their names.
///
/// Zero sets no limit, as in etcd's flags, and removes nothing.
pub fn purge(
    disk: &dyn Disk,
    dir: &Path,
    keep: usize,
    needed: u64,
) -> Result<Vec<String>, OpenError> {
    let mut names = segment::read_dir(disk, dir)?;
    names.retain(|name| name.ends_with(SUFFIX));
    let mut removed = Vec::new();
    for name in surplus(names, keep) {
        if SegmentName::parse(&name).is_none_or(|name| name.seq >= needed) {
            break;
        }
        let path = dir.join(&name);
        let file = disk.open(&path, Open::write()).map_err(|e| Failure::new("open", &path, e))?;
        let free = file.try_lock(Locking::Ofd, Lock::Exclusive);
        if !free.map_err(|e| Failure::new("lock", &path, e))? {
            break;
        }
        disk.remove_file(&path).map_err(|e| Failure::new("remove", &path, e))?;
        tracing::info!(segment = name, "purged");
        removed.push(name);
    }
    Ok(removed)
}

/// Of some names, oldest first, those that have to go for `keep` to be left. Zero keeps all.
pub(crate) fn surplus(mut names: Vec<String>, keep: usize) -> Vec<String> {
    let gone = if keep == 0 { 0 } else { names.len().saturating_sub(keep) };
    names.truncate(gone);
    names
}
