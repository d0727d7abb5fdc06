//! Creation of a new log.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use env::{Disk, parent};
use proto::raftpb::HardState;
use proto::walpb::Snapshot;

use super::{Config, Position, Wal};
use crate::error::{DiskError, OpenError};
use crate::frame::{Encoder, RecordKind};
use crate::prepare::{PreparedSegment, PreparedSlot};
use crate::segment::{self, Segment, SegmentName};
use crate::starts::ReplayStarts;

impl Wal {
    /// Creates a log in a directory that has none, with metadata that identifies the member.
    ///
    /// The log is created under a temporary name and renamed, so that it exists completely or not
    /// at all. Missing parent directories are created too, as durably as the log.
    ///
    /// # Panics
    /// If `segment_bytes` is 0, or the metadata is longer than
    /// [`SAVE_BYTES_MAX`](crate::SAVE_BYTES_MAX).
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        metadata: impl Into<Bytes>,
        config: Config,
    ) -> Result<Wal, OpenError> {
        assert!(config.segment_bytes > 0, "segment_bytes is not 0");
        if segment::exists(&*disk, dir)? {
            return Err(OpenError::Exists { dir: dir.to_owned() });
        }
        let metadata = metadata.into();
        let tmp = segment::suffixed(dir, segment::TMP_SUFFIX);
        make_room(&disk, parent(dir))?;
        let First { segment, encoder, offset } = make(&*disk, &tmp, &metadata, config)
            .and_then(|first| publish(&*disk, &tmp, dir).map(|()| first))
            .inspect_err(|_| clean_up(&*disk, &tmp))?;
        Ok(Wal {
            disk,
            dir: dir.to_owned(),
            config,
            metadata,
            state: HardState::default(),
            last_index: 0,
            starts: ReplayStarts::new(0),
            durable: Position { seq: segment.name.seq, offset },
            bytes_written: offset,
            held: vec![segment],
            offset,
            encoder,
            poison: None,
            slot: PreparedSlot::new(),
            background: None,
        })
    }
}

/// The first segment, with its initial records written.
struct First {
    segment: Segment,
    encoder: Encoder,
    offset: u64,
}

/// Creates the parent directories of the log.
fn make_room(disk: &Arc<dyn Disk>, above: &Path) -> Result<(), DiskError> {
    disk.create_dir_all_durably(above).map_err(|e| DiskError::new("create", above, e))
}

/// Creates a directory with the first segment; all durable except the directory's own name.
fn make(disk: &dyn Disk, tmp: &Path, metadata: &Bytes, config: Config) -> Result<First, OpenError> {
    remove(disk, tmp)?;
    disk.create_dir_all(tmp).map_err(|e| DiskError::new("create", tmp, e))?;
    let name = SegmentName { seq: 0, index: 0 };
    let path = tmp.join(name.to_string());
    let PreparedSegment { file, path } = PreparedSegment::new(disk, path, config.segment_bytes)?;
    let encoder = start(metadata);
    file.write_at(encoder.bytes(), 0).map_err(|e| DiskError::new("write", &path, e))?;
    file.sync_data().map_err(|e| DiskError::new("sync", &path, e))?;
    disk.sync_dir(tmp).map_err(|e| DiskError::new("sync", tmp, e))?;
    let offset = encoder.bytes().len() as u64;
    let crc = encoder.crc();
    Ok(First { segment: Segment { name, file }, encoder: Encoder::new(crc), offset })
}

/// Encodes the initial records of a log. The last one lets it be replayed from index 0.
fn start(metadata: &Bytes) -> Encoder {
    let mut encoder = Encoder::new(0);
    encoder.push_crc();
    encoder.push_bytes(RecordKind::Metadata, metadata);
    encoder.push_message(
        RecordKind::Snapshot,
        &Snapshot { index: Some(0), term: Some(0), conf_state: None },
    );
    encoder
}

/// Renames the directory to its final name.
fn publish(disk: &dyn Disk, tmp: &Path, dir: &Path) -> Result<(), OpenError> {
    // The directory may exist without a log.
    remove(disk, dir)?;
    disk.rename(tmp, dir).map_err(|e| DiskError::new("rename", tmp, e))?;
    let above = parent(dir);
    disk.sync_dir(above).map_err(|e| {
        // A power cut may undo the rename, so the log must not be taken for a created one.
        clean_up(disk, dir);
        DiskError::new("sync", above, e)
    })?;
    Ok(())
}

fn remove(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    match disk.kind(dir).map_err(|e| DiskError::new("stat", dir, e))? {
        Some(_) => disk.remove_dir_all(dir).map_err(|e| DiskError::new("remove", dir, e)),
        None => Ok(()),
    }
}

fn clean_up(disk: &dyn Disk, dir: &Path) {
    if let Err(error) = remove(disk, dir) {
        tracing::warn!(%error, "failed to clean up after a failed WAL creation");
    }
}
