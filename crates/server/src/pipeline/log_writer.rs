//! The log writer: the stage that writes and syncs the WAL, and acknowledges appends.
//!
//! While it waits for the disk, more appends queue up. It takes all of them and pays one sync.

use std::io;
use std::sync::Arc;

use failpoint::failpoint;
use proto::raftpb::{Entry, HardState};
use proto::{raftpb, walpb};
use raft::Message;
use sync::Queue;
use types::{Index, Term};
use wal::snap::SnapError;
use wal::{SaveError, Wal};

use crate::context::MemberContext;
use crate::metrics::seconds;
use crate::pipeline::Inboxes;
use crate::pipeline::applier::ApplyWork;
use crate::pipeline::log_status::LogStatus;
use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::Event;
use crate::planted_bug::{self, PlantedBug};
use crate::propose::Proposals;
use crate::propose::stage_timings::RequestStage;
use crate::server::ServerInner;
use crate::snapshot::files::SnapshotFiles;
use crate::units::signed;

/// The bytes written with one call. A queue may hold more, and the WAL takes at most 1 GiB at once.
const SAVE_BYTES: usize = 64 << 20;

/// The work of the log writer.
#[derive(Debug)]
pub(crate) enum LogWork {
    /// Entries and a hard state, with the responses to send once they are durable.
    Append(Box<Message>),
    /// A new commit index, to be written with the next append.
    State(HardState),
    /// A durable snapshot, after which earlier segments can be released.
    Snapshot(walpb::Snapshot),
}

/// The log writer.
pub(crate) struct LogWriter {
    context: Arc<MemberContext>,
    raft: Arc<RaftHandle>,
    proposals: Arc<Proposals>,
    snapshot_files: Arc<SnapshotFiles>,
    status: Arc<LogStatus>,
    inbox: Arc<Queue<LogWork>>,
    apply: Arc<Queue<ApplyWork>>,
    wal: Wal,
    /// The index of the last snapshot record. An older one must not follow it: a replay would start
    /// there, where segments may have been purged.
    snapshot_index: u64,
    /// The buffer that is swapped with the queue's.
    work: Vec<LogWork>,
    batch: LogBatch,
}

/// A failure of the log, after which the member has to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogFault {
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error(transparent)]
    Snapshot(#[from] SnapError),
}

/// Marks the log as busy until dropped. The background task `stall` detects a write that hangs.
struct BusyGuard<'a>(&'a LogStatus);

impl BusyGuard<'_> {
    fn new<'a>(status: &'a LogStatus, context: &MemberContext) -> BusyGuard<'a> {
        status.set_write_began(Some(context.now()));
        BusyGuard(status)
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.set_write_began(None);
    }
}

/// The appends that are written together.
#[derive(Debug, Default)]
struct LogBatch {
    entries: Vec<Entry>,
    state: HardState,
    must_sync: bool,
    appends: Vec<Message>,
}

impl LogWriter {
    pub(crate) fn new(server: &ServerInner, inboxes: &Inboxes, wal: Wal) -> LogWriter {
        // A new log has its first records already.
        server.context.metrics.wal_write_bytes.add(signed(wal.bytes_written()));
        server.log_status.set_first_segment(wal.first_needed());
        LogWriter {
            context: Arc::clone(&server.context),
            raft: Arc::clone(&server.raft),
            proposals: Arc::clone(&server.proposals),
            snapshot_files: Arc::clone(&server.snapshot_files),
            status: Arc::clone(&server.log_status),
            inbox: Arc::clone(&inboxes.log),
            apply: Arc::clone(&inboxes.apply),
            wal,
            snapshot_index: 0,
            work: Vec::new(),
            batch: LogBatch::default(),
        }
    }

    /// Spawns a thread that prepares the next segment ahead of time.
    pub(crate) fn prepare_in_background(&mut self) -> io::Result<()> {
        self.wal.prepare_in_background()
    }

    /// Writes all queued work. After an error the content of the log is unknown: the member has to
    /// stop.
    pub(crate) fn turn(&mut self) -> Result<(), LogFault> {
        let mut work = std::mem::take(&mut self.work);
        self.inbox.take(&mut work);
        for item in work.drain(..) {
            match item {
                LogWork::Append(append) if append.snapshot.is_some() => {
                    self.write_received_snapshot(*append)?;
                }
                LogWork::Append(append) => self.add(*append)?,
                LogWork::State(state) => self.batch.state = state,
                LogWork::Snapshot(snapshot) => self.write_snapshot_record(&snapshot)?,
            }
        }
        self.work = work;
        Ok(self.write()?)
    }

