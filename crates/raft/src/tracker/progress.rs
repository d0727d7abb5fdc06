//! The progress of a follower, as its leader tracks it.
//!
//! ```text
//!            acknowledged                    accepted by the leader
//!                 ▼                                   ▼
//! log   1 2 3 4 5 6 | 7 8 9 10 | 11 12 13 14 15 16 17 18
//!             match ┘  in flight └ next
//! ```
//!
//! *Probe*: the leader does not know where the logs match and sends one append at a time.
//! *Replicate*: it knows, and streams appends within the window. *Snapshot*: the follower needs
//! compacted entries and receives a snapshot; no appends are sent until that is settled.

use std::fmt;

use types::Index;

use super::Inflights;

/// The mode in which the leader sends to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressState {
    /// A single append at a time, until one is accepted.
    Probe,
    /// A stream of appends.
    Replicate,
    /// No appends until the snapshot that ends at `pending` is settled.
    Snapshot {
        /// The last index that the snapshot covers.
        pending: Index,
    },
}

/// The progress of a member.
///
/// Invariant: `matched < next`.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The highest index at which the logs are known to match (etcd's `Match`).
    pub matched: Index,
    /// The next entry to send.
    pub next: Index,
    /// The highest commit index sent, which may not have arrived.
    sent_commit: Index,
    /// The sending mode.
    pub state: ProgressState,
    /// Whether the member has responded since the last quorum check.
    pub recent_active: bool,
    /// Whether appends wait for a response or a heartbeat round. Set after each append in a probe,
    /// and by a full window in replication.
    pub append_paused: bool,
    /// The appends in flight.
    pub inflights: Inflights,
    /// Whether the member is a learner.
    pub is_learner: bool,
}

impl Progress {
    /// Creates the progress of a member whose log is unknown; `next` is the leader's guess.
    #[must_use]
    pub fn new(next: Index, inflights: Inflights, is_learner: bool) -> Progress {
        Progress {
            matched: Index::ZERO,
            next,
            sent_commit: Index::ZERO,
            state: ProgressState::Probe,
            recent_active: false,
            append_paused: false,
            inflights,
            is_learner,
        }
    }

    fn reset(&mut self, state: ProgressState) {
        self.append_paused = false;
        self.state = state;
        self.inflights.reset();
    }

    /// Starts to probe: after a snapshot from its end, otherwise from the match index.
    pub fn become_probe(&mut self) {
        let from = match self.state {
            ProgressState::Snapshot { pending } => self.matched.max(pending),
            ProgressState::Probe | ProgressState::Replicate => self.matched,
        };
        self.probe_from(from);
    }

    /// Starts to probe after a failed snapshot, ignoring its end.
    pub fn become_probe_after_failed_snapshot(&mut self) {
        self.probe_from(self.matched);
    }

    fn probe_from(&mut self, matched: Index) {
        self.reset(ProgressState::Probe);
        self.next = matched.next();
        self.forget_unconfirmed_commit();
    }

    /// Starts to replicate.
    pub fn become_replicate(&mut self) {
        self.reset(ProgressState::Replicate);
        self.next = self.matched.next();
    }

    /// Waits for a snapshot that ends at `pending`.
    pub fn become_snapshot(&mut self, pending: Index) {
        self.reset(ProgressState::Snapshot { pending });
        self.next = pending.next();
        self.sent_commit = pending;
    }

    /// Records an append with some entries from `next` on.
    ///
    /// # Panics
    ///
    /// Panics while a snapshot is pending, because no append is sent then.
    pub fn sent_entries(&mut self, entries: usize, payload_bytes: u64) {
        match self.state {
            ProgressState::Replicate => {
                if entries > 0 {
                    self.next += entries as u64;
                    self.inflights.add(self.next.prev(), payload_bytes);
                }
                // The append that fills the window acts as a probe: wait for a response before
                // sending more.
                self.append_paused = self.inflights.is_full();
            }
            // Compat: as in etcd, only a probe with entries pauses.
            ProgressState::Probe => self.append_paused |= entries > 0,
            ProgressState::Snapshot { .. } => panic!("append sent while a snapshot is pending"),
        }
    }

    /// Reports whether sending this commit index could let the member commit more: not if a sent
    /// commit index already covers all sent entries.
    #[must_use]
    pub fn can_bump_commit(&self, commit: Index) -> bool {
        commit > self.sent_commit && self.sent_commit < self.next.prev()
    }

    /// Records a sent commit index.
    pub fn sent_commit(&mut self, commit: Index) {
        self.sent_commit = commit;
    }

    /// Lowers the sent commit index to the last sent entry: a rejected or lost append probably lost
    /// it too.
    fn forget_unconfirmed_commit(&mut self) {
        self.sent_commit = self.sent_commit.min(self.next.prev());
    }

    /// Applies an acknowledgement; returns false if it is stale.
    pub fn maybe_update(&mut self, acked: Index) -> bool {
        if acked <= self.matched {
            return false;
        }
        self.matched = acked;
        self.next = self.next.max(acked.next());
        self.append_paused = false;
        true
    }

    /// Applies a rejection of the append after `rejected`, with the index at which the logs might
    /// match instead. Returns false if the rejection is stale: messages may arrive late or twice.
    pub fn maybe_decrease_to(&mut self, rejected: Index, match_hint: Index) -> bool {
        if self.state == ProgressState::Replicate {
            if rejected <= self.matched {
                return false;
            }
            self.next = self.matched.next();
        } else {
            // A probe is one append at a time, so the rejection of another append is stale.
            if self.next.prev() != rejected {
                return false;
            }
            self.next = rejected.min(match_hint.next()).max(self.matched.next());
            self.append_paused = false;
        }
        self.forget_unconfirmed_commit();
        true
    }

    /// Reports whether no append may be sent for now.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        match self.state {
            ProgressState::Probe | ProgressState::Replicate => self.append_paused,
            ProgressState::Snapshot { .. } => true,
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, pending) = match self.state {
            ProgressState::Probe => ("StateProbe", None),
            ProgressState::Replicate => ("StateReplicate", None),
            ProgressState::Snapshot { pending } => ("StateSnapshot", Some(pending)),
        };
        write!(f, "{name} match={} next={}", self.matched, self.next)?;
        if self.is_learner {
            f.write_str(" learner")?;
        }
        if self.is_paused() {
            f.write_str(" paused")?;
        }
        if let Some(pending) = pending {
            write!(f, " pendingSnap={pending}")?;
        }
        if !self.recent_active {
            f.write_str(" inactive")?;
        }
        if self.inflights.count() > 0 {
            let full = if self.inflights.is_full() { "[full]" } else { "" };
            write!(f, " inflight={}{full}", self.inflights.count())?;
        }
        Ok(())
    }
}
