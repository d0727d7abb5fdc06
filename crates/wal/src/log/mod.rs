//! The write-ahead log, open for appending.
//!
//! ```text
//!  held      0000000000000006-….wal   0000000000000007-….wal          locked, until released
//!            ████████████████████████ ███████████░░░░░░░░░░░░░░░░░░░  ░ zeros, ready to be written
//!                                          ▲     ▲
//!                                    durable()   written()
//! ```
//!
//! A [`save`](Wal::save) is one write at the end, and one sync if requested. When the segment
//! reaches its size, it is closed and the next one started, and everything is durable.
//!
//! Invariants: everything before [`durable`](Wal::durable) survives a power cut. After a failed
//! write or sync the content of the disk is unknown, so nothing more is written: every later call
//! fails with the first cause, until the log is reopened.

mod create;
mod cut;
mod open;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{fmt, io};

use bytes::Bytes;
use env::Disk;
use failpoint::failpoint;
use proto::raftpb::{Entry, HardState};
use proto::walpb::Snapshot;

pub use open::UnreadWal;

use crate::error::{DiskError, SaveError};
use crate::frame::{Encoder, RecordKind};
use crate::prepare::{PreparedSlot, Preparer};
use crate::segment::Segment;
use crate::starts::ReplayStarts;
use crate::{SAVE_BYTES_MAX, SEGMENT_BYTES};

/// Maximum size of one write, in bytes. A longer save takes several writes, and still one sync.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// Upper bound of the overhead of an entry or state in the file, in bytes.
const OVERHEAD_BYTES: usize = 96;

/// Options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size at which a segment is closed. [`SEGMENT_BYTES`], except in tests.
    pub segment_bytes: u64,
    /// Skips all syncs. A power cut then loses acknowledged writes; for tests, as in etcd.
    pub unsafe_no_fsync: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { segment_bytes: SEGMENT_BYTES, unsafe_no_fsync: false }
    }
}

/// A position in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Sequence number of the segment.
    pub seq: u64,
    /// Offset in the segment.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.offset)
    }
}

/// A log, open for appending. Its lock excludes other writers until it is closed or dropped.
#[derive(Debug)]
pub struct Wal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    config: Config,
    /// Written at the start of each segment.
    metadata: Bytes,
    /// The last state saved; written at the start of each segment.
    state: HardState,
    /// Index of the last entry saved, or of a later snapshot.
    last_index: u64,
    /// Snapshots from which the log can be replayed.
    starts: ReplayStarts,
    /// The locked segments, oldest first. The last one is being written.
    held: Vec<Segment>,
    /// Offset of the next record in the last segment.
    offset: u64,
    durable: Position,
    /// Bytes written since the log was opened.
    bytes_written: u64,
    encoder: Encoder,
    /// The first failure, after which nothing is written.
    poison: Option<Arc<DiskError>>,
    slot: Arc<PreparedSlot>,
    background: Option<JoinHandle<()>>,
}

impl Wal {
    /// Appends entries and then a state. With `must_sync`, everything saved so far is durable
    /// afterwards.
    ///
    /// An empty state is not written. Entries are consecutive, and the first one follows the last
    /// one saved or overwrites an earlier one. After an error it is undetermined whether they are
    /// in the log.
    ///
    /// # Panics
    /// If there is a gap before or between the entries.
    pub fn save(
        &mut self,
        state: &HardState,
        entries: &[Entry],
        must_sync: bool,
    ) -> Result<(), SaveError> {
        self.check_poison()?;
        check_size(entries)?;
        for entry in entries {
            self.push_entry(entry)?;
        }
        self.push_state(state);
        self.write()?;
        if self.offset >= self.config.segment_bytes {
            return self.cut();
        }
        if must_sync { self.sync() } else { Ok(()) }
    }

