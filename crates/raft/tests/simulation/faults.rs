//! The workload and the faults.

use std::collections::BTreeSet;

use bytes::Bytes;
use simkit::RandomExt as _;
use types::MemberId;

use crate::cluster::Cluster;
use crate::context::{Event, SimContext};
use crate::invariants::Check;
use crate::node::Node;
use crate::profile::Action;
use crate::scenario::TICK;
use crate::trace::TraceEvent;

/// The member id under which events of the whole cluster are traced.
const CLUSTER: MemberId = MemberId(0);

impl Cluster {
    /// Performs one action and schedules the next.
    pub(crate) fn act(&mut self) -> Check {
        let sim = &mut self.sim;
        let action = sim.scenario.profile.draw_action(&mut sim.random);
        let pause = 1 + sim.random.below(2 * sim.scenario.pause);
        sim.schedule(pause, Event::Act);
        match action {
            Action::Propose => self.propose(1),
            Action::ProposeBatch => {
                let count = self.sim.random.between(2, 6);
                self.propose(count)
            }
            Action::Read => self.act_on_member(500, Node::read),
            Action::ChangeMembership => self.change_membership(),
            Action::Campaign => self.act_on_member(0, Node::campaign),
            Action::CampaignConcurrently => self.campaign_concurrently(),
            Action::ForgetLeader => self.act_on_member(0, Node::forget_leader),
            Action::Transfer => self.transfer(),
            Action::Snapshot => self.act_on_member(300, |node, sim| {
                let compact = sim.random.per_mille(700);
                node.make_snapshot(sim, compact);
                Ok(())
            }),
            Action::BusyStorage => self.act_on_member(500, |node, sim| {
                let busy = sim.random.flip();
                node.set_busy(sim, busy);
                Ok(())
            }),
            Action::Checkpoint => self.act_on_member(0, |node, _| {
                node.save_checkpoint();
                Ok(())
            }),
            Action::SlowDisk => self.act_on_member(300, |node, sim| {
                node.slow_until = sim.now + sim.random.below(15 * TICK);
                Ok(())
            }),
            Action::IsolateLeader => self.isolate_leader_except(0),
            Action::LeaderReachesOne => self.isolate_leader_except(1),
            Action::Crash
            | Action::CrashLeader
            | Action::PowerCut
            | Action::Partition
            | Action::CutOneWay
            | Action::HealNetwork
            | Action::RetireRemoved => {
                self.inject_fault(action);
                Ok(())
            }
        }
    }

    fn inject_fault(&mut self, action: Action) {
        match action {
            Action::Crash => {
                if let Some(member) = self.random_member() {
                    self.crash_and_restart(member);
                }
            }
            Action::CrashLeader => {
                if let Some(leader) = self.leader() {
                    self.crash_and_restart(leader);
                }
            }
            Action::PowerCut => {
                self.running().into_iter().for_each(|member| self.crash_and_restart(member));
            }
            Action::Partition => self.partition(),
            Action::CutOneWay => self.cut_one_way(),
            Action::RetireRemoved => self.retire_removed(),
            _ => self.heal_network(),
        }
    }

    /// Returns a running member.
    fn random_member(&mut self) -> Option<MemberId> {
        let running = self.running();
        self.sim.random.pick_any(&running)
    }

    /// Calls a running member: the leader with this probability in per mille, otherwise any.
    fn act_on_member(
        &mut self,
        leader: u64,
        act: impl FnOnce(&mut Node, &mut SimContext) -> Check,
    ) -> Check {
        let led = self.leader().filter(|_| self.sim.random.per_mille(leader));
        match led.or_else(|| self.random_member()) {
            Some(member) => self.with_member(member, act),
            None => Ok(()),
        }
    }

    fn propose(&mut self, count: u64) -> Check {
        let batch = (0..count).map(|_| self.draw_payload()).collect();
        self.act_on_member(700, |node, sim| node.propose(sim, batch))
    }

    /// Returns a unique payload.
    fn draw_payload(&mut self) -> Bytes {
        self.proposed += 1;
        let mut payload = format!("p{} ", self.proposed).into_bytes();
        let random = &mut self.sim.random;
        let padding = random.pick(&[0, 0, 10, 50, 200]);
        let padding = if random.per_mille(10) { 3_000 } else { padding };
        payload.resize(payload.len() + padding, b'.');
        payload.into()
    }

    fn transfer(&mut self) -> Check {
        let members: Vec<_> = self.nodes.keys().copied().collect();
        let to = self.sim.random.pick(&members);
        self.act_on_member(800, |node, sim| node.transfer(sim, to))
    }

    /// Several members campaign at the same time.
    fn campaign_concurrently(&mut self) -> Check {
        for _ in 0..self.sim.random.between(2, 3) {
            self.act_on_member(0, Node::campaign)?;
        }
        Ok(())
    }

    fn crash_and_restart(&mut self, member: MemberId) {
        let longest = self.sim.random.pick(&[30, 3 * TICK, 30 * TICK]);
        let downtime = self.sim.random.below(longest);
        self.crash(member, None, downtime);
    }

    /// Splits the members into two partitions.
    fn partition(&mut self) {
        let members: Vec<_> = self.nodes.keys().copied().collect();
        let here: BTreeSet<_> =
            members.iter().copied().filter(|_| self.sim.random.flip()).collect();
        self.record_cut("network partitioned");
        self.sim.network.links.partition(&members, |id| here.contains(&id));
    }

    /// Cuts the leader off from all but `reached` members, proposes to it, and perhaps crashes it
    /// soon: its last messages reach only a few members.
    fn isolate_leader_except(&mut self, reached: usize) -> Check {
        let Some(leader) = self.leader() else { return Ok(()) };
        let mut others: Vec<_> = self.nodes.keys().copied().filter(|&id| id != leader).collect();
        for _ in 0..reached.min(others.len()) {
            others.remove(self.sim.random.position(others.len()));
        }
        self.record_cut("leader isolated");
        others.push(leader);
        self.sim.network.links.partition(&others, |id| id == leader);
        let sim = &mut self.sim;
        if sim.random.flip() {
            let incarnation = self.nodes[&leader].incarnation;
            let (delay, downtime) = (sim.random.below(3 * TICK), sim.random.below(6 * TICK));
            sim.schedule(delay, Event::Crash { member: leader, incarnation, downtime });
        }
        let count = sim.random.between(1, 2);
        let batch = (0..count).map(|_| self.draw_payload()).collect();
        self.with_member(leader, |node, sim| node.propose(sim, batch))
    }

    fn cut_one_way(&mut self) {
        let members: Vec<_> = self.nodes.keys().copied().collect();
        let (from, to) = (self.sim.random.pick(&members), self.sim.random.pick(&members));
        self.record_cut("link cut in one direction");
        self.sim.network.links.cut(from, to);
    }

    fn record_cut(&mut self, what: &'static str) {
        self.sim.totals.partitions += 1;
        self.sim.record(CLUSTER, TraceEvent::Did(what));
    }

    fn heal_network(&mut self) {
        self.sim.record(CLUSTER, TraceEvent::Did("network healed"));
        self.sim.network.links.heal();
    }

    /// Shuts down removed members, after a while.
    fn retire_removed(&mut self) {
        let (_, conf) = self.sim.invariants.configurations.newest();
        let conf = conf.clone();
        for member in self.running() {
            if !conf.contains(member) && self.sim.random.flip() {
                self.sim.record(member, TraceEvent::Did("shut down"));
                self.nodes.entry(member).and_modify(|node| node.crash(&mut self.sim));
            }
        }
    }
}
