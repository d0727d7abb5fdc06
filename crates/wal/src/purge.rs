//! Removes segments that nobody needs.

use std::path::Path;

use env::{Disk, Lock, Locking, Open};

use crate::error::{Failure, OpenError};
use crate::segment::{self, SUFFIX};

/// Removes the oldest segments until `keep` are left, or until one is locked, which says that it is needed. Gives back
/// their names.
///
/// Zero keeps every segment that is locked, and no other. (To etcd's flags zero means no limit; that is for the
/// caller.)
pub fn purge(disk: &dyn Disk, dir: &Path, keep: usize) -> Result<Vec<String>, OpenError> {
    let mut names = segment::read_dir(disk, dir)?;
    names.retain(|name| name.ends_with(SUFFIX));
    names.truncate(names.len().saturating_sub(keep));
    let mut removed = Vec::new();
    for name in names {
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
