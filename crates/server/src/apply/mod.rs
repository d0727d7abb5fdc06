//! Applies the log to the state machine: entries in order, each once.
//!
//! All changes of an entry go into one backend transaction, together with the index of the entry.
//! The in-memory state (key index, leases, users, members) changes along the way. So if the
//! transaction cannot be committed, or anything else fails that does not fail on the other members,
//! this member has to stop ([`Fault`]).
//!
//! ```text
//!   entry 7 ─► decode ─► layers: alarms, permissions, quota ─► execute ─► Reply or Refusal
//!              RaftRequest { header, command }                   │
//!                                        backend transaction: changes, applied index 7
//! ```

mod conf_change;
mod decode;
mod execute;
mod layers;
mod outcome;

use std::sync::atomic::Ordering;

use backend::Tx;
use mvcc::Changes;
use proto::command::Command;
use raft::{Entry, EntryType};
use types::Index;

pub use conf_change::ConfChanges;
pub use outcome::{Applied, Fault, Outcome, Refusal, Reply};

use crate::describe::Loggable;
use crate::metrics::{Executed, Op};
use crate::planted_bug::{self, PlantedBug};
use crate::state::StateMachine;

impl StateMachine {
    /// Applies an entry. Entries come in log order and without gaps; entries that were applied
    /// before a restart may come again.
    ///
    /// `has_waiter` returns whether this member has a waiter for a request id. Without one,
    /// commands that only read are skipped. Conf changes are handed to consensus through
    /// `conf_changes`.
    ///
    /// # Errors
    /// This member has to stop.
    pub fn apply(
        &self,
        entry: &Entry,
        has_waiter: &dyn Fn(u64) -> bool,
        conf_changes: &mut dyn ConfChanges,
    ) -> Result<Applied, Fault> {
        let mut tx = self.backend.begin();
        self.check_order(entry.index)?;
        let is_new = match planted_bug::is_planted(PlantedBug::SkipAppliedIndex) {
            true => entry.index > tx.applied().0,
            false => tx.advance_applied(entry.index, entry.term),
        };
        if !is_new {
            return Ok(Applied::AlreadyApplied);
        }
        match entry.kind {
            EntryType::Normal if entry.data.is_empty() => {
                self.commit(tx, None)?;
                Ok(Applied::Empty)
            }
            EntryType::Normal => self.apply_normal(tx, entry, has_waiter).map(Applied::Request),
            EntryType::ConfChange => self.apply_conf_change(tx, entry, conf_changes),
            EntryType::ConfChangeV2 => Err(Fault::UnknownKind(entry.index)),
        }
    }

    /// Checks that no entry is missing between the last one and this one.
    fn check_order(&self, index: Index) -> Result<(), Fault> {
        // Relaxed: the open transaction excludes all other callers.
        let last = self.last.load(Ordering::Relaxed);
        if last != 0 && index.0 > last + 1 {
            return Err(Fault::Gap { expected: Index(last + 1), found: index });
        }
        self.last.store(index.0, Ordering::Relaxed);
        Ok(())
    }

    fn apply_normal(
        &self,
        mut tx: Tx<'_>,
        entry: &Entry,
        has_waiter: &dyn Fn(u64) -> bool,
    ) -> Result<Outcome, Fault> {
        let request = decode::decode(entry)?;
        let (id, op) = (request.request_id(), Op::of(&request.command));
        let has_waiter = has_waiter(id);
        let (mut effects, mut result) = (Effects::default(), None);
        if has_waiter || !is_skipped_without_waiter(&request.command) {
            let context = Context { index: entry.index, has_waiter };
            result = Some(self.execute(&mut tx, &request, context, &mut effects)?);
        }
        let Effects { changes, version_lowered, executed } = effects;
        let revision = self.commit(tx, changes)?;
        Ok(Outcome { id, revision, result, version_lowered, op, executed })
    }
}

/// Formats the request in an entry for the log. Decodes it a second time, because slow and failed
/// requests are too rare to keep every request for them.
pub(crate) fn describe(entry: &Entry) -> String {
    decode::decode(entry).map_or(String::new(), |request| Loggable(&request).to_string())
}

/// The circumstances in which a command executes.
#[derive(Clone, Copy, Debug)]
struct Context {
    index: Index,
    has_waiter: bool,
}

/// The effects of a command outside of its transaction.
#[derive(Debug, Default)]
struct Effects {
    /// Changes of keys, to be published after the commit.
    changes: Option<Changes>,
    /// The cluster version was lowered.
    version_lowered: bool,
    /// Operations on keys, for the metrics.
    executed: Executed,
}

/// Returns whether a command has no effect but its reply. Compat: as in etcd, lists of users and
/// roles are executed nevertheless.
fn is_skipped_without_waiter(command: &Command) -> bool {
    matches!(
        command,
        Command::Range(_)
            | Command::AuthUserGet(_)
            | Command::AuthRoleGet(_)
            | Command::AuthStatus(_)
    )
}
