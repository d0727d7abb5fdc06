//! Compaction: discards the history below a revision.
//!
//! Compaction at revision N keeps, of each key, the last revision at or below N, unless that is a
//! tombstone below N. A request takes effect at once: revisions below N cannot be read any more.
//! The superseded revisions are then discarded in small turns, first from the index, then from the
//! database, while reads and writes continue:
//!
//! ```text
//!   request      meta scheduledCompactRev 7             in the transaction of the entry
//!   turn         index, keys "" to "k"                  collects the revisions to keep
//!   turn         index, keys from "k"
//!   turn         database, the first 1000 revisions     deletes the superseded
//!   turn         database, the rest                     meta finishedCompactRev 7
//! ```
//!
//! A compaction that was interrupted by a restart begins again.

use std::collections::VecDeque;
use std::fmt;

use backend::schema::{Bucket, meta, revision};
use backend::{Read, Tx};
use bytes::Bytes;
use failpoint::failpoint;
use parking_lot::Mutex;
use types::Revision;

use crate::error::{Error, Fault};
use crate::hash::{KeyValueHash, KeyValueHasher, decode};
use crate::store::{NEVER_COMPACTED, Store};

/// Identifies a compaction. Tickets grow in the order of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompactionTicket(u64);

/// The result of a compaction turn. Unless it is `Idle`, there may be more work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionTurn {
    /// No compaction is scheduled.
    Idle,
    /// A part of the index was compacted.
    Index,
    /// A part of the database was compacted.
    File {
        /// The number of deleted revisions.
        dropped: usize,
    },
    /// The last part of the database was compacted, and the compaction is finished.
    Finished {
        /// The number of deleted revisions.
        dropped: usize,
        /// The hash of all revisions up to the compaction.
        hash: KeyValueHash,
    },
}

/// The compactions that are not finished.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    queue: Mutex<CompactionQueue>,
    /// Held for the duration of a turn.
    turning: Mutex<()>,
}

#[derive(Default)]
struct CompactionQueue {
    scheduled: CompactionTicket,
    done: CompactionTicket,
    jobs: VecDeque<CompactionJob>,
    waiting: Vec<(CompactionTicket, Box<dyn FnOnce() + Send>)>,
}

impl fmt::Debug for CompactionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionQueue")
            .field("scheduled", &self.scheduled)
            .field("done", &self.done)
            .finish()
    }
}

struct CompactionJob {
    at: i64,
    /// The previous compacted revision, an input of the hash.
    previous: i64,
    /// Whether that compaction was finished. If not, the database still has revisions that other
    /// members have discarded, and the hash is not comparable.
    follows_finished: bool,
    phase: Phase,
}

enum Phase {
    /// Compacts the index, from a key on.
    Index { from: Box<[u8]>, kept: Vec<Revision> },
    /// Compacts the database, from a revision on.
    File { from: Revision, hasher: Box<KeyValueHasher> },
}

impl Store {
    /// Schedules a compaction: records it in a backend transaction, and raises the compacted
    /// revision.
    ///
    /// # Errors
    /// If the revision is compacted already or in the future. Then nothing was changed.
    pub fn compact(&self, tx: &mut Tx<'_>, at: i64) -> Result<CompactionTicket, Error> {
        let follows_finished = meta::scheduled_compaction(tx)? == meta::finished_compaction(tx)?;
        let mut state = self.state_mut();
        if at <= state.compacted {
            return Err(Error::Compacted);
        }
        if at > state.current {
            return Err(Error::FutureRevision);
        }
        meta::set_scheduled_compaction(tx, at);
        failpoint!("compactBeforeCommitScheduledCompact");
        let previous = std::mem::replace(&mut state.compacted, at);
        drop(state);
        Ok(self.compactions.push(at, previous, follows_finished))
    }

    /// Starts an interrupted compaction again.
    pub(crate) fn resume_compaction(&self, at: i64) {
        let previous = std::mem::replace(&mut self.state_mut().compacted, at);
        tracing::info!(at, "resuming compaction");
        self.compactions.push(at, previous, false);
    }

    /// Executes a bounded part of the oldest scheduled compaction. The caller pauses between turns.
    ///
    /// # Errors
    /// The member has to stop.
    pub fn turn_compaction(&self) -> Result<CompactionTurn, Fault> {
        let _turning = self.compactions.turning.lock();
        let Some(mut job) = self.compactions.queue.lock().jobs.pop_front() else {
            return Ok(CompactionTurn::Idle);
        };
        let turn = self.advance(&mut job)?;
        match turn {
            CompactionTurn::Finished { .. } => self.compactions.finish(),
            _ => self.compactions.queue.lock().jobs.push_front(job),
        }
        Ok(turn)
    }

    /// Returns whether a compaction and all before it are finished.
    #[must_use]
    pub fn is_compacted(&self, ticket: CompactionTicket) -> bool {
        self.compactions.queue.lock().done >= ticket
    }

