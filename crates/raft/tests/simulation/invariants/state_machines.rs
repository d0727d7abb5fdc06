//! All members apply the same entries in the same order, and applied entries survive a crash.

use raft::{Entry, Snapshot};
use simkit::Digest;
use types::{Index, MemberId};

use crate::app::App;
use crate::disk::Disk;

use super::{Check, Invariant, ensure};

/// The state after each index, as first observed.
#[derive(Default)]
pub(crate) struct StateMachines {
    /// The state after index `i` is at `i - 1`.
    states: Vec<Digest>,
}

impl StateMachines {
    /// Checks an applied entry.
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

    /// Checks a restored snapshot.
    pub(crate) fn restored(&mut self, member: MemberId, snapshot: &Snapshot, app: &App) -> Check {
        ensure(
            self.last_index() >= snapshot.metadata.index,
            Invariant::StateMachineSafety,
            || {
                format!(
                    "{member} restores {}, which no member has applied",
                    snapshot.metadata.index
                )
            },
        )?;
        self.is_in_state(member, app)
    }

    /// Returns the highest index that any member has applied.
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
            format!("{member} differs at {index} from the first member that applied it")
        })
    }
}
