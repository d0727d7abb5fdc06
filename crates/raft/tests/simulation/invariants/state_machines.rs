//! Every member applies the same entries in the same order, and what it applied survives its crash.

use raft::{Entry, Snapshot};
use types::{Index, MemberId};

use crate::app::App;
use crate::disk::Disk;
use crate::random::Digest;

use super::{Check, Invariant, ensure};

/// The state after each index, as the first member to get there had it.
#[derive(Default)]
pub(crate) struct StateMachines {
    /// The state after index `i` is at `i - 1`.
    states: Vec<Digest>,
}

impl StateMachines {
    /// A member has applied an entry.
    pub(crate) fn applied(
        &mut self,
        member: MemberId,
        entry: &Entry,
        app: &App,
        disk: &Disk,
    ) -> Check {
        ensure(disk.durable().holds(entry.id()), Invariant::AppliedIsDurable, || {
            format!("{member} applies {} before it is on its own disk", entry.index)
        })?;
        self.is_in_state(member, app)
    }

    /// A member has taken over a snapshot.
    pub(crate) fn restored(&mut self, member: MemberId, snapshot: &Snapshot, app: &App) -> Check {
        ensure(
            self.last_index() >= snapshot.metadata.index,
            Invariant::StateMachineSafety,
            || format!("{member} restores {}, which nobody has applied", snapshot.metadata.index),
        )?;
        self.is_in_state(member, app)
    }

    /// The last index that anybody has applied.
    pub(crate) fn last_index(&self) -> Index {
        Index(self.states.len() as u64)
    }

    fn is_in_state(&mut self, member: MemberId, app: &App) -> Check {
        let index = app.applied.index;
        let Some(position) = index.0.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else {
            return Ok(());
        };
        if position == self.states.len() {
            self.states.push(app.digest);
        }
        let first = self.states.get(position).copied();
        ensure(first == Some(app.digest), Invariant::StateMachineSafety, || {
            format!("{member} has another state at {index} than whoever got there first")
        })
    }
}