    /// Continues the log after a snapshot that the leader sent, whose database is durable.
    ///
    /// As in etcd, the append is acknowledged at once: durability is all that it promises. While
    /// the database replaces the local one, which may take long, this member votes and takes
    /// entries. They are applied after it, because it is queued for the applier first.
    ///
    /// The order of writes is etcd's, and each step refers only to durable data: the snapshot file,
    /// the record, and last the hard state that declares it committed.
    fn write_received_snapshot(&mut self, append: Message) -> Result<(), LogFault> {
        self.write()?;
        let snapshot = append.snapshot.as_ref().map(|it| raftpb::Snapshot::from((**it).clone()));
        let snapshot = snapshot.unwrap_or_default();
        let metadata = snapshot.metadata.clone().unwrap_or_default();
        failpoint!("raftBeforeSaveSnap");
        let status = Arc::clone(&self.status);
        let busy = BusyGuard::new(&status, &self.context);
        self.snapshot_files.snapshotter.save(&snapshot)?;
        let (index, term) = (metadata.index(), metadata.term());
        let conf_state = metadata.conf_state;
        self.wal.save_snapshot(&walpb::Snapshot {
            index: Some(index),
            term: Some(term),
            conf_state,
        })?;
        failpoint!("raftAfterSaveSnap");
        let entries: Vec<_> = append.entries.iter().cloned().map(Entry::from).collect();
        // A deferred hard state is older: written later, it would declare the snapshot uncommitted.
        let deferred = std::mem::take(&mut self.batch.state);
        let state = append.hard_state().map_or(deferred, HardState::from);
        self.wal.save(&state, &entries, false)?;
        self.wal.sync()?;
        drop(busy);
        self.release_segments(index);
        failpoint!("raftAfterWALRelease");
        self.apply.push(ApplyWork::Restore { index: Index(index), term: Term(term) });
        self.acknowledge(append);
        Ok(())
    }

    /// Notifies the raft loop that an append is durable.
    fn acknowledge(&self, append: Message) {
        self.raft.push(Event::Appended(Box::new(append)));
    }

    /// Adds an append to the batch. One that overwrites entries of the batch starts a new one.
    fn add(&mut self, append: Message) -> Result<(), SaveError> {
        let is_contiguous = |first: &raft::Entry| {
            let last = self.batch.entries.last();
            last.is_none_or(|last| last.index() + 1 == first.index.0)
        };
        if !append.entries.first().is_none_or(is_contiguous) {
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

    /// Writes the batch, syncs it if needed, and acknowledges its appends.
    fn write(&mut self) -> Result<(), SaveError> {
        let batch = &mut self.batch;
        if batch.appends.is_empty() {
            return Ok(());
        }
        if planted_bug::is_planted(PlantedBug::ForgetVote) && batch.state.vote.is_some() {
            batch.state.vote = Some(0);
        }
        let context = &*self.context;
        let began = context.now();
        let busy = BusyGuard::new(&self.status, context);
        let bytes_before = self.wal.bytes_written();
        save(&mut self.wal, &batch.state, &batch.entries, SAVE_BYTES)?;
        let written = context.now();
        context.metrics.wal_write_bytes.add(signed(self.wal.bytes_written() - bytes_before));
        context.metrics.wal_write_duration.observe(seconds(began, written));
        if batch.must_sync && !planted_bug::is_planted(PlantedBug::AcknowledgeBeforeSync) {
            self.wal.sync()?;
            if !context.config.unsafe_no_fsync {
                context.metrics.wal_fsync_duration.observe(seconds(written, context.now()));
            }
        }
        drop(busy);
        failpoint!("raftAfterSave");
        if let Some(last) = batch.entries.last() {
            let last = Index(last.index());
            self.proposals.timed.record_up_to(RequestStage::Synced, last, || context.now());
        }
        batch.entries.clear();
        batch.state = HardState::default();
        batch.must_sync = false;
        for append in std::mem::take(&mut batch.appends) {
            self.acknowledge(append);
        }
        Ok(())
    }

    /// Writes a record of a snapshot, from which a replay can start, and releases earlier segments.
    fn write_snapshot_record(&mut self, snapshot: &walpb::Snapshot) -> Result<(), SaveError> {
        if snapshot.index() <= self.snapshot_index {
            return Ok(());
        }
        self.write()?;
        let (began, bytes_before) = (self.context.now(), self.wal.bytes_written());
        let busy = BusyGuard::new(&self.status, &self.context);
        // A replay ignores the record unless a hard state declares its index committed.
        self.wal.save(&std::mem::take(&mut self.batch.state), &[], false)?;
        self.wal.save_snapshot(snapshot)?;
        drop(busy);
        let metrics = &self.context.metrics;
        metrics.wal_write_bytes.add(signed(self.wal.bytes_written() - bytes_before));
        metrics.wal_fsync_duration.observe(seconds(began, self.context.now()));
        self.release_segments(snapshot.index());
        Ok(())
    }

    /// Releases the segments that a replay from `index` does not need.
    fn release_segments(&mut self, index: u64) {
        self.snapshot_index = index;
        self.wal.release_to(index);
        self.status.set_first_segment(self.wal.first_needed());
    }

    /// Makes the log durable and closes its files.
    pub(crate) fn close(mut self) -> Result<(), SaveError> {
        self.wal.save(&self.batch.state, &[], false)?;
        self.wal.close()
    }
}

/// Writes entries with as many calls as needed, and the state with the last one.
fn save(
    wal: &mut Wal,
    state: &HardState,
    entries: &[Entry],
    bytes_max: usize,
) -> Result<(), SaveError> {
    let mut chunks = chunks(entries, bytes_max);
    let mut last = chunks.next().unwrap_or_default();
    for chunk in chunks {
        wal.save(&HardState::default(), std::mem::replace(&mut last, chunk), false)?;
    }
    wal.save(state, last, false)
}

/// Splits entries into chunks of `bytes_max`, which each chunk exceeds by at most one entry.
fn chunks(entries: &[Entry], bytes_max: usize) -> impl Iterator<Item = &[Entry]> {
    let mut bytes = 0;
    entries.chunk_by(move |entry, _| {
        bytes += entry.data().len();
        let fits = bytes < bytes_max;
        bytes = if fits { bytes } else { 0 };
        fits
    })
}

#[cfg(test)]
mod tests;
