//! The state machine of a member takes what is committed.

use raft::{Entry, Snapshot, wire};

use crate::app::App;
use crate::invariants::{Check, Invariant, Violation, ensure};
use crate::trace::What;
use crate::world::World;

use super::Node;

impl Node {
    /// Applies entries that were handed out, in order, but for those that a snapshot has overtaken.
    pub(super) fn apply(&mut self, world: &mut World, entries: &[Entry]) -> Check {
        for entry in entries {
            if entry.kind.is_conf_change() && !self.is_overtaken(entry) {
                self.apply_change(world, entry)?;
            }
            if !self.is_overtaken(entry) {
                self.apply_one(world, entry)?;
            }
        }
        if let Some(last) = entries.last() {
            world.record(self.id, What::Applied { index: last.index.0 });
        }
        Ok(())
    }

    fn is_overtaken(&mut self, entry: &Entry) -> bool {
        let live = self.live();
        live.awaited.is_some() || entry.index <= live.floor
    }

    fn apply_one(&mut self, world: &mut World, entry: &Entry) -> Check {
        let id = self.id;
        let live = self.live();
        // After a restart the state machine may have more than the core knows.
        if entry.index <= live.app.applied.index {
            return Ok(());
        }
        ensure(
            entry.index == live.app.applied.index.next(),
            Invariant::StateMachineSafety,
            || format!("{id} is to apply {} after {}", entry.index, live.app.applied.index),
        )?;
        live.app.apply(entry);
        live.app.conf.clone_from(&live.conf);
        world.invariants.state_machines.applied(id, entry, &live.app, &world.disks[&id])
    }

    fn apply_change(&mut self, world: &mut World, entry: &Entry) -> Check {
        let (id, index) = (self.id, entry.index);
        let change =
            wire::decode_conf_change(entry.kind, &entry.data).map_err(|error| Violation {
                invariant: Invariant::ConfigurationSafety,
                detail: format!("{id} cannot read the change at {index}: {error}"),
            })?;
        let live = self.live();
        let before = live.conf.clone();
        let after = match live.raw.apply_conf_change(index, &change) {
            // The core takes over the configuration of a snapshot as soon as it is stepped, and leaves
            // older changes alone from then on.
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
            format!("{id} has {in_force:?} in force at {index}, and said {:?}", live.conf)
        })?;
        self.note_change(world, entry, &before, after.as_ref())?;
        self.observe(world)
    }

    fn note_change(
        &mut self,
        world: &mut World,
        entry: &Entry,
        before: &raft::ConfState,
        after: Option<&raft::ConfState>,
    ) -> Check {
        let (id, index) = (self.id, entry.index);
        // The first members have each other in force before they apply the entries that say so; those
        // who replay them go through smaller configurations.
        if index <= world.genesis {
            return Ok(());
        }
        world.record(id, What::Note(format!("at {index} switches to {after:?}")));
        if world.invariants.configurations.applied(id, index, before, after)? {
            let totals = &mut world.totals;
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

    /// Takes over a snapshot, which is durable.
    pub(super) fn restore(&mut self, world: &mut World, snapshot: &Snapshot) -> Check {
        let id = self.id;
        let live = self.live();
        // The state machine may have more after a restart, if it saved itself apart from the log.
        if snapshot.metadata.index > live.app.applied.index {
            live.app = App::from_snapshot(snapshot);
        }
        world.invariants.state_machines.restored(id, snapshot, &live.app)?;
        world.totals.snapshots_restored += 1;
        world.record(id, What::Restored { index: snapshot.metadata.index.0 });
        Ok(())
    }
}
