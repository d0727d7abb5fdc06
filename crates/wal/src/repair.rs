//! Removes the end of a log that was cut short.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Create, Disk, File, Open};

use crate::error::{Failure, OpenError, RepairError};
use crate::reader::Records;
use crate::segment;

/// How much is copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing: the last segment reads to its end.
    NotNeeded,
    /// The last segment was cut; as it was before is in a copy.
    Cut {
        /// Where the segment ends now.
        offset: u64,
        /// The segment as it was.
        copy: PathBuf,
    },
}

/// Cuts the last segment of a log before a record that is torn, keeping a copy named `.broken`.
///
/// Called once, after reading has failed with an error that [is torn](crate::ReadError::is_torn). Damage of other kinds
/// is left as it is, and is an error.
pub fn repair(disk: &dyn Disk, dir: &Path) -> Result<Repair, RepairError> {
    let names = segment::list(disk, dir)?;
    let last = names.last().ok_or(OpenError::FileNotFound)?;
    let path = dir.join(last.to_string());
    let segments = segment::open_locked(disk, dir, &[*last])?;
    let file = Arc::clone(&segments[0].file);
    let mut records = Records::new(segments)?;
    let why = loop {
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
        .map_err(|e| Failure::new("cut", &path, e))?;
    tracing::warn!(%why, copy = %copy.display(), "cut a log at a write that was never finished");
    Ok(Repair::Cut { offset, copy })
}

/// Copies a file to the same name with `.broken` behind, in place of an older copy.
fn keep_copy(
    disk: &dyn Disk,
    dir: &Path,
    path: &Path,
    file: &dyn File,
) -> Result<PathBuf, Failure> {
    let copy_path = segment::suffixed(path, segment::BROKEN_SUFFIX);
    let done = || {
        let to = disk.open(&copy_path, Open::create(Create::Truncate))?;
        copy(file, &*to, file.len()?)?;
        to.sync_data()?;
        disk.sync_dir(dir)
    };
    done().map_err(|e| Failure::new("copy to", &copy_path, e))?;
    Ok(copy_path)
}

/// Copies the first `len` bytes of a file, which it must have, to the same place in another.
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
