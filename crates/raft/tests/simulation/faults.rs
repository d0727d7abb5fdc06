//! What is done to the cluster while the faults last.

use bytes::Bytes;
use types::MemberId;

use crate::cluster::Cluster;
use crate::invariants::Check;
use crate::node::Node;
use crate::scenario::TICK;
use crate::temper::Action;
use crate::trace::What;
use crate::world::{Event, World};

/// Events of the whole cluster are recorded under this name.
const EVERYBODY: MemberId = MemberId(0);

impl Cluster {
    /// Does something, and comes back for more.
    pub(crate) fn act(&mut self) -> Check {
        let world = &mut self.world;
        let action = world.scenario.temper.draw_action(&mut world.random);
        let pause = 1 + world.random.below(2 * world.scenario.pause);
        world.schedule(pause, Event::Act);
        match action {
            Action::Propose => self.propose(1),
            Action::ProposeBatch => {
                let count = self.world.random.between(2, 6);
                self.propose(count)
            }
            Action::Read => self.somebody(500, Node::read),
            Action::ChangeMembership => self.change_membership(),
            Action::Campaign => self.somebody(0, Node::campaign),
            Action::Rivals => self.rivals(),
            Action::ForgetLeader => self.somebody(0, Node::forget_leader),
            Action::Transfer => self.transfer(),
            Action::Snapshot => self.somebody(300, |node, world| {
                let compact = world.random.chance(700);
                node.make_snapshot(world, compact);
                Ok(())
            }),
            Action::BusyStorage => self.somebody(500, |node, world| {
                let busy = world.random.flip();
                node.set_busy(world, busy);
                Ok(())
            }),
            Action::Checkpoint => self.somebody(0, |node, _| {
                node.save_checkpoint();
                Ok(())
            }),
            Action::SlowDisk => self.somebody(300, |node, world| {
                node.slow_until = world.now + world.random.below(15 * TICK);
                Ok(())
            }),
            Action::IsolateLeader => self.leave_leader_with(0),
            Action::LeaderReachesOne => self.leave_leader_with(1),
            Action::Crash
            | Action::CrashLeader
            | Action::PowerCut
            | Action::Partition
            | Action::CutOneWay
            | Action::HealNetwork
            | Action::RetireRemoved => {
                self.harm(action);
                Ok(())
            }
        }
    }

    fn harm(&mut self, action: Action) {
        match action {
            Action::Crash => {
                if let Some(member) = self.anybody() {
                    self.crash_for_a_while(member);
                }
            }
            Action::CrashLeader => {
                if let Some(leader) = self.leader() {
                    self.crash_for_a_while(leader);
                }
            }
            Action::PowerCut => {
                self.running().into_iter().for_each(|member| self.crash_for_a_while(member));
            }
            Action::Partition => self.partition(),
            Action::CutOneWay => self.cut_one_way(),
            Action::RetireRemoved => self.retire_removed(),
            _ => self.heal_network(),
        }
    }

    /// A running member.
    fn anybody(&mut self) -> Option<MemberId> {
        let running = self.running();
        self.world.random.pick_any(&running)
    }

    /// Calls a running member: the leader in so many of a thousand cases, otherwise any.
    fn somebody(&mut self, leader: u64, act: impl FnOnce(&mut Node, &mut World) -> Check) -> Check {
        let led = self.leader().filter(|_| self.world.random.chance(leader));
        match led.or_else(|| self.anybody()) {
            Some(member) => self.tell(member, act),
            None => Ok(()),
        }
    }

    fn propose(&mut self, count: u64) -> Check {
        let batch = (0..count).map(|_| self.draw_payload()).collect();
        self.somebody(700, |node, world| node.propose(world, batch))
    }

    /// A payload like no other.
    fn draw_payload(&mut self) -> Bytes {
        self.proposed += 1;
        let mut payload = format!("p{} ", self.proposed).into_bytes();
        let random = &mut self.world.random;
        let padding = random.pick(&[0, 0, 10, 50, 200]);
        let padding = if random.chance(10) { 3_000 } else { padding };
        payload.resize(payload.len() + padding, b'.');
        payload.into()
    }

    fn transfer(&mut self) -> Check {
        let members: Vec<_> = self.nodes.keys().copied().collect();
        let to = self.world.random.pick(&members);
        self.somebody(800, |node, world| node.transfer(world, to))
    }

    /// Several stand at the same moment.
    fn rivals(&mut self) -> Check {
        for _ in 0..self.world.random.between(2, 3) {
            self.somebody(0, Node::campaign)?;
        }
        Ok(())
    }

    fn crash_for_a_while(&mut self, member: MemberId) {
        let longest = self.world.random.pick(&[30, 3 * TICK, 30 * TICK]);
        let downtime = self.world.random.below(longest);
        self.crash(member, None, downtime);
    }

    /// Splits the members into two halves that do not hear of each other.
    fn partition(&mut self) {
        let members: Vec<_> = self.nodes.keys().copied().collect();
        let side: Vec<bool> = members.iter().map(|_| self.world.random.flip()).collect();
        self.note_cut("the network splits");
        for (&from, from_side) in members.iter().zip(&side) {
            for (&to, to_side) in members.iter().zip(&side) {
                if from_side != to_side {
                    self.world.network.cut(from, to);
                }
            }
        }
    }

    /// Cuts the leader off from all but so many, asks it for one more entry, and perhaps crashes it soon:
    /// what it says last reaches only a few.
    fn leave_leader_with(&mut self, reached: usize) -> Check {
        let Some(leader) = self.leader() else { return Ok(()) };
        let mut others: Vec<_> = self.nodes.keys().copied().filter(|&id| id != leader).collect();
        for _ in 0..reached.min(others.len()) {
            others.remove(self.world.random.position(others.len()));
        }
        self.note_cut("the leader is cut off");
        for other in others {
            self.world.network.cut(leader, other);
            self.world.network.cut(other, leader);
        }
        let world = &mut self.world;
        if world.random.flip() {
            let life = self.nodes[&leader].life;
            let (delay, downtime) = (world.random.below(3 * TICK), world.random.below(6 * TICK));
            world.schedule(delay, Event::Crash { member: leader, life, downtime });
        }
        let count = world.random.between(1, 2);
        let batch = (0..count).map(|_| self.draw_payload()).collect();
        self.tell(leader, |node, world| node.propose(world, batch))
    }

    fn cut_one_way(&mut self) {
        let members: Vec<_> = self.nodes.keys().copied().collect();
        let (from, to) = (self.world.random.pick(&members), self.world.random.pick(&members));
        self.note_cut("a link goes dead one way");
        self.world.network.cut(from, to);
    }

    fn note_cut(&mut self, what: &'static str) {
        self.world.totals.partitions += 1;
        self.world.record(EVERYBODY, What::Did(what));
    }

    fn heal_network(&mut self) {
        self.world.record(EVERYBODY, What::Did("the network heals"));
        self.world.network.heal();
    }

    /// Shuts down members that were removed, a while later.
    fn retire_removed(&mut self) {
        let (_, conf) = self.world.invariants.configurations.newest();
        let conf = conf.clone();
        for member in self.running() {
            if !conf.contains(member) && self.world.random.flip() {
                self.world.record(member, What::Did("is shut down"));
                self.nodes.entry(member).and_modify(|node| node.crash(&mut self.world));
            }
        }
    }
}
