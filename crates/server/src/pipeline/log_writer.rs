//! The log thread: it makes durable what consensus hands out, and says so.
//!
//! While it waits for the disk, more gathers; it takes all of that and pays one sync for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use failpoint::failpoint;
use proto::raftpb::{Entry, HardState};
use proto::{raftpb, walpb};
use raft::Message;
use types::Index;
use wal::snap::SnapError;
use wal::{SaveError, Wal};

use crate::metrics::seconds;
use crate::pipeline::applier::Work;
use crate::pipeline::raft_loop::Event;
use crate::planted_bug::{self, PlantedBug};
use crate::propose::stage_timings::Moment;
use crate::server::Shared;
use crate::sync::queue::Inbox;
use crate::units::{nanos, signed};

/// What is written with one call. A queue may be longer, while the log takes no more than a gibibyte at a time.
const SAVE_BYTES: usize = 64 << 20;

/// What is to be written.
#[derive(Debug)]
pub(crate) enum LogWork {
    /// Entries, a state, and what to say once they are durable.
    Append(Box<Message>),
    /// How far entries are committed, to be written with whatever comes next.
    State(HardState),
    /// A place to start from, which is durable; then what is before it can go.
    Snapshot(walpb::Snapshot),
}

/// Who writes the log.
pub(crate) struct LogWriter {
    shared: Arc<Shared>,
    wal: Wal,
    inbox: Arc<Inbox<LogWork>>,
    apply: Arc<Inbox<Work>>,
    /// The last place to start from that was written. One before it must not come behind it: the log would be read from there, where it may be gone.
    place: u64,
    /// Handed back and forth with the inbox.
    work: Vec<LogWork>,
    batch: Batch,
}

/// Why the log cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogFault {
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error(transparent)]
    Snapshot(#[from] SnapError),
}

/// While this is there, the log is at its disk; if that does not answer, somebody notices (`chores::stall`).
struct Busy<'a>(&'a Shared);

impl Busy<'_> {
    fn new(shared: &Shared) -> Busy<'_> {
        shared.sync_began.store(nanos(shared.now()).max(1), Ordering::Relaxed);
        Busy(shared)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.sync_began.store(0, Ordering::Relaxed);
    }
}

/// What is written in one go.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<Entry>,
    state: HardState,
    must_sync: bool,
    appends: Vec<Message>,
}

impl LogWriter {
    pub(crate) fn new(
        shared: Arc<Shared>,
        wal: Wal,
        inbox: Arc<Inbox<LogWork>>,
        apply: Arc<Inbox<Work>>,
    ) -> LogWriter {
        // A new log has its beginning already.
        shared.metrics.wal_write_bytes.add(signed(wal.bytes_written()));
        shared.first_segment.store(wal.first_needed(), Ordering::Release);
        let (work, batch) = (Vec::new(), Batch::default());
        LogWriter { shared, wal, inbox, apply, place: 0, work, batch }
    }

    /// Has a thread make the next segment ahead of time.
    pub(crate) fn prepare_in_background(&mut self) -> io::Result<()> {
        self.wal.prepare_in_background()
    }

    /// Writes all that waits. After an error nobody knows what the log has: the member has to stop.
    pub(crate) fn turn(&mut self) -> Result<(), LogFault> {
        let mut work = std::mem::take(&mut self.work);
        self.inbox.take(&mut work);
        for item in work.drain(..) {
            match item {
                LogWork::Append(append) if append.snapshot.is_some() => self.start_over(*append)?,
                LogWork::Append(append) => self.add(*append)?,
                LogWork::State(state) => self.batch.state = state,
                LogWork::Snapshot(snapshot) => self.note_snapshot(&snapshot)?,
            }
        }
        self.work = work;
        Ok(self.write()?)
    }

    /// A leader sent a snapshot, whose database is durable: the log goes on behind it.
    ///
    /// It is acknowledged at once, as in etcd: that it is durable is all that others are promised, and while it takes the place of our state, which may take long, this member
    /// votes and takes entries. They are applied behind it, since it is handed on first.
    ///
    /// The order is etcd's, and each step speaks of what is durable by then: file, record, and at last the state that says it is committed.
    fn start_over(&mut self, append: Message) -> Result<(), LogFault> {
        self.write()?;
        let snapshot = append.snapshot.as_ref().map(|it| raftpb::Snapshot::from((**it).clone()));
        let snapshot = snapshot.unwrap_or_default();
        let metadata = snapshot.metadata.clone().unwrap_or_default();
        failpoint!("raftBeforeSaveSnap");
        let shared = Arc::clone(&self.shared);
        let busy = Busy::new(&shared);
        shared.files.save(&snapshot)?;
        let (index, term) = (metadata.index(), metadata.term());
        let conf_state = metadata.conf_state;
        self.wal.save_snapshot(&walpb::Snapshot {
            index: Some(index),
            term: Some(term),
            conf_state,
        })?;
        failpoint!("raftAfterSaveSnap");
        let entries: Vec<_> = append.entries.iter().cloned().map(Entry::from).collect();
        // One that was put off is older: written later, it would say that the snapshot is not committed.
        let put_off = std::mem::take(&mut self.batch.state);
        let state = append.hard_state().map_or(put_off, HardState::from);
        self.wal.save(&state, &entries, false)?;
        self.wal.sync()?;
        drop(busy);
        self.release(index);
        failpoint!("raftAfterWALRelease");
        self.apply.push(Work::Restore(Index(index)));
        self.acknowledge(append);
        Ok(())
    }

