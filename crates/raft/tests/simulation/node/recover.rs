//! A member starts from what its disk kept.
//!
//! The log begins with a snapshot. The state machine is one of three:
//!
//! - *replayed*: it starts from that snapshot and applies the log again;
//! - *kept*: it saved itself at a later index, and the core is told to go on from there;
//! - *ahead*: it saved itself at a later index and skips what it has, while the core hands out
//!   everything from the snapshot on, for the sake of the configuration.

use raft::{ConfState, HardState, MemoryStorage, RawNode, Storage};
use types::{Index, MemberId};

use crate::app::App;
use crate::disk::Disk;
use crate::invariants::{Check, Invariant, LogView, Violation};
use crate::scenario::TICK;
use crate::trace::What;
use crate::world::{Event, World};

use super::storage::BusyStorage;
use super::threads::Threads;
use super::{Driver, Live, Node};

/// What a member starts from.
struct Recovered {
    how: &'static str,
    storage: MemoryStorage,
    app: App,
    applied: Index,
    conf: ConfState,
}

impl Node {
    /// Begins a life.
    pub(crate) fn start(&mut self, world: &mut World) -> Check {
        assert!(self.live.is_none(), "a member that runs is not started");
        self.life += 1;
        world.totals.restarts += u64::from(self.life > 1);
        let recovered = self.recover(world);
        let asynchronous = world.random.chance(world.scenario.asynchronous);
        let view = self.recovered_view(world)?;
        let Recovered { how, storage, app, applied, conf } = recovered;
        let config = world.scenario.config(&mut world.random, self.id, applied, asynchronous);
        let last = storage.last_index();
        let storage = BusyStorage { memory: storage, busy: false };
        let raw = RawNode::new(config, storage).map_err(|error| Violation {
            invariant: Invariant::Recovery,
            detail: format!("{} cannot start: {error}", self.id),
        })?;
        let (seen, tick) = (raw.basic_status(), draw_tick(world));
        let driver = if asynchronous {
            world.totals.asynchronous += 1;
            Driver::Threads(Threads::new(seen.hard_state))
        } else {
            world.totals.classic += 1;
            Driver::Classic(None)
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
            shows_early: world.random.flip(),
            turn_scheduled: false,
            tick,
            driver,
        });
        let HardState { term, commit, .. } = seen.hard_state;
        let (last, applied) = (last.0, applied.0);
        world.record(self.id, What::Started { how, term: term.0, commit: commit.0, last, applied });
        self.check_recovered(world)?;
        let (member, life) = (self.id, self.life);
        let phase = world.random.below(tick);
        world.schedule(phase, Event::Tick { member, life });
        self.observe(world)
    }

    /// What survived must agree with what was committed.
    fn check_recovered(&mut self, world: &mut World) -> Check {
        let id = self.id;
        let live = self.live();
        let commit = live.seen.hard_state.commit;
        world.invariants.commits.follower_learns(id, commit)?;
        world.invariants.commits.compare(id, &live.view, Index(1), commit)?;
        live.compared = commit;
        Ok(())
    }

    fn recovered_view(&self, world: &mut World) -> Check<LogView> {
        let World { disks, invariants, .. } = world;
        let durable = disks[&self.id].durable();
        let mut view = LogView::starting_after(durable.before());
        invariants.logs.appends(self.id, &mut view, durable.entries(), Index::ZERO)?;
        Ok(view)
    }

    fn recover(&mut self, world: &mut World) -> Recovered {
        let disk = &world.disks[&self.id];
        let from_log = App::from_snapshot(&disk.durable().snapshot);
        let base = from_log.applied.index;
        let checkpoint = self.checkpoint.clone().filter(|app| app.applied.index > base);
        let recovered = match checkpoint {
            Some(app) if world.random.chance(400) => kept(disk, app),
            Some(app) if world.random.flip() => ahead(disk, app),
            _ => replayed(disk, from_log),
        };
        with_commit(recovered, disk.durable().state, self.told_commit)
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
        .expect("what was applied is in the log");
    Recovered { how: "kept", storage, conf: app.conf.clone(), app, applied }
}

fn ahead(disk: &Disk, app: App) -> Recovered {
    let metadata = &disk.durable().snapshot.metadata;
    let (conf, applied) = (metadata.conf_state.clone(), metadata.index);
    Recovered { how: "ahead", storage: disk.to_storage(), app, applied, conf }
}

/// The commit index saved may lag behind what snapshot and state machine prove to be committed; that is for the core to
/// see. A cluster that cannot recover by itself was told.
fn with_commit(mut recovered: Recovered, saved: HardState, told: Index) -> Recovered {
    let commit = saved.commit.max(told);
    recovered.storage.set_hard_state(HardState { commit, ..saved });
    recovered
}

fn draw_tick(world: &mut World) -> u64 {
    let skew = world.scenario.skew;
    TICK - skew + world.random.below(2 * skew + 1)
}

/// Prepares the disk of a new member.
pub(crate) fn prepare_disk(world: &mut World, member: MemberId, genesis: ConfState) {
    let mut snapshot = raft::Snapshot::default();
    snapshot.metadata.conf_state = genesis;
    world.disks.insert(member, Disk::with_genesis(snapshot));
}
