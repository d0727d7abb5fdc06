//! The state machine of a member applies committed entries.

use raft::{Entry, Snapshot, wire};

use crate::app::App;
use crate::context::SimContext;
use crate::invariants::{Check, Invariant, Violation, ensure};
use crate::trace::TraceEvent;

use super::Node;

impl Node {
    /// Applies entries in order, except entries that a snapshot has overtaken.
    pub(super) fn apply(&mut self, sim: &mut SimContext, entries: &[Entry]) -> Check {
        for entry in entries {
            if entry.kind.is_conf_change() && !self.is_overtaken(entry) {
                self.apply_change(sim, entry)?;
            }
            if !self.is_overtaken(entry) {
                self.apply_one(sim, entry)?;
            }
        }
        if let Some(last) = entries.last() {
            sim.record(self.id, TraceEvent::Applied { index: last.index.0 });
        }
        Ok(())
    }

    fn is_overtaken(&mut self, entry: &Entry) -> bool {
        let live = self.live();
        live.awaited.is_some() || entry.index <= live.floor
    }

    fn apply_one(&mut self, sim: &mut SimContext, entry: &Entry) -> Check {
        let id = self.id;
        let live = self.live();
        // After a restart the state machine may be ahead of the core.
        if entry.index <= live.app.applied.index {
            return Ok(());
        }
        ensure(
            entry.index == live.app.applied.index.next(),
            Invariant::StateMachineSafety,
            || format!("{id} applies {} after {}", entry.index, live.app.applied.index),
        )?;
        live.app.apply(entry);
        live.app.conf.clone_from(&live.conf);
        sim.invariants.state_machines.applied(id, entry, &live.app, &sim.disks[&id])
    }

    fn apply_change(&mut self, sim: &mut SimContext, entry: &Entry) -> Check {
        let (id, index) = (self.id, entry.index);
        let change =
            wire::decode_conf_change(entry.kind, &entry.data).map_err(|error| Violation {
                invariant: Invariant::ConfigurationSafety,
                detail: format!("{id} cannot decode the conf change at {index}: {error}"),
            })?;
        let live = self.live();
        let before = live.conf.clone();
        let after = match live.raw.apply_conf_change(index, &change) {
            // The core adopts the configuration of a snapshot as soon as it is stepped, and skips
            // older changes from then on.
            Ok(None) => {
                live.awaited = Some(index);
                return Ok(());
            }
            Ok(after) => after,
            Err(_) => None,
        };
        if let Some(after) = &after {
            live.conf.clone_from(after);
        }
        let in_force = live.raw.status().config.to_conf_state();
        ensure(in_force == live.conf, Invariant::ConfigurationSafety, || {
            format!("{id} has {in_force:?} in force at {index}, but returned {:?}", live.conf)
        })?;
        self.record_change(sim, entry, &before, after.as_ref())?;
        self.observe(sim)
    }

    fn record_change(
        &mut self,
        sim: &mut SimContext,
        entry: &Entry,
        before: &raft::ConfState,
        after: Option<&raft::ConfState>,
    ) -> Check {
        let (id, index) = (self.id, entry.index);
        // The configuration of the initial members is in force before they apply the entries that
        // contain it; members that replay these entries pass through smaller configurations.
        if index <= sim.genesis {
            return Ok(());
        }
        sim.record(id, TraceEvent::Note(format!("at {index} switches to {after:?}")));
        if sim.invariants.configurations.applied(id, index, before, after)? {
            let totals = &mut sim.totals;
            match after {
                None => totals.refused_changes += 1,
                Some(after) => {
                    totals.membership += 1;
                    let joint = |conf: &raft::ConfState| !conf.voters_outgoing.is_empty();
                    totals.joint += u64::from(joint(after) && !joint(before));
                }
            }
        }
        Ok(())
    }

    /// Restores the state machine from a durable snapshot.
    pub(super) fn restore(&mut self, sim: &mut SimContext, snapshot: &Snapshot) -> Check {
        let id = self.id;
        let live = self.live();
        // After a restart the state machine may be ahead, if it was saved separately from the log.
        if snapshot.metadata.index > live.app.applied.index {
            live.app = App::from_snapshot(snapshot);
        }
        sim.invariants.state_machines.restored(id, snapshot, &live.app)?;
        sim.totals.snapshots_restored += 1;
        sim.record(id, TraceEvent::Restored { index: snapshot.metadata.index.0 });
        Ok(())
    }
}
