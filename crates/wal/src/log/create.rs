//! A new log.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use env::{Disk, parent};
use proto::raftpb::HardState;
use proto::walpb::Snapshot;

use super::{Config, Position, Wal};
use crate::error::{Failure, OpenError};
use crate::frame::{Encoder, Kind};
use crate::prepare::{Prepared, Slot};
use crate::segment::{self, Segment, SegmentName};
use crate::starts::Starts;

impl Wal {
    /// Makes a log in a folder that has none, with metadata that tells whose it is.
    ///
    /// It is made under another name and then renamed, so that it is there whole or not at all. Folders above it that are
    /// missing are made too, and as durable as the log.
    ///
    /// # Panics
    /// If the configuration asks for segments of no size, or the metadata is longer than
    /// [`SAVE_BYTES_MAX`](crate::SAVE_BYTES_MAX).
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        metadata: impl Into<Bytes>,
        config: Config,
    ) -> Result<Wal, OpenError> {
        assert!(config.segment_bytes > 0, "a segment has some size");
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
            starts: Starts::new(0),
            durable: Position { seq: segment.name.seq, offset },
            bytes_written: offset,
            held: vec![segment],
            offset,
            encoder,
            poison: None,
            slot: Slot::new(),
            background: None,
        })
    }
}

/// The first segment, with its start written.
struct First {
    segment: Segment,
    encoder: Encoder,
    offset: u64,
}

/// Makes the folders that the log's own goes into.
fn make_room(disk: &Arc<dyn Disk>, above: &Path) -> Result<(), Failure> {
    disk.create_dir_all_durably(above).map_err(|e| Failure::new("create", above, e))
}

/// Makes a folder with the first segment in it, durable but for its own name.
fn make(disk: &dyn Disk, tmp: &Path, metadata: &Bytes, config: Config) -> Result<First, OpenError> {
    remove(disk, tmp)?;
    disk.create_dir_all(tmp).map_err(|e| Failure::new("create", tmp, e))?;
    let name = SegmentName { seq: 0, index: 0 };
    let path = tmp.join(name.to_string());
    let Prepared { file, path } = Prepared::new(disk, path, config.segment_bytes)?;
    let encoder = start(metadata);
    file.write_at(encoder.bytes(), 0).map_err(|e| Failure::new("write", &path, e))?;
    file.sync_data().map_err(|e| Failure::new("sync", &path, e))?;
    disk.sync_dir(tmp).map_err(|e| Failure::new("sync", tmp, e))?;
    let offset = encoder.bytes().len() as u64;
    let crc = encoder.crc();
    Ok(First { segment: Segment { name, file }, encoder: Encoder::new(crc), offset })
}

/// The records that a log begins with: the last one lets it be replayed from nothing.
fn start(metadata: &Bytes) -> Encoder {
    let mut encoder = Encoder::new(0);
    encoder.push_crc();
    encoder.push_bytes(Kind::Metadata, metadata);
    encoder.push_message(
        Kind::Snapshot,
        &Snapshot { index: Some(0), term: Some(0), conf_state: None },
    );
    encoder
}

/// Gives the folder its name.
fn publish(disk: &dyn Disk, tmp: &Path, dir: &Path) -> Result<(), OpenError> {
    // It may be there, but has no log.
    remove(disk, dir)?;
    disk.rename(tmp, dir).map_err(|e| Failure::new("rename", tmp, e))?;
    let above = parent(dir);
    disk.sync_dir(above).map_err(|e| {
        // The name may vanish again, so the log must not be taken for one that was created.
        clean_up(disk, dir);
        Failure::new("sync", above, e)
    })?;
    Ok(())
}

fn remove(disk: &dyn Disk, dir: &Path) -> Result<(), Failure> {
    match disk.kind(dir).map_err(|e| Failure::new("look for", dir, e))? {
        Some(_) => disk.remove_dir_all(dir).map_err(|e| Failure::new("remove", dir, e)),
        None => Ok(()),
    }
}

fn clean_up(disk: &dyn Disk, dir: &Path) {
    if let Err(error) = remove(disk, dir) {
        tracing::warn!(%error, "could not clean up after a log that was not created");
    }
}
