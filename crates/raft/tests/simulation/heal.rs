//! The faults end: links are mended, everybody runs, nobody changes the membership any more. From here on
//! the cluster must find one leader, commit new entries on every member, answer reads and agree, within a
//! bounded time.
//!
//! What a server's operator or its other parts would do is done here too: joint configurations that are
//! waiting for it are left, members that were removed are shut down once all others know, and the transport
//! tells how its snapshots fared.
//!
//! One situation needs more help, and would need it in etcd as well. A configuration is in force once it is
//! applied, so a member goes by the old one until it *knows* that the change is committed:
//!
//! ```text
//! 1 leads (1 2), commits the change that leaves (2) alone, and crashes before it could tell
//! 1 knows (2): it may not stand, and has entries behind the change that 2 lacks: it does not vote for 2
//! 2 knows (1 2): it needs the vote of 1
//! ```
//!
//! All that is missing is the knowledge of what is committed. An operator can carry it over from the disk of
//! one member to that of another, and that is what is done here if there has been no leader for long. It
//! must stay rare.

use bytes::Bytes;
use raft::tracker::ProgressState;
use raft::{ConfChangeV2, ConfState};
use types::{Index, MemberId};

use crate::app::HEALED_MARK;
use crate::cluster::Cluster;
use crate::disk::Disk;
use crate::invariants::{Check, Invariant, Violation, ensure};
use crate::node::Node;
use crate::scenario::{TICK, Weather};
use crate::trace::What;
use crate::world::Event;

/// Election timeouts that healing may take, and ticks on top for what was still under way.
const ELECTIONS_TO_HEAL: u64 = 40;
const TICKS_TO_HEAL: u64 = 200;
/// Election timeouts before somebody comes to help.
const ELECTIONS_TO_HELP: u64 = 10;

