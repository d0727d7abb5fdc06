//! Compaction: dropping the history before a revision.
//!
//! Of each key the newest revision at or before it stays, unless that is a tombstone from before it. A request takes effect at once: nothing
//! below its revision can be read any more. What is no longer readable is then dropped in small turns, first from the index, then from the
//! file, while reading and writing go on:
//!
//! ```text
//!   request      meta scheduledCompactRev 7                    with the applied index of the entry
//!   turn         index: keys "" .. "k"                         revisions that stay are noted
//!   turn         index: keys "k" ..
//!   turn         file: the first 1000 revisions up to 7        those that were not noted are deleted
//!   turn         file: the rest; meta finishedCompactRev 7
//! ```
//!
//! A compaction that was begun and not finished, because the power was cut, is begun anew at the next start.

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

/// Names a compaction, in the order in which they were scheduled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompactionTicket(u64);

/// What a turn of compaction did. Unless it was nothing, there may be more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionTurn {
    /// There was nothing to do.
    Idle,
    /// It went through a part of the index.
    Index,
    /// It went through a part of the file, and dropped so many revisions.
    File {
        /// Revisions that are gone.
        dropped: usize,
    },
    /// It went through what was left of the file, and the compaction is finished.
    Finished {
        /// Revisions that are gone.
        dropped: usize,
        /// The hash of all that it went through, up to the revision it compacted to.
        hash: KeyValueHash,
    },
}

/// Compactions that are not finished.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    queue: Mutex<CompactionQueue>,
    /// Held for a turn.
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
    /// The compacted revision before it: its hash is computed with that.
    previous: i64,
    /// Whether that compaction was finished. If not, revisions are still there that a member which finished it has not, and the hash means nothing.
    follows_finished: bool,
    phase: Phase,
}

enum Phase {
    /// In the index, from a key on.
    Index { from: Box<[u8]>, kept: Vec<Revision> },
    /// In the file, from a revision on.
    File { from: Revision, hasher: Box<KeyValueHasher> },
}

impl Store {
    /// Begins a compaction: takes note of it in a transaction of the backend, and of what can still be read.
    ///
    /// # Errors
    /// If the revision is compacted already, or still to come. Then nothing was changed.
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

    /// Begins a compaction again that was cut short.
    pub(crate) fn resume_compaction(&self, at: i64) {
        let previous = std::mem::replace(&mut self.state_mut().compacted, at);
        tracing::info!(at, "resumes a compaction");
        self.compactions.push(at, previous, false);
    }

    /// Does a bounded piece of what compactions have left to do. Whoever calls it lets some time pass between turns.
    ///
    /// # Errors
    /// This member has to stop.
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

    /// Whether a compaction is finished, and with it all that were scheduled for before.
    #[must_use]
    pub fn is_compacted(&self, ticket: CompactionTicket) -> bool {
        self.compactions.queue.lock().done >= ticket
    }

    /// The last compaction that was scheduled for.
    #[must_use]
    pub fn last_compaction(&self) -> CompactionTicket {
        self.compactions.queue.lock().scheduled
    }

    /// Calls back when a compaction is finished; at once if it is.
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
                // The lock is let go of before what was noted is sorted.
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

    /// Deletes some revisions from the file. Returns how many, and where to go on.
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

    /// Looks at some revisions of the file. Returns the keys of those that are to be dropped, and the last that was looked at unless it is the end.
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
        let hash = hasher.finish();
        if follows_finished && !hasher.is_ambiguous() {
            self.hashes.store(hash);
        }
        hash
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
