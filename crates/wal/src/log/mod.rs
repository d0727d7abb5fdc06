//! The log, open for appending.
//!
//! ```text
//!  held      0000000000000006-….wal   0000000000000007-….wal          locked, until released
//!            ████████████████████████ ███████████░░░░░░░░░░░░░░░░░░░  ░ zeros, ready to be written
//!                                          ▲     ▲
//!                                    durable()   written()
//! ```
//!
//! A [`save`](Wal::save) is one write behind what is there, and one sync if asked for. When that takes the segment to
//! its size, the segment is closed and the next one begun, and everything is durable.
//!
//! Invariants: what is before [`durable`](Wal::durable) survives a power cut. After a write or sync has failed nobody
//! knows what the disk holds, so nothing more is written: every later call fails, with the first cause, until the log
//! is opened anew.

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

pub use open::Opening;

use crate::error::{Failure, SaveError};
use crate::frame::{Encoder, Kind};
use crate::prepare::{Preparer, Slot};
use crate::segment::Segment;
use crate::starts::Starts;
use crate::{SAVE_BYTES_MAX, SEGMENT_BYTES};

/// What is written at once. A save that is longer takes several writes, and still one sync.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// More than an entry or a state takes in the file beyond its data.
const OVERHEAD_BYTES: usize = 96;

/// How a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A segment that has grown to this is closed. [`SEGMENT_BYTES`], except in tests.
    pub segment_bytes: u64,
    /// Pretends that every sync succeeded. Loses acknowledged writes at a power cut; for tests, as in etcd.
    pub unsafe_no_fsync: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { segment_bytes: SEGMENT_BYTES, unsafe_no_fsync: false }
    }
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The sequence number of the segment.
    pub seq: u64,
    /// The offset in it.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.offset)
    }
}

/// A log, open for appending. Nobody else can open it until it is closed or dropped.
#[derive(Debug)]
pub struct Wal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    config: Config,
    /// Written at the start of each segment.
    metadata: Bytes,
    /// The last state saved, written at the start of each segment.
    state: HardState,
    /// The last entry saved, or a snapshot beyond.
    last_index: u64,
    /// From where it could be replayed.
    starts: Starts,
    /// The segments locked, oldest first. The last is the one being written.
    held: Vec<Segment>,
    /// Where the next record goes in that one.
    offset: u64,
    durable: Position,
    /// Written since it was opened.
    bytes_written: u64,
    encoder: Encoder,
    /// The first failure.
    poison: Option<Arc<Failure>>,
    slot: Arc<Slot>,
    background: Option<JoinHandle<()>>,
}

impl Wal {
    /// Appends entries and then a state. With `must_sync`, all that was saved so far is durable afterwards.
    ///
    /// A state without anything in it is none. Entries follow each other, and the first follows the last one saved or
    /// overwrites one before. After an error it is open whether they are in the log.
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

    /// Appends a place from which the log can be replayed, and makes everything durable.
    ///
    /// What it stands for must be durable already: the snapshot file or the database. It counts once a state that was
    /// saved, before or after it, has a commit index that is not before it; until then a reader starts at an earlier one,
    /// and [`release_to`](Wal::release_to) keeps what that takes.
    pub fn save_snapshot(&mut self, snapshot: &Snapshot) -> Result<(), SaveError> {
        self.check_poison()?;
        check_complete(snapshot)?;
        failpoint!("raftBeforeWALSaveSnaphot");
        self.push_snapshot(snapshot);
        self.write()?;
        self.sync()
    }

    /// Makes everything durable that was saved so far.
    pub fn sync(&mut self) -> Result<(), SaveError> {
        self.check_poison()?;
        if self.durable < self.written() {
            if !self.config.unsafe_no_fsync {
                failpoint!("walBeforeSync");
                let synced = self.tail().file.sync_data();
                failpoint!("walAfterSync");
                self.checked("sync", self.tail_path(), synced)?;
            }
            self.all_is_durable();
        }
        Ok(())
    }