    /// Says that something is durable.
    fn acknowledge(&self, append: Message) {
        self.shared.raft.push(Event::Appended(Box::new(append)));
    }

    /// Adds to the batch. What overwrites a part of it comes behind it.
    fn add(&mut self, append: Message) -> Result<(), SaveError> {
        let follows = |first: &raft::Entry| {
            let last = self.batch.entries.last();
            last.is_none_or(|last| last.index() + 1 == first.index.0)
        };
        if !append.entries.first().is_none_or(follows) {
            self.write()?;
        }
        let batch = &mut self.batch;
        batch.entries.extend(append.entries.iter().cloned().map(Entry::from));
        if let Some(state) = append.hard_state() {
            let state = HardState::from(state);
            let saved = self.wal.state();
            // A commit index alone need not be durable: it is learned anew.
            batch.must_sync |= (state.term(), state.vote()) != (saved.term(), saved.vote());
            batch.state = state;
        }
        batch.must_sync |= !append.entries.is_empty();
        batch.appends.push(append);
        Ok(())
    }

    /// Writes the batch, and says so.
    fn write(&mut self) -> Result<(), SaveError> {
        let batch = &mut self.batch;
        if batch.appends.is_empty() {
            return Ok(());
        }
        failpoint!("raftBeforeSave");
        if planted_bug::is_planted(PlantedBug::ForgetVote) && batch.state.vote.is_some() {
            batch.state.vote = Some(0);
        }
        let shared = &self.shared;
        let began = shared.now();
        let busy = Busy::new(shared);
        let bytes_before = self.wal.bytes_written();
        save(&mut self.wal, &batch.state, &batch.entries, SAVE_BYTES)?;
        let written = shared.now();
        shared.metrics.wal_write_bytes.add(signed(self.wal.bytes_written() - bytes_before));
        shared.metrics.wal_write_duration.observe(seconds(began, written));
        if batch.must_sync && !planted_bug::is_planted(PlantedBug::AcknowledgeBeforeSync) {
            self.wal.sync()?;
            if !shared.config.unsafe_no_fsync {
                shared.metrics.wal_fsync_duration.observe(seconds(written, shared.now()));
            }
        }
        drop(busy);
        failpoint!("raftAfterSave");
        if let Some(last) = batch.entries.last() {
            shared.marked.reached(Moment::Synced, Index(last.index()), || shared.now());
        }
        batch.entries.clear();
        batch.state = HardState::default();
        batch.must_sync = false;
        for append in std::mem::take(&mut batch.appends) {
            self.acknowledge(append);
        }
        Ok(())
    }

    /// Writes where the log may be replayed from, and lets go of what is before.
    fn note_snapshot(&mut self, snapshot: &walpb::Snapshot) -> Result<(), SaveError> {
        if snapshot.index() <= self.place {
            return Ok(());
        }
        self.write()?;
        let (began, bytes_before) = (self.shared.now(), self.wal.bytes_written());
        let shared = Arc::clone(&self.shared);
        let busy = Busy::new(&shared);
        // A place to start from counts only if the log says that it is committed.
        self.wal.save(&std::mem::take(&mut self.batch.state), &[], false)?;
        self.wal.save_snapshot(snapshot)?;
        drop(busy);
        let metrics = &self.shared.metrics;
        metrics.wal_write_bytes.add(signed(self.wal.bytes_written() - bytes_before));
        metrics.wal_fsync_duration.observe(seconds(began, self.shared.now()));
        self.release(snapshot.index());
        Ok(())
    }

    /// Lets go of what is before a place to start from.
    fn release(&mut self, index: u64) {
        self.place = index;
        self.wal.release_to(index);
        self.shared.first_segment.store(self.wal.first_needed(), Ordering::Release);
    }

    /// Makes everything durable and lets go of the files.
    pub(crate) fn close(mut self) -> Result<(), SaveError> {
        self.wal.save(&self.batch.state, &[], false)?;
        self.wal.close()
    }
}

/// Writes entries, in as many calls as it takes, and behind them the state.
fn save(
    wal: &mut Wal,
    state: &HardState,
    entries: &[Entry],
    bytes_max: usize,
) -> Result<(), SaveError> {
    let mut parts = parts(entries, bytes_max);
    let mut last = parts.next().unwrap_or_default();
    for part in parts {
        wal.save(&HardState::default(), std::mem::replace(&mut last, part), false)?;
    }
    wal.save(state, last, false)
}

/// Entries by parts of a size that is exceeded by one entry at most.
fn parts(entries: &[Entry], bytes_max: usize) -> impl Iterator<Item = &[Entry]> {
    let mut bytes = 0;
    entries.chunk_by(move |entry, _| {
        bytes += entry.data().len();
        let fits = bytes < bytes_max;
        bytes = if fits { bytes } else { 0 };
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, bytes: usize) -> Entry {
        Entry { index: Some(index), data: Some(vec![0; bytes].into()), ..Entry::default() }
    }

    #[test]
    fn a_long_queue_is_written_in_parts() {
        let entries: Vec<_> = (1..=7).map(|index| entry(index, 10)).collect();
        let lengths =
            |bytes_max| -> Vec<usize> { parts(&entries, bytes_max).map(<[Entry]>::len).collect() };
        assert_eq!(lengths(71), [7]);
        assert_eq!(lengths(25), [3, 3, 1]);
        assert_eq!(lengths(1), [1; 7]);
        assert_eq!(parts(&[], 1).count(), 0);
    }
}