    /// Appends a snapshot from which the log can be replayed, and makes everything durable.
    ///
    /// The snapshot's data must already be durable: the snapshot file or the database. The record
    /// becomes valid once a saved state, before or after it, has a commit index that covers it;
    /// until then a reader starts at an earlier one, and [`release_to`](Wal::release_to) keeps the
    /// segments for that.
    pub fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), SaveError> {
        self.check_poison()?;
        check_complete(snapshot)?;
        failpoint!("raftBeforeWALSaveSnaphot");
        self.push_snapshot(snapshot);
        self.write()?;
        self.sync()
    }

    /// Makes everything saved so far durable.
    pub fn sync(&mut self) -> Result<(), SaveError> {
        self.check_poison()?;
        if self.durable < self.written() {
            if !self.config.unsafe_no_fsync {
                failpoint!("walBeforeSync");
                let synced = self.tail().file.sync_data();
                failpoint!("walAfterSync");
                self.checked("sync", self.tail_path(), synced)?;
            }
            self.mark_all_durable();
        }
        Ok(())
    }

    /// Unlocks the segments that are not needed to replay from a snapshot at this index, so that
    /// [`purge`](crate::purge) may remove them.
    ///
    /// Never releases beyond the last valid snapshot: the one at which the log was opened, or one
    /// saved later with [`save_snapshot`](Wal::save_snapshot) that a durable state covers. So there
    /// is always one to start from, and a too large `index` does no harm.
    pub fn release_to(&mut self, index: u64) {
        let index = index.min(self.starts.valid());
        // The last segment that begins before the index may hold entries up to it.
        let first_after = self.held.iter().position(|segment| segment.name.index >= index);
        let needed = first_after.unwrap_or(self.held.len()).saturating_sub(1);
        self.held.drain(..needed);
    }

    /// Sequence number of the first segment that a replay needs. Earlier ones may be purged, even
    /// after the log is closed and its locks released.
    pub fn first_needed(&self) -> u64 {
        self.held.first().map_or(0, |segment| segment.name.seq)
    }

    /// Makes everything durable and closes the log.
    pub fn close(mut self) -> Result<(), SaveError> {
        self.sync()
    }

    /// Position up to which the log was written.
    pub fn written(&self) -> Position {
        Position { seq: self.tail().name.seq, offset: self.offset }
    }

    /// Bytes of all records written since the log was opened.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Position up to which the log survives a power cut.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Index of the last entry saved, or of a later snapshot.
    pub fn last_index(&self) -> u64 {
        self.last_index
    }

    /// The last state saved.
    pub fn state(&self) -> &HardState {
        &self.state
    }

    /// Returns a preparer, which creates the next segment ahead of time, step by step. There should
    /// be at most one; without any, segments are created on demand, and syncs take longer.
    pub fn preparer(&self) -> Preparer {
        let (disk, slot) = (Arc::clone(&self.disk), Arc::clone(&self.slot));
        Preparer::new(disk, self.dir.clone(), self.config.segment_bytes, slot)
    }

    /// ReplayStarts a thread that prepares the next segment ahead of time, until the log is closed.
    pub fn prepare_in_background(&mut self) -> io::Result<()> {
        if self.background.is_none() {
            let preparer = self.preparer();
            let thread = thread::Builder::new().name("wal-prepare".into());
            self.background = Some(thread.spawn(move || preparer.run())?);
        }
        Ok(())
    }

    fn push_entry(&mut self, entry: &Entry) -> Result<(), SaveError> {
        let index = entry.index();
        assert!(
            0 < index && index <= self.last_index + 1,
            "gap in the log: entry {index} saved after {}",
            self.last_index
        );
        self.encoder.push_message(RecordKind::Entry, entry);
        self.last_index = index;
        if self.encoder.bytes().len() >= WRITE_BYTES_MAX { self.write() } else { Ok(()) }
    }

    fn push_state(&mut self, state: &HardState) {
        // All three fields are always written, even if zero.
        let (term, vote, commit) = (state.term(), state.vote(), state.commit());
        if (term, vote, commit) == (0, 0, 0) {
            return;
        }
        self.state = HardState { term: Some(term), vote: Some(vote), commit: Some(commit) };
        self.encoder.push_message(RecordKind::State, &self.state);
    }

    fn push_snapshot(&mut self, snapshot: &Snapshot) {
        self.encoder.push_message(RecordKind::Snapshot, snapshot);
        self.last_index = self.last_index.max(snapshot.index());
        self.starts.add(snapshot.index());
    }

    /// Records that everything saved so far is durable.
    fn mark_all_durable(&mut self) {
        self.durable = self.written();
        self.starts.confirm(self.state.commit());
    }

    /// Writes the encoded records at the end of the log.
    fn write(&mut self) -> Result<(), SaveError> {
        let bytes = self.encoder.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let len = bytes.len() as u64;
        let written = self.tail().file.write_at(bytes, self.offset);
        self.checked("write", self.tail_path(), written)?;
        self.offset += len;
        self.bytes_written += len;
        if self.offset >= self.config.segment_bytes / 2 {
            self.slot.need_soon();
        }
        self.encoder.clear(WRITE_BYTES_MAX);
        Ok(())
    }

    fn tail(&self) -> &Segment {
        self.held.last().expect("the segment being written is always held")
    }

    fn tail_path(&self) -> PathBuf {
        self.dir.join(self.tail().name.to_string())
    }

    fn check_poison(&self) -> Result<(), SaveError> {
        match &self.poison {
            Some(first) => Err(SaveError::Poisoned(Arc::clone(first))),
            None => Ok(()),
        }
    }

    /// Passes on the result of a disk operation. A failure poisons the log.
    fn checked<T>(
        &mut self,
        action: &'static str,
        file: impl AsRef<Path>,
        outcome: io::Result<T>,
    ) -> Result<T, SaveError> {
        outcome.map_err(|error| {
            let failure = Arc::new(DiskError::new(action, file.as_ref(), error));
            self.poison = Some(Arc::clone(&failure));
            SaveError::Failed(failure)
        })
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.slot.close(&*self.disk);
        if let Some(thread) = self.background.take()
            && thread.join().is_err()
        {
            tracing::error!("the segment preparation thread panicked");
        }
    }
}

fn check_size(entries: &[Entry]) -> Result<(), SaveError> {
    let bytes = entries
        .iter()
        .fold(0_usize, |sum, entry| sum.saturating_add(entry.data().len() + OVERHEAD_BYTES));
    if bytes > SAVE_BYTES_MAX { Err(SaveError::TooLarge { bytes }) } else { Ok(()) }
}

/// Checks the fields that etcd requires of a written snapshot record. Older records may lack them.
fn check_complete(snapshot: &Snapshot) -> Result<(), SaveError> {
    let missing = match snapshot {
        Snapshot { index: None, .. } => "index",
        Snapshot { term: None, .. } => "term",
        Snapshot { conf_state: None, index: Some(1..), .. } => "ConfState",
        _ => return Ok(()),
    };
    Err(SaveError::IncompleteSnapshot(missing))
}
