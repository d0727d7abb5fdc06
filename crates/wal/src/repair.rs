//! Repairs a log with a torn tail.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Create, Disk, File, Open};

use crate::error::{DiskError, OpenError, RepairError};
use crate::reader::Records;
use crate::segment;

/// Copy buffer size, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// Result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing to repair: the last segment is readable to its end.
    NotNeeded,
    /// The last segment was truncated, and its previous content copied.
    Cut {
        /// New length of the segment.
        offset: u64,
        /// Path of the copy.
        copy: PathBuf,
    },
}

/// Truncates the last segment of a log before a torn record, keeping a copy with the suffix
/// `.broken`.
///
/// Call once, after reading has failed with an error that [is torn](crate::ReadError::is_torn).
/// Other corruption is an error and left unchanged.
pub fn repair(disk: &dyn Disk, dir: &Path) -> Result<Repair, RepairError> {
    let names = segment::list(disk, dir)?;
    let last = names.last().ok_or(OpenError::FileNotFound)?;
    let path = dir.join(last.to_string());
    let segments = segment::open_locked(disk, dir, &[*last])?;
    let file = Arc::clone(&segments[0].file);
    let mut records = Records::new(segments)?;
    let reason = loop {
        match records.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Repair::NotNeeded),
            Err(error) if error.is_torn() => break error,
            Err(error) => return Err(RepairError::NotTorn(error)),
        }
    };
    let offset = records.offset();
    let copy = keep_copy(disk, dir, &path, &*file)?;
    file.set_len(offset)
        .and_then(|()| file.sync_data())
        .map_err(|e| DiskError::new("truncate", &path, e))?;
    tracing::warn!(%reason, copy = %copy.display(), "truncated the torn tail of the WAL");
    Ok(Repair::Cut { offset, copy })
}

/// Copies a file to its name with the suffix `.broken`, replacing an older copy.
fn keep_copy(
    disk: &dyn Disk,
    dir: &Path,
    path: &Path,
    file: &dyn File,
) -> Result<PathBuf, DiskError> {
    let copy_path = segment::suffixed(path, segment::BROKEN_SUFFIX);
    let done = || {
        let to = disk.open(&copy_path, Open::create(Create::Truncate))?;
        copy(file, &*to, file.len()?)?;
        to.sync_data()?;
        disk.sync_dir(dir)
    };
    done().map_err(|e| DiskError::new("copy to", &copy_path, e))?;
    Ok(copy_path)
}

/// Copies the first `len` bytes of a file to the same offsets of another. The file must have that
/// length.
pub(crate) fn copy(from: &dyn File, to: &dyn File, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(COPY_BYTES)];
    let mut offset = 0;
    while offset < len {
        let step = usize::try_from(len - offset).unwrap_or(usize::MAX).min(COPY_BYTES);
        from.read_exact_at(&mut buffer[..step], offset)?;
        to.write_at(&buffer[..step], offset)?;
        offset += step as u64;
    }
    Ok(())
}
