//! How far one member is, as its leader sees it.
//!
//! ```text
//!            acknowledged                    accepted by the leader
//!                 ▼                                   ▼
//! log   1 2 3 4 5 6 | 7 8 9 10 | 11 12 13 14 15 16 17 18
//!             match ┘  in flight └ next
//! ```
//!
//! *Probe*: the leader does not know where the logs meet and sends one append at a time. *Replicate*: it
//! knows, and streams appends without waiting, within the window. *Snapshot*: what the member needs is no
//! longer in the log; it gets a snapshot, and nothing else until that is settled.

use std::fmt;

use types::Index;

use super::Inflights;

/// How the leader sends to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressState {
    /// One append at a time, until one is accepted.
    Probe,
    /// A stream of appends.
    Replicate,
    /// Nothing, until the snapshot that ends at `pending` is settled.
    Snapshot {
        /// The last index the snapshot covers.
        pending: Index,
    },
}

/// The progress of one member.
///
/// Invariant: `matched < next`.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The logs are known to agree up to here.
    pub matched: Index,
    /// The next entry to send.
    pub next: Index,
    /// The highest commit index sent, which may not have arrived.
    sent_commit: Index,
    /// How to send.
    pub state: ProgressState,
    /// Whether the member was heard from since the leader last checked for a quorum.
    pub recent_active: bool,
    /// Whether appends wait for an answer or a heartbeat round. In a probe it follows each
    /// append; in replication, a full window.
    pub append_paused: bool,
    /// Appends sent and not acknowledged.
    pub inflights: Inflights,
    /// Whether the member has no vote.
    pub is_learner: bool,
}

impl Progress {
    /// A member about whose log nothing is known yet; `next` is the leader's guess.
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

    /// Starts to probe: after a snapshot from its end, otherwise from what is known to match.
    pub fn become_probe(&mut self) {
        let from = match self.state {
            ProgressState::Snapshot { pending } => self.matched.max(pending),
            ProgressState::Probe | ProgressState::Replicate => self.matched,
        };
        self.probe_from(from);
    }

    /// Starts to probe after a snapshot that did not arrive: its end means nothing.
    pub fn become_probe_after_failed_snapshot(&mut self) {
        self.probe_from(self.matched);
    }

    fn probe_from(&mut self, matched: Index) {
        self.reset(ProgressState::Probe);
        self.next = matched.next();
        self.forget_unconfirmed_commit();
    }

    /// Starts to stream.
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

    /// Notes that an append with some entries was sent from `next` on.
    ///
    /// # Panics
    ///
    /// While a snapshot is pending: no append is sent then.
    pub fn sent_entries(&mut self, entries: usize, payload_bytes: u64) {
        match self.state {
            ProgressState::Replicate => {
                if entries > 0 {
                    self.next += entries as u64;
                    self.inflights.add(self.next.prev(), payload_bytes);
                }
                // What fills the window is a probe: wait for a sign of life before more.
                self.append_paused = self.inflights.is_full();
            }
            // Compat: as in etcd, only a probe with entries pauses.
            ProgressState::Probe => self.append_paused |= entries > 0,
            ProgressState::Snapshot { .. } => panic!("an append was sent beside a snapshot"),
        }
    }

    /// Whether sending this commit index could teach the member something: not if one was sent that
    /// already covers all it has been sent.
    #[must_use]
    pub fn can_bump_commit(&self, commit: Index) -> bool {
        commit > self.sent_commit && self.sent_commit < self.next.prev()
    }

    /// Notes that a commit index was sent.
    pub fn sent_commit(&mut self, commit: Index) {
        self.sent_commit = commit;
    }

    /// A refused or lost append probably took its commit index with it.
    fn forget_unconfirmed_commit(&mut self) {
        self.sent_commit = self.sent_commit.min(self.next.prev());
    }

    /// Takes an acknowledgement; false if it says nothing new.
    pub fn maybe_update(&mut self, acked: Index) -> bool {
        if acked <= self.matched {
            return false;
        }
        self.matched = acked;
        self.next = self.next.max(acked.next());
        self.append_paused = false;
        true
    }

    /// Takes a refusal of the append after `rejected`, with the index where the logs might meet
    /// instead; false if the refusal is stale: messages arrive late and twice.
    pub fn maybe_decrease_to(&mut self, rejected: Index, match_hint: Index) -> bool {
        if self.state == ProgressState::Replicate {
            if rejected <= self.matched {
                return false;
            }
            self.next = self.matched.next();
        } else {
            // A probe is one append at a time, so a refusal of another one is old.
            if self.next.prev() != rejected {
                return false;
            }
            self.next = rejected.min(match_hint.next()).max(self.matched.next());
            self.append_paused = false;
        }
        self.forget_unconfirmed_commit();
        true
    }

    /// Whether no append may be sent for now.
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
