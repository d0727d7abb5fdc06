//! A log that is there, opened to go on with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Disk, File, parent};
use proto::walpb::Snapshot;

use super::{Config, Position, Wal};
use crate::error::{Failure, OpenError, ReadError};
use crate::frame::Encoder;
use crate::prepare::{self, Slot};
use crate::reader::Records;
use crate::repair::copy;
use crate::replay::{Contents, Ending, Entries, Replay, Replayed, Summary};
use crate::segment;

/// A log that is locked and must be read to its end before it can be written.
#[derive(Debug)]
pub struct Opening {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    config: Config,
    start: Snapshot,
    records: Records,
}

impl Wal {
    /// Opens a log that is there, to be read from a snapshot on. Nobody else may have it open for writing.
    ///
    /// # Panics
    /// If the configuration asks for segments of no size.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        start: &Snapshot,
        config: Config,
    ) -> Result<Opening, OpenError> {
        assert!(config.segment_bytes > 0, "a segment has some size");
        let names = segment::list(&*disk, dir)?;
        let names = segment::select(&names, start.index())?;
        let records = Records::new(segment::open_locked(&*disk, dir, names)?)?;
        Ok(Opening { disk, dir: dir.to_owned(), config, start: start.clone(), records })
    }
}

impl Opening {
    /// Reads everything, and goes on with the log.
    pub fn read_all(self) -> Result<(Wal, Contents), ReadError> {
        let mut entries = Entries::new(&self.start);
        let (wal, summary) = self.read(|replayed| entries.apply(replayed))?;
        Ok((wal, entries.contents(summary)))
    }

    /// As [`read_all`](Opening::read_all), with each entry handed over as it is read.
    pub fn read(mut self, visit: impl FnMut(Replayed)) -> Result<(Wal, Summary), ReadError> {
        let mut replay = Replay::new(&self.start);
        replay.run(&mut self.records, visit)?;
        let Ending { summary, last_index, starts } = replay.finish()?;
        self.make_ready()?;
        let (offset, crc) = (self.records.offset(), self.records.crc());
        let held = self.records.into_segments();
        let seq = held.last().expect("one was read at least").name.seq;
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
            slot: Slot::new(),
            background: None,
        };
        Ok((wal, summary))
    }

    /// Brings the files to the state in which a log that never stopped would have them, durably.
    ///
    /// What was read will be acted upon as if it were durable, and need not be: a process that is killed leaves writes
    /// that nobody has synced, and names too.
    fn make_ready(&mut self) -> Result<(), ReadError> {
        self.remove_leftovers()?;
        self.write_again()?;
        for dir in [&*self.dir, parent(&self.dir)] {
            self.disk.sync_dir(dir).map_err(|e| Failure::new("sync", dir, e))?;
        }
        prepare::remove_leftovers(&*self.disk, &self.dir)
            .map_err(|e| Failure::new("clean", &self.dir, e))?;
        Ok(())
    }

    /// Behind the end there may be parts of a write that was cut short. New records must meet nothing but zeros, or a
    /// power cut could leave old parts among new ones; so they go, durably, before anything else is written.
    fn remove_leftovers(&mut self) -> Result<(), ReadError> {
        if self.records.last_used()?.is_none() {
            return Ok(());
        }
        let (file, path) = self.tail();
        let cut = file.set_len(self.records.offset()).and_then(|()| file.sync_data());
        Ok(cut.map_err(|e| Failure::new("cut", &path, e))?)
    }

    /// Writes the last segment once more, and makes it durable.
    ///
    /// A sync is not enough. Where one has failed, the system holds what was to be written as if it were on the disk:
    /// it shows it to us, and the next sync has nothing to do and succeeds. Only what is written anew is sure to be
    /// synced.
    fn write_again(&self) -> Result<(), Failure> {
        let (file, path) = self.tail();
        let written = || {
            let (end, full) = (self.records.offset(), self.config.segment_bytes);
            copy(&*file, &*file, end)?;
            if file.len()? < full {
                prepare::write_zeros(&*file, end, full)?;
            }
            file.sync_data()
        };
        written().map_err(|e| Failure::new("write again", &path, e))
    }

    fn tail(&self) -> (Arc<dyn File>, PathBuf) {
        let tail = self.records.segments().last().expect("one was read at least");
        (Arc::clone(&tail.file), self.dir.join(tail.name.to_string()))
    }
}
