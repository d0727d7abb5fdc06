//! Encoding of a `.snap` file.
//!
//! ```text
//! 08 crc  12 size  raftpb.Snapshot { data: members as JSON, metadata: conf_state, index, term }
//! ```

use std::path::Path;

use bytes::Bytes;
use env::{Disk, Open};
use prost::Message;
use proto::raftpb::Snapshot;
use proto::snappb;

use super::{SNAP_BYTES_MAX, SnapError, Snapshotter};
use crate::error::DiskError;

/// File mode, as in etcd: accessible to all, less the process's umask.
const MODE: u32 = 0o666;

/// Reads a snapshot file.
pub fn read(disk: &dyn Disk, path: &Path) -> Result<Snapshot, SnapError> {
    let corrupt = |reason| SnapError::Corrupt { file: path.to_owned(), reason };
    let empty = || SnapError::Empty { file: path.to_owned() };
    let bytes = contents(disk, path)?;
    if bytes.is_empty() {
        return Err(empty());
    }
    let envelope =
        snappb::Snapshot::decode(bytes.clone()).map_err(|_| corrupt("envelope does not decode"))?;
    let envelope_len = envelope.encoded_len();
    let (data, expected) = (envelope.data.clone().unwrap_or_default(), envelope.crc());
    if data.is_empty() || expected == 0 {
        return Err(empty());
    }
    let computed = crc32c::crc32c(&data);
    if computed != expected {
        return Err(SnapError::Crc { file: path.to_owned(), expected, computed });
    }
    // Detects content that the decoder ignores: unknown fields, and excess bits of a varint.
    let start = snappb::Snapshot { data: None, ..envelope }.encode_to_vec();
    if envelope_len != bytes.len() || !bytes.starts_with(&start) {
        return Err(corrupt("not in canonical encoding"));
    }
    Snapshot::decode(data).map_err(|_| corrupt("snapshot does not decode"))
}

fn contents(disk: &dyn Disk, path: &Path) -> Result<Bytes, SnapError> {
    let failed = |action| move |e| SnapError::Disk(DiskError::new(action, path, e));
    let file = disk.open(path, Open::read()).map_err(failed("open"))?;
    let len = file.len().map_err(failed("stat"))?;
    if len > SNAP_BYTES_MAX {
        return Err(SnapError::Corrupt { file: path.to_owned(), reason: "file too large" });
    }
    let mut bytes = vec![0; usize::try_from(len).expect("at most SNAP_BYTES_MAX")];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read"))?;
    Ok(bytes.into())
}

/// Encodes a snapshot file.
pub(super) fn encode(snapshot: &Snapshot) -> Vec<u8> {
    let data = snapshot.encode_to_vec();
    let crc = crc32c::crc32c(&data);
    snappb::Snapshot { crc: Some(crc), data: Some(data.into()) }.encode_to_vec()
}

/// Writes a snapshot file durably.
pub(super) fn write(to: &Snapshotter, path: &Path, bytes: &[u8]) -> Result<(), SnapError> {
    let temp_file = to.create(MODE)?;
    let written = || {
        temp_file.file.write_at(bytes, 0)?;
        temp_file.file.sync_data()?;
        temp_file.rename(path)?;
        to.disk.sync_dir(&to.dir)
    };
    written().map_err(|e| SnapError::Disk(DiskError::new("write", path, e)))
}
