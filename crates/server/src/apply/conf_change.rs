//! Applies conf changes.

use backend::Tx;
use backend::schema::meta;
use membership::Change;
use prost::Message as _;
use proto::raftpb::{ConfChange, ConfState};
use raft::Entry;
use types::{Index, MemberId};

use crate::apply::{Applied, Fault};
use crate::state::StateMachine;

/// Raft, as the receiver of applied conf changes.
pub trait ConfChanges {
    /// Hands an applied change to Raft. A change of member zero was refused and changes nothing.
    /// Returns the new configuration.
    fn apply(&mut self, index: Index, change: &ConfChange) -> ConfState;
}

impl StateMachine {
    pub(super) fn apply_conf_change(
        &self,
        mut tx: Tx<'_>,
        entry: &Entry,
        conf_changes: &mut dyn ConfChanges,
    ) -> Result<Applied, Fault> {
        let mut change = ConfChange::decode(entry.data.clone())
            .map_err(|source| Fault::Decode { index: entry.index, source })?;
        let id = change.id();
        let (result, removed) = match self.cluster.check(&tx, &change)? {
            Ok(checked) => {
                let conf = conf_changes.apply(entry.index, &change);
                meta::set_conf_state(&mut tx, &conf);
                let removed = removed_by(&checked);
                self.cluster.apply(&mut tx, checked)?;
                (Ok(()), removed)
            }
            Err(refused) => {
                tracing::error!(%refused, "refused a conf change");
                change.node_id = Some(0);
                conf_changes.apply(entry.index, &change);
                (Err(refused), None)
            }
        };
        self.commit(tx, None)?;
        Ok(Applied::ConfChange { id, result, removed })
    }
}

fn removed_by(change: &Change) -> Option<MemberId> {
    match change {
        Change::Remove(id) => Some(*id),
        Change::Add(_) | Change::Promote(_) | Change::Update(_) => None,
    }
}
