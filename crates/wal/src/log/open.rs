//! Opening an existing log for appending.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Disk, File, parent};
use proto::walpb::Snapshot;

use super::{Config, Position, Wal};
use crate::error::{DiskError, OpenError, ReadError};
use crate::frame::Encoder;
use crate::prepare::{self, PreparedSlot};
use crate::reader::Records;
use crate::repair::copy;
use crate::replay::{Entries, LogContents, Replay, ReplayEnd, ReplayEvent, ReplaySummary};
use crate::segment;

/// A locked log that must be read to its end before it can be written.
#[derive(Debug)]
pub struct UnreadWal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    config: Config,
    start: Snapshot,
    records: Records,
}

impl Wal {
    /// Opens an existing log, to be read from a snapshot on. Fails if it is open for writing
    /// elsewhere.
    ///
    /// # Panics
    /// If `segment_bytes` is 0.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        start: &Snapshot,
        config: Config,
    ) -> Result<UnreadWal, OpenError> {
        assert!(config.segment_bytes > 0, "segment_bytes is not 0");
        let names = segment::list(&*disk, dir)?;
        let names = segment::select(&names, start.index())?;
        let records = Records::new(segment::open_locked(&*disk, dir, names)?)?;
        Ok(UnreadWal { disk, dir: dir.to_owned(), config, start: start.clone(), records })
    }
}

impl UnreadWal {
    /// Reads everything and returns the log, ready for appending.
    pub fn read_all(self) -> Result<(Wal, LogContents), ReadError> {
        let mut entries = Entries::new(&self.start);
        let (wal, summary) = self.read(|replayed| entries.apply(replayed))?;
        Ok((wal, entries.contents(summary)))
    }

    /// Like [`read_all`](UnreadWal::read_all), but passes each entry to `visit` as it is read.
    pub fn read(
        mut self,
        visit: impl FnMut(ReplayEvent),
    ) -> Result<(Wal, ReplaySummary), ReadError> {
        let mut replay = Replay::new(&self.start);
        replay.run(&mut self.records, visit)?;
        let ReplayEnd { summary, last_index, starts } = replay.finish()?;
        self.normalize_files()?;
        let (offset, crc) = (self.records.offset(), self.records.crc());
        let held = self.records.into_segments();
        let seq = held.last().expect("at least one segment was read").name.seq;
        let wal = Wal {
            disk: self.disk,
            dir: self.dir,
            config: self.config,
            metadata: summary.metadata.clone(),
            state: summary.state,
            last_index,
            starts,
            held,
            offset,
            durable: Position { seq, offset },
            bytes_written: 0,
            encoder: Encoder::new(crc),
            poison: None,
            slot: PreparedSlot::new(),
            background: None,
        };
        Ok((wal, summary))
    }

    /// Durably brings the files into the state of a log that never stopped.
    ///
    /// The caller relies on what was read as if it were durable, but it need not be: a killed
    /// process leaves unsynced writes and names.
    fn normalize_files(&mut self) -> Result<(), ReadError> {
        self.remove_leftovers()?;
        self.rewrite_tail()?;
        for dir in [&*self.dir, parent(&self.dir)] {
            self.disk.sync_dir(dir).map_err(|e| DiskError::new("sync", dir, e))?;
        }
        prepare::remove_leftovers(&*self.disk, &self.dir)
            .map_err(|e| DiskError::new("clean", &self.dir, e))?;
        Ok(())
    }

    /// Removes remains of a torn write after the end. New records must be written over zeros, or a
    /// power cut could leave old bytes among new ones; so the remains are durably removed before
    /// anything else is written.
    fn remove_leftovers(&mut self) -> Result<(), ReadError> {
        if self.records.last_used()?.is_none() {
            return Ok(());
        }
        let (file, path) = self.tail();
        let cut = file.set_len(self.records.offset()).and_then(|()| file.sync_data());
        Ok(cut.map_err(|e| DiskError::new("truncate", &path, e))?)
    }

    /// Rewrites the last segment and syncs it.
    ///
    /// A sync alone is not enough. After a failed sync, the system keeps the data in its cache and
    /// marks it clean: reads return it, and the next sync succeeds without writing. Only
    /// rewritten data is sure to be synced.
    fn rewrite_tail(&self) -> Result<(), DiskError> {
        let (file, path) = self.tail();
        let written = || {
            let (end, full) = (self.records.offset(), self.config.segment_bytes);
            copy(&*file, &*file, end)?;
            if file.len()? < full {
                prepare::write_zeros(&*file, end, full)?;
            }
            file.sync_data()
        };
        written().map_err(|e| DiskError::new("rewrite", &path, e))
    }

    fn tail(&self) -> (Arc<dyn File>, PathBuf) {
        let tail = self.records.segments().last().expect("at least one segment was read");
        (Arc::clone(&tail.file), self.dir.join(tail.name.to_string()))
    }
}
