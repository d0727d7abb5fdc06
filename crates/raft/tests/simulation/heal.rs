//! Recovery after the faults: links are restored, all members run, and no conf change is proposed
//! any more. The cluster must elect one leader, commit new entries on every member, answer reads
//! and agree, within a bounded time.
//!
//! The simulation also acts as the operator and the other parts of a server: it leaves joint
//! configurations that wait for a request, shuts down removed members once all others know of the
//! removal, and reports the result of sent snapshots.
//!
//! A single situation needs more help, in etcd as well. A configuration is in force once it is
//! applied, so a member uses the old one until it *knows* that the change is committed:
//!
//! ```text
//! 1 leads (1 2), commits the change to (2), and crashes before it announces the commit
//! 1 knows (2): it may not campaign, and has entries after the change that 2 lacks, so it rejects 2
//! 2 knows (1 2): it needs the vote of 1
//! ```
//!
//! Only the knowledge of the commit index is missing. An operator can copy it from one disk to
//! another, and the simulation does so if there has been no leader for long. This must stay rare.

use bytes::Bytes;
use raft::tracker::ProgressState;
use raft::{ConfChangeV2, ConfState};
use types::{Index, MemberId};

use crate::app::HEALED_MARK;
use crate::cluster::Cluster;
use crate::context::Event;
use crate::disk::Disk;
use crate::invariants::{Check, Invariant, Violation, ensure};
use crate::node::Node;
use crate::scenario::{Conditions, TICK};
use crate::trace::TraceEvent;

/// Election timeouts that recovery may take, and additional ticks for work in progress.
const ELECTIONS_TO_HEAL: u64 = 40;
const TICKS_TO_HEAL: u64 = 200;
/// Election timeouts before the operator intervenes.
const ELECTIONS_TO_HELP: u64 = 10;

impl Cluster {
    /// Ends the faults and waits for recovery.
    pub(crate) fn heal(&mut self) -> Check {
        self.sim.healing = true;
        self.leaderless_since = self.sim.now;
        self.reads_before = self.sim.totals.reads_answered;
        self.sim.network.links.heal();
        self.sim.network.conditions = Conditions::healthy();
        self.sim.record(MemberId(0), TraceEvent::Did("faults ended"));
        for member in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.start(member)?;
        }
        self.sim.schedule(TICK, Event::Inspect);
        let patience = self.heal_ticks_max();
        let deadline = self.sim.now + patience * TICK;
        while !self.healed {
            ensure(self.sim.now < deadline, Invariant::Progress, || self.describe(patience))?;
            let event = self.sim.next_event().ok_or_else(|| Violation {
                invariant: Invariant::Progress,
                detail: "the event queue is empty".to_owned(),
            })?;
            self.handle(event)?;
        }
        self.agree()
    }

    /// Returns the ticks that recovery may take. The log may have to be sent one entry at a time.
    fn heal_ticks_max(&self) -> u64 {
        let last = |disk: &Disk| disk.durable().last_index().0;
        let longest = self.sim.disks.values().map(last).max().unwrap_or_default();
        ELECTIONS_TO_HEAL * self.sim.scenario.election_ticks() + TICKS_TO_HEAL + longest
    }

    /// Acts as the operator, once per tick.
    pub(crate) fn inspect(&mut self) -> Check {
        self.sim.schedule(TICK, Event::Inspect);
        let (index, conf) = self.sim.invariants.configurations.newest();
        let conf = conf.clone();
        self.start_members_and_stop_others(index, &conf)?;
        let round = self.sim.now / TICK;
        if round.is_multiple_of(self.sim.scenario.election_ticks())
            && let Some(leader) = self.leader()
        {
            self.operate_leader(leader, &conf)?;
        }
        self.maybe_repair_commit(&conf)?;
        self.healed = self.is_converged(&conf);
        Ok(())
    }

    /// Sets the commit index of members that have committed entries without knowing it, if there is
    /// no leader to tell them.
    fn maybe_repair_commit(&mut self, conf: &ConfState) -> Check {
        let patience = ELECTIONS_TO_HELP * self.sim.scenario.election_ticks() * TICK;
        if self.leader().is_some() {
            self.leaderless_since = self.sim.now;
        }
        if self.sim.now < self.leaderless_since + patience {
            return Ok(());
        }
        self.leaderless_since = self.sim.now;
        for node in self.nodes.values_mut().filter(|node| conf.contains(node.id)) {
            let Some(committed) = node.unknown_commit(&self.sim) else { continue };
            node.crash(&mut self.sim);
            node.operator_commit = committed;
            node.start(&mut self.sim)?;
            self.sim.totals.commit_indexes_set += 1;
        }
        Ok(())
    }

    /// Starts all members. Stops removed ones once all members know of the removal: before that, a
    /// member might still need their votes.
    fn start_members_and_stop_others(&mut self, index: Index, conf: &ConfState) -> Check {
        let knows =
            |node: &Node| node.live.as_ref().is_some_and(|live| live.app.applied.index >= index);
        let members = || self.nodes.values().filter(|node| conf.contains(node.id));
        let all_know = members().all(knows);
        for member in self.nodes.keys().copied().collect::<Vec<_>>() {
            if conf.contains(member) {
                self.start(member)?;
            } else if all_know {
                self.nodes.entry(member).and_modify(|node| node.crash(&mut self.sim));
            }
        }
        Ok(())
    }

    fn operate_leader(&mut self, leader: MemberId, conf: &ConfState) -> Check {
        self.proposed += 1;
        let payload = [HEALED_MARK, self.proposed.to_string().as_bytes()].concat();
        self.with_member(leader, |node, sim| {
            for member in awaiting_snapshot(node) {
                node.report_snapshot(sim, member, false)?;
            }
            node.set_busy(sim, false);
            // New members may be missing in the configuration of the last snapshot.
            node.make_snapshot(sim, false);
            if !conf.voters_outgoing.is_empty() && !conf.auto_leave {
                node.propose_change(sim, ConfChangeV2::default().into())?;
            }
            node.read(sim)?;
            node.propose(sim, vec![Bytes::from(payload)])
        })
    }

    /// Reports whether there is one leader, no conf change in progress, every member has applied
    /// everything including proposals made after the faults, and reads are answered.
    fn is_converged(&self, conf: &ConfState) -> bool {
        let committed = self.sim.invariants.commits.last_index();
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
        let reads = self.sim.totals.reads_answered > self.reads_before;
        let settled = leaders == 1 && conf.voters_outgoing.is_empty() && reads;
        settled && self.nodes.values().all(in_place)
    }

    /// Checks that all running members are in the same state.
    fn agree(&mut self) -> Check {
        let states = || self.nodes.values().filter_map(|node| node.live.as_ref());
        let first = states().next().map(|live| live.app.digest);
        let agreed = states().all(|live| Some(live.app.digest) == first);
        self.sim.totals.committed += self.sim.invariants.commits.last_index().0;
        self.sim.totals.elections += self.sim.invariants.elections.count();
        ensure(agreed, Invariant::StateMachineSafety, || "members differ after recovery".to_owned())
    }

    fn describe(&self, patience: u64) -> String {
        let (index, conf) = self.sim.invariants.configurations.newest();
        let committed = self.sim.invariants.commits.last_index();
        let mut text = format!(
            "not recovered {patience} ticks after the faults: {committed} committed, {conf:?} since {index}"
        );
        let reads = self.sim.totals.reads_answered - self.reads_before;
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
