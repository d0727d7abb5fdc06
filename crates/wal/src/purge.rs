//! Removes segments that are no longer needed.

use std::path::Path;

use env::{Disk, Lock, Locking, Open};

use crate::error::{DiskError, OpenError};
use crate::segment::{self, SUFFIX, SegmentName};

/// Removes the oldest segments until `keep` are left, or until one is needed: its sequence number
/// is at least `needed`, which is [`Wal::first_needed`](crate::Wal::first_needed), or another
/// process has locked it. Returns the removed names.
///
/// Compat: as in etcd's flags, 0 means no limit and removes nothing.
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
        let file = disk.open(&path, Open::write()).map_err(|e| DiskError::new("open", &path, e))?;
        let free = file.try_lock(Locking::Ofd, Lock::Exclusive);
        if !free.map_err(|e| DiskError::new("lock", &path, e))? {
            break;
        }
        disk.remove_file(&path).map_err(|e| DiskError::new("remove", &path, e))?;
        tracing::info!(segment = name, "purged");
        removed.push(name);
    }
    Ok(removed)
}

/// Returns the names to remove, oldest first, so that `keep` are left. 0 keeps all.
pub(crate) fn surplus(mut names: Vec<String>, keep: usize) -> Vec<String> {
    let surplus = if keep == 0 { 0 } else { names.len().saturating_sub(keep) };
    names.truncate(surplus);
    names
}