    /// Returns the ticket of the compaction that was scheduled last.
    #[must_use]
    pub fn last_compaction(&self) -> CompactionTicket {
        self.compactions.queue.lock().scheduled
    }

    /// Calls back when a compaction is finished, or at once if it is.
    pub fn when_compacted(&self, ticket: CompactionTicket, call: Box<dyn FnOnce() + Send>) {
        let mut queue = self.compactions.queue.lock();
        if queue.done < ticket {
            queue.waiting.push((ticket, call));
            return;
        }
        drop(queue);
        call();
    }

    fn advance(&self, job: &mut CompactionJob) -> Result<CompactionTurn, Fault> {
        match &mut job.phase {
            Phase::Index { from, kept } => {
                // The lock is released before the kept revisions are sorted.
                let next = self.state_mut().index.compact(from, job.at, kept);
                match next {
                    Some(next) => *from = next,
                    None => job.phase = Phase::file(std::mem::take(kept), job.previous, job.at),
                }
                Ok(CompactionTurn::Index)
            }
            Phase::File { from, hasher } => {
                let (dropped, next) = self.compact_file(*from, job.at, hasher)?;
                let Some(next) = next else {
                    let hash = self.store_hash(job.follows_finished, hasher);
                    return Ok(CompactionTurn::Finished { dropped, hash });
                };
                *from = next;
                Ok(CompactionTurn::File { dropped })
            }
        }
    }

    /// Deletes a batch of revisions from the database. Returns how many, and where to continue.
    fn compact_file(
        &self,
        from: Revision,
        at: i64,
        hasher: &mut KeyValueHasher,
    ) -> Result<(usize, Option<Revision>), Fault> {
        let (drops, last) = self.scan_batch(from, at, hasher)?;
        let dropped = drops.len();
        let mut tx = self.backend.begin();
        failpoint!("compactAfterAcquiredBatchTxLock");
        for key in drops {
            tx.delete(Bucket::Key, key);
        }
        let Some(last) = last else {
            failpoint!("compactBeforeSetFinishedCompact");
            meta::set_finished_compaction(&mut tx, at);
            tx.commit()?;
            failpoint!("compactAfterSetFinishedCompact");
            return Ok((dropped, None));
        };
        failpoint!("compactBeforeCommitBatch");
        tx.commit()?;
        failpoint!("compactAfterCommitBatch");
        Ok((dropped, Some(Revision::new(last.main, last.sub + 1))))
    }

    /// Scans a batch of revisions. Returns the keys of those to delete, and the last scanned
    /// revision, or `None` at the end.
    fn scan_batch(
        &self,
        from: Revision,
        at: i64,
        hasher: &mut KeyValueHasher,
    ) -> Result<(Vec<Bytes>, Option<Revision>), Fault> {
        let (view, mut drops, mut last) = (self.backend.view(), Vec::new(), None);
        let (first, end) = (revision::encode(from), revision::encode(Revision::new(at + 1, 0)));
        let mut seen = 0;
        for item in view.range(Bucket::Key, &first, Some(&end))? {
            let item = item?;
            let key = decode(&item.key)?;
            if !hasher.add(key, &item.key, &item.value) {
                drops.push(item.key.into_bytes());
            }
            seen += 1;
            if seen == self.config.compaction_batch_limit {
                last = Some(key.revision);
                break;
            }
        }
        Ok((drops, last))
    }

    fn store_hash(&self, follows_finished: bool, hasher: &KeyValueHasher) -> KeyValueHash {
        let result = hasher.finish_compaction();
        if follows_finished {
            self.hashes.store(result);
        }
        result.hash
    }
}

impl Phase {
    fn file(mut kept: Vec<Revision>, previous: i64, at: i64) -> Phase {
        kept.sort_unstable();
        kept.dedup();
        Phase::File {
            from: Revision::ZERO,
            hasher: Box::new(KeyValueHasher::new(previous, at, kept)),
        }
    }
}

impl Compactions {
    fn push(&self, at: i64, previous: i64, follows_finished: bool) -> CompactionTicket {
        debug_assert!(at > previous && previous >= NEVER_COMPACTED);
        let mut queue = self.queue.lock();
        let phase = Phase::Index { from: Box::default(), kept: Vec::new() };
        queue.jobs.push_back(CompactionJob { at, previous, follows_finished, phase });
        queue.scheduled.0 += 1;
        queue.scheduled
    }

    fn finish(&self) {
        let mut queue = self.queue.lock();
        queue.done.0 += 1;
        let done = queue.done;
        let (due, waiting) =
            std::mem::take(&mut queue.waiting).into_iter().partition(|(ticket, _)| *ticket <= done);
        queue.waiting = waiting;
        drop(queue);
        let due: Vec<_> = due;
        due.into_iter().for_each(|(_, call)| call());
    }
}