impl Cluster {
    /// Ends the faults and waits until all is well.
    pub(crate) fn heal(&mut self) -> Check {
        self.world.healing = true;
        self.leaderless_since = self.world.now;
        self.reads_before = self.world.totals.reads_answered;
        self.world.network.heal();
        self.world.network.weather = Weather::fair();
        self.world.record(MemberId(0), What::Did("the faults end"));
        for member in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.start(member)?;
        }
        self.world.schedule(TICK, Event::Inspect);
        let patience = self.patience();
        let deadline = self.world.now + patience * TICK;
        while !self.healed {
            ensure(self.world.now < deadline, Invariant::Progress, || self.describe(patience))?;
            let event = self.world.next_event().ok_or_else(|| Violation {
                invariant: Invariant::Progress,
                detail: "nothing happens any more".to_owned(),
            })?;
            self.handle(event)?;
        }
        self.agree()
    }

    /// The ticks that healing may take. The log may have to be sent one entry at a time.
    fn patience(&self) -> u64 {
        let last = |disk: &Disk| disk.durable().last_index().0;
        let longest = self.world.disks.values().map(last).max().unwrap_or_default();
        ELECTIONS_TO_HEAL * self.world.scenario.election_ticks() + TICKS_TO_HEAL + longest
    }

    /// Looks after the cluster once a tick, as those who run it would.
    pub(crate) fn inspect(&mut self) -> Check {
        self.world.schedule(TICK, Event::Inspect);
        let (index, conf) = self.world.invariants.configurations.newest();
        let conf = conf.clone();
        self.start_members_and_stop_others(index, &conf)?;
        let round = self.world.now / TICK;
        if round.is_multiple_of(self.world.scenario.election_ticks())
            && let Some(leader) = self.leader()
        {
            self.look_after_leader(leader, &conf)?;
        }
        self.maybe_help(&conf)?;
        self.healed = self.is_well(&conf);
        Ok(())
    }

    /// Tells members what is committed, if they have it and do not know, and nobody leads who could.
    fn maybe_help(&mut self, conf: &ConfState) -> Check {
        let patience = ELECTIONS_TO_HELP * self.world.scenario.election_ticks() * TICK;
        if self.leader().is_some() {
            self.leaderless_since = self.world.now;
        }
        if self.world.now < self.leaderless_since + patience {
            return Ok(());
        }
        self.leaderless_since = self.world.now;
        for node in self.nodes.values_mut().filter(|node| conf.contains(node.id)) {
            let Some(committed) = node.unknown_commit(&self.world) else { continue };
            node.crash(&mut self.world);
            node.told_commit = committed;
            node.start(&mut self.world)?;
            self.world.totals.helped += 1;
        }
        Ok(())
    }

    /// Removed members are needed until everybody else knows that they are removed: those who do not
    /// might still ask for their votes.
    fn start_members_and_stop_others(&mut self, index: Index, conf: &ConfState) -> Check {
        let knows =
            |node: &Node| node.live.as_ref().is_some_and(|live| live.app.applied.index >= index);
        let members = || self.nodes.values().filter(|node| conf.contains(node.id));
        let all_know = members().all(knows);
        for member in self.nodes.keys().copied().collect::<Vec<_>>() {
            if conf.contains(member) {
                self.start(member)?;
            } else if all_know {
                self.nodes.entry(member).and_modify(|node| node.crash(&mut self.world));
            }
        }
        Ok(())
    }

    fn look_after_leader(&mut self, leader: MemberId, conf: &ConfState) -> Check {
        self.proposed += 1;
        let payload = [HEALED_MARK, self.proposed.to_string().as_bytes()].concat();
        self.tell(leader, |node, world| {
            for member in awaiting_snapshot(node) {
                node.report_snapshot(world, member, false)?;
            }
            node.set_busy(world, false);
            // Newcomers may not be part of the configuration that the last snapshot carries.
            node.make_snapshot(world, false);
            if !conf.voters_outgoing.is_empty() && !conf.auto_leave {
                node.propose_change(world, ConfChangeV2::default().into())?;
            }
            node.read(world)?;
            node.propose(world, vec![Bytes::from(payload)])
        })
    }

    /// One leader, no change under way, and every member has applied everything, also what was
    /// proposed after the faults; and reads are answered.
    fn is_well(&self, conf: &ConfState) -> bool {
        let committed = self.world.invariants.commits.last_index();
        let up_to_date = |node: &Node| {
            node.live.as_ref().is_some_and(|live| {
                live.app.applied.index == committed && live.app.healed > 0 && live.conf == *conf
            })
        };
        let leaders = self.nodes.values().filter(|node| node.leads()).count();
        let in_place = |node: &Node| match conf.contains(node.id) {
            true => up_to_date(node),
            false => node.live.is_none(),
        };
        let reads = self.world.totals.reads_answered > self.reads_before;
        let settled = leaders == 1 && conf.voters_outgoing.is_empty() && reads;
        settled && self.nodes.values().all(in_place)
    }

    /// Everybody who runs is in the same state.
    fn agree(&mut self) -> Check {
        let states = || self.nodes.values().filter_map(|node| node.live.as_ref());
        let first = states().next().map(|live| live.app.digest);
        let agreed = states().all(|live| Some(live.app.digest) == first);
        self.world.totals.committed += self.world.invariants.commits.last_index().0;
        self.world.totals.elections += self.world.invariants.elections.count();
        ensure(agreed, Invariant::StateMachineSafety, || "members differ in the end".to_owned())
    }

    fn describe(&self, patience: u64) -> String {
        let (index, conf) = self.world.invariants.configurations.newest();
        let committed = self.world.invariants.commits.last_index();
        let mut text = format!(
            "not well after {patience} ticks without faults: {committed} committed, {conf:?} since {index}"
        );
        let reads = self.world.totals.reads_answered - self.reads_before;
        text += &format!(", {reads} reads answered");
        for node in self.nodes.values() {
            let Some(live) = &node.live else { continue };
            let (applied, healed) = (live.app.applied.index, live.app.healed);
            text += &format!("\n    applied {applied}, {healed} healed: {}", live.raw.status());
        }
        text
    }
}

fn awaiting_snapshot(node: &Node) -> Vec<MemberId> {
    let progress = node.live.as_ref().map(|live| live.raw.status().progress).unwrap_or_default();
    let waits = |state| matches!(state, ProgressState::Snapshot { .. });
    progress.iter().filter(|(_, one)| waits(one.state)).map(|(id, _)| id).collect()
}
