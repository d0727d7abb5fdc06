//! One `.snap` file.
//!
//! ```text
//! 08 crc  12 size  raftpb.Snapshot { data: the members as JSON, metadata: conf_state, index, term }
//! ```

use std::path::Path;

use bytes::Bytes;
use env::{Disk, Open};
use prost::Message;
use proto::raftpb::Snapshot;
use proto::snappb;

use super::{SNAP_BYTES_MAX, SnapError, Snapshotter};
use crate::error::Failure;

/// As etcd creates them: readable to all, less the process's mask.
const MODE: u32 = 0o666;

/// Reads a snapshot file.
pub fn read(disk: &dyn Disk, path: &Path) -> Result<Snapshot, SnapError> {
    let damaged = |why| SnapError::Damaged { file: path.to_owned(), why };
    let empty = || SnapError::Empty { file: path.to_owned() };
    let bytes = contents(disk, path)?;
    if bytes.is_empty() {
        return Err(empty());
    }
    let envelope =
        snappb::Snapshot::decode(bytes.clone()).map_err(|_| damaged("it does not decode"))?;
    let envelope_len = envelope.encoded_len();
    let (data, expected) = (envelope.data.clone().unwrap_or_default(), envelope.crc());
    if data.is_empty() || expected == 0 {
        return Err(empty());
    }
    let computed = crc32c::crc32c(&data);
    if computed != expected {
        return Err(SnapError::Crc { file: path.to_owned(), expected, computed });
    }
    // What the decoder passes over: fields it does not know, and bits that a number has no room for.
    let start = snappb::Snapshot { data: None, ..envelope }.encode_to_vec();
    if envelope_len != bytes.len() || !bytes.starts_with(&start) {
        return Err(damaged("it is not as it is written"));
    }
    Snapshot::decode(data).map_err(|_| damaged("the snapshot in it does not decode"))
}

fn contents(disk: &dyn Disk, path: &Path) -> Result<Bytes, SnapError> {
    let failed = |what| move |e| SnapError::Disk(Failure::new(what, path, e));
    let file = disk.open(path, Open::read()).map_err(failed("open"))?;
    let len = file.len().map_err(failed("measure"))?;
    if len > SNAP_BYTES_MAX {
        return Err(SnapError::Damaged { file: path.to_owned(), why: "it is too long" });
    }
    let mut bytes = vec![0; usize::try_from(len).expect("it is below the bound")];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read"))?;
    Ok(bytes.into())
}

/// The bytes of a snapshot file.
pub(super) fn encode(snapshot: &Snapshot) -> Vec<u8> {
    let data = snapshot.encode_to_vec();
    let crc = crc32c::crc32c(&data);
    snappb::Snapshot { crc: Some(crc), data: Some(data.into()) }.encode_to_vec()
}

/// Writes a snapshot file, durably.
pub(super) fn write(to: &Snapshotter, path: &Path, bytes: &[u8]) -> Result<(), SnapError> {
    let unnamed = to.create(MODE)?;
    let written = || {
        unnamed.file.write_at(bytes, 0)?;
        unnamed.file.sync_data()?;
        unnamed.rename(path)?;
        to.disk.sync_dir(&to.dir)
    };
    written().map_err(|e| SnapError::Disk(Failure::new("write", path, e)))
}