    /// Lets go of the segments that are not needed to replay from a snapshot at this index, so that
    /// [`purge`](crate::purge) may remove them.
    ///
    /// It never goes beyond the last snapshot that counts: the one at which the log was opened, or one saved later with
    /// [`save_snapshot`](Wal::save_snapshot) that a durable state covers. So there is always one to start from, and it is
    /// no harm to ask for too much.
    pub fn release_to(&mut self, index: u64) {
        let index = index.min(self.starts.valid());
        // The last segment that begins before the index may hold entries up to it.
        let beyond = self.held.iter().position(|segment| segment.name.index >= index);
        let needed = beyond.unwrap_or(self.held.len()).saturating_sub(1);
        self.held.drain(..needed);
    }

    /// The number of the first segment that a replay needs. What is before may be purged, also when the log is closed and holds no locks any more.
    pub fn first_needed(&self) -> u64 {
        self.held.first().map_or(0, |segment| segment.name.seq)
    }

    /// Makes everything durable and closes the log.
    pub fn close(mut self) -> Result<(), SaveError> {
        self.sync()
    }

    /// Up to where the log was written.
    pub fn written(&self) -> Position {
        Position { seq: self.tail().name.seq, offset: self.offset }
    }

    /// Bytes of all records written since it was opened.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Up to where the log survives a power cut.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// The index of the last entry saved, or of a snapshot beyond.
    pub fn last_index(&self) -> u64 {
        self.last_index
    }

    /// The last state saved.
    pub fn state(&self) -> &HardState {
        &self.state
    }

    /// Who makes the next segment ahead of time, step by step. There should be one at most; without any, segments are
    /// made when needed, and syncs take longer.
    pub fn preparer(&self) -> Preparer {
        let (disk, slot) = (Arc::clone(&self.disk), Arc::clone(&self.slot));
        Preparer::new(disk, self.dir.clone(), self.config.segment_bytes, slot)
    }

    /// Has a thread make the next segment ahead of time, until the log is closed.
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
            "entry {index} was to be saved after {}",
            self.last_index
        );
        self.encoder.push_message(Kind::Entry, entry);
        self.last_index = index;
        if self.encoder.bytes().len() >= WRITE_BYTES_MAX { self.write() } else { Ok(()) }
    }

    fn push_state(&mut self, state: &HardState) {
        // All three fields are always written, zero or not.
        let (term, vote, commit) = (state.term(), state.vote(), state.commit());
        if (term, vote, commit) == (0, 0, 0) {
            return;
        }
        self.state = HardState { term: Some(term), vote: Some(vote), commit: Some(commit) };
        self.encoder.push_message(Kind::State, &self.state);
    }

    fn push_snapshot(&mut self, snapshot: &Snapshot) {
        self.encoder.push_message(Kind::Snapshot, snapshot);
        self.last_index = self.last_index.max(snapshot.index());
        self.starts.add(snapshot.index());
    }

    /// What was saved so far survives a power cut from now on.
    fn all_is_durable(&mut self) {
        self.durable = self.written();
        self.starts.confirm(self.state.commit());
    }

    /// Writes what was assembled behind what is there.
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
        self.held.last().expect("a log always holds the segment it writes")
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

    /// Passes on what came of a call to the disk; if it failed, nothing is written any more.
    fn checked<T>(
        &mut self,
        what: &'static str,
        file: impl AsRef<Path>,
        outcome: io::Result<T>,
    ) -> Result<T, SaveError> {
        outcome.map_err(|error| {
            let failure = Arc::new(Failure::new(what, file.as_ref(), error));
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
            tracing::error!("the thread that prepares segments panicked");
        }
    }
}

fn check_size(entries: &[Entry]) -> Result<(), SaveError> {
    let bytes = entries
        .iter()
        .fold(0_usize, |sum, entry| sum.saturating_add(entry.data().len() + OVERHEAD_BYTES));
    if bytes > SAVE_BYTES_MAX { Err(SaveError::TooLarge { bytes }) } else { Ok(()) }
}

/// As etcd demands of what it writes. What it reads may be older.
fn check_complete(snapshot: &Snapshot) -> Result<(), SaveError> {
    let missing = match snapshot {
        Snapshot { index: None, .. } => "index",
        Snapshot { term: None, .. } => "term",
        Snapshot { conf_state: None, index: Some(1..), .. } => "ConfState",
        _ => return Ok(()),
    };
    Err(SaveError::IncompleteSnapshot(missing))
}
