//! The start of a member from its disk.
//!
//! The log begins with a snapshot. The state machine is recovered in one of three ways:
//!
//! - *replayed*: it starts from that snapshot and applies the log again;
//! - *kept*: it was saved at a later index, and the core continues from there;
//! - *ahead*: it was saved at a later index and skips entries it has, while the core hands out
//!   everything from the snapshot on, because of the configuration.

use raft::{ConfState, HardState, MemoryStorage, RawNode, Storage};
use simkit::RandomExt as _;
use types::{Index, MemberId};

use crate::app::App;
use crate::context::{Event, SimContext};
use crate::disk::Disk;
use crate::invariants::{Check, Invariant, LogView, Violation};
use crate::scenario::TICK;
use crate::trace::TraceEvent;

use super::async_storage::Threads;
use super::storage::BusyStorage;
use super::{Driver, Live, Node};

/// The recovered state of a member.
struct Recovered {
    how: &'static str,
    storage: MemoryStorage,
    app: App,
    applied: Index,
    conf: ConfState,
}

impl Node {
    /// Starts an incarnation.
    pub(crate) fn start(&mut self, sim: &mut SimContext) -> Check {
        assert!(self.live.is_none(), "the member is already running");
        self.incarnation += 1;
        sim.totals.restarts += u64::from(self.incarnation > 1);
        let recovered = self.recover(sim);
        let asynchronous = sim.random.per_mille(sim.scenario.asynchronous);
        let view = self.recovered_view(sim)?;
        let Recovered { how, storage, app, applied, conf } = recovered;
        let config = sim.scenario.config(&mut sim.random, self.id, applied, asynchronous);
        let last = storage.last_index();
        let storage = BusyStorage { memory: storage, busy: false };
        let raw = RawNode::new(config, storage).map_err(|error| Violation {
            invariant: Invariant::Recovery,
            detail: format!("{} cannot start: {error}", self.id),
        })?;
        let (seen, tick) = (raw.basic_status(), draw_tick(sim));
        let driver = if asynchronous {
            sim.totals.asynchronous += 1;
            Driver::Async(Threads::new(seen.hard_state))
        } else {
            sim.totals.synchronous += 1;
            Driver::Sync(None)
        };
        self.live = Some(Live {
            raw,
            app,
            conf,
            compared: Index::ZERO,
            seen,
            view,
            elected: None,
            floor: Index::ZERO,
            awaited: None,
            exposes_unsynced: sim.random.flip(),
            turn_scheduled: false,
            tick,
            driver,
        });
        let HardState { term, commit, .. } = seen.hard_state;
        let (last, applied) = (last.0, applied.0);
        sim.record(
            self.id,
            TraceEvent::Started { how, term: term.0, commit: commit.0, last, applied },
        );
        self.check_recovered(sim)?;
        let (member, incarnation) = (self.id, self.incarnation);
        let phase = sim.random.below(tick);
        sim.schedule(phase, Event::Tick { member, incarnation });
        self.observe(sim)
    }

    /// Checks that the recovered state agrees with the committed entries.
    fn check_recovered(&mut self, sim: &mut SimContext) -> Check {
        let id = self.id;
        let live = self.live();
        let commit = live.seen.hard_state.commit;
        sim.invariants.commits.follower_learns(id, commit)?;
        sim.invariants.commits.compare(id, &live.view, Index(1), commit)?;
        live.compared = commit;
        Ok(())
    }

    fn recovered_view(&self, sim: &mut SimContext) -> Check<LogView> {
        let SimContext { disks, invariants, .. } = sim;
        let durable = disks[&self.id].durable();
        let mut view = LogView::starting_after(durable.before());
        invariants.logs.appends(self.id, &mut view, durable.entries(), Index::ZERO)?;
        Ok(view)
    }

    fn recover(&mut self, sim: &mut SimContext) -> Recovered {
        let disk = &sim.disks[&self.id];
        let from_log = App::from_snapshot(&disk.durable().snapshot);
        let base = from_log.applied.index;
        let checkpoint = self.checkpoint.clone().filter(|app| app.applied.index > base);
        let recovered = match checkpoint {
            Some(app) if sim.random.per_mille(400) => kept(disk, app),
            Some(app) if sim.random.flip() => ahead(disk, app),
            _ => replayed(disk, from_log),
        };
        with_commit(recovered, disk.durable().state, self.operator_commit)
    }
}

fn replayed(disk: &Disk, app: App) -> Recovered {
    let (conf, applied) = (app.conf.clone(), app.applied.index);
    Recovered { how: "replayed", storage: disk.to_storage(), app, applied, conf }
}

fn kept(disk: &Disk, app: App) -> Recovered {
    let mut storage = disk.to_storage();
    let (snapshot, applied) = (app.to_snapshot(), app.applied.index);
    storage
        .create_snapshot(applied, Some(app.conf.clone()), snapshot.data)
        .expect("applied entries are in the log");
    Recovered { how: "kept", storage, conf: app.conf.clone(), app, applied }
}

fn ahead(disk: &Disk, app: App) -> Recovered {
    let metadata = &disk.durable().snapshot.metadata;
    let (conf, applied) = (metadata.conf_state.clone(), metadata.index);
    Recovered { how: "ahead", storage: disk.to_storage(), app, applied, conf }
}

/// Sets the commit index. The saved one may lag behind what the snapshot and the state machine
/// prove; the core must detect that. The operator may have set a higher one.
fn with_commit(mut recovered: Recovered, saved: HardState, operator: Index) -> Recovered {
    let commit = saved.commit.max(operator);
    recovered.storage.set_hard_state(HardState { commit, ..saved });
    recovered
}

fn draw_tick(sim: &mut SimContext) -> u64 {
    let skew = sim.scenario.skew;
    TICK - skew + sim.random.below(2 * skew + 1)
}

/// Prepares the disk of a new member.
pub(crate) fn prepare_disk(sim: &mut SimContext, member: MemberId, genesis: ConfState) {
    let mut snapshot = raft::Snapshot::default();
    snapshot.metadata.conf_state = genesis;
    sim.disks.insert(member, Disk::with_genesis(snapshot));
}
