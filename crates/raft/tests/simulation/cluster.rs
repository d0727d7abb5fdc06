//! A cluster in one thread: members, what they share, and one event after the other.

use std::collections::BTreeMap;

use raft::{ConfState, Entry, RawNode};
use types::{Index, MemberId};

use crate::disk::Record;
use crate::invariants::Check;
use crate::network::{is_snapshot, through_wire};
use crate::node::{Node, prepare_disk};
use crate::random::Random;
use crate::scenario::{Flaw, Genesis, TICK};
use crate::world::{Event, World};

/// A cluster and its world.
pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<MemberId, Node>,
    pub(crate) world: World,
    /// Distinguishes proposals.
    pub(crate) proposed: u64,
    /// Whether all is well again after the faults.
    pub(crate) healed: bool,
    /// Reads that had been answered when the faults ended.
    pub(crate) reads_before: u64,
    /// When a leader was last seen after the faults, or somebody helped.
    pub(crate) leaderless_since: u64,
}

impl Cluster {
    pub(crate) fn new(seed: u64, flaw: Option<Flaw>) -> Cluster {
        let world = World::new(Random::new(seed), flaw);
        Cluster {
            nodes: BTreeMap::new(),
            world,
            proposed: 0,
            healed: false,
            reads_before: 0,
            leaderless_since: 0,
        }
    }

    /// Lives through the faults, then heals. Fails at the first violation.
    pub(crate) fn run(&mut self) -> Check {
        self.begin()?;
        self.world.schedule(TICK, Event::Act);
        let end = self.world.scenario.fault_ticks * TICK;
        while self.world.now < end {
            let Some(event) = self.world.next_event() else { break };
            self.handle(event)?;
        }
        self.heal()
    }

    pub(crate) fn handle(&mut self, event: Event) -> Check {
        match event {
            Event::Tick { member, life } => self.in_life(member, life, Node::tick),
            Event::Turn { member, life } => self.in_life(member, life, Node::turn),
            Event::Saved { member, life } => self.in_life(member, life, Node::saved),
            Event::Appended { member, life } => self.in_life(member, life, Node::appended),
            Event::Applied { member, life } => self.in_life(member, life, Node::applied),
            Event::Deliver { sender, message } => self.deliver(sender, *message),
            Event::Unreachable { member, about } => {
                self.tell(member, |node, world| node.report_unreachable(world, about))
            }
            Event::SnapshotSent { member, about, arrived } => {
                self.tell(member, |node, world| node.report_snapshot(world, about, arrived))
            }
            Event::Start { member } => self.start(member),
            Event::Crash { .. } | Event::Act if self.world.healing => Ok(()),
            Event::Crash { member, life, downtime } => {
                self.crash(member, Some(life), downtime);
                Ok(())
            }
            Event::Act => self.act(),
            Event::Inspect => self.inspect(),
        }
    }

    /// Calls a member if it is still in the life that an event belongs to.
    fn in_life(
        &mut self,
        member: MemberId,
        life: u32,
        act: impl FnOnce(&mut Node, &mut World) -> Check,
    ) -> Check {
        let same_life = self.nodes.get(&member).is_some_and(|node| node.life == life);
        if same_life { self.tell(member, act) } else { Ok(()) }
    }

    /// Calls a member if it runs.
    pub(crate) fn tell(
        &mut self,
        member: MemberId,
        act: impl FnOnce(&mut Node, &mut World) -> Check,
    ) -> Check {
        match self.nodes.get_mut(&member) {
            Some(node) if node.live.is_some() => act(node, &mut self.world),
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, sender: MemberId, message: raft::Message) -> Check {
        let world = &mut self.world;
        let node = self.nodes.get_mut(&message.to).filter(|node| node.live.is_some());
        let Some(node) = node.filter(|_| !world.network.is_cut(sender, message.to)) else {
            world.lose(sender, &message);
            return Ok(());
        };
        if is_snapshot(&message) {
            report_arrival(world, sender, message.to);
        }
        let message = if world.random.chance(world.scenario.encoded) {
            world.totals.encoded += 1;
            through_wire(&message)?
        } else {
            message
        };
        node.receive(world, message)
    }

    /// Ends the life of a member, if it is still in it.
    pub(crate) fn crash(&mut self, member: MemberId, life: Option<u32>, downtime: u64) {
        let Some(node) = self.nodes.get_mut(&member) else { return };
        if node.live.is_none() || life.is_some_and(|life| life != node.life) {
            return;
        }
        node.crash(&mut self.world);
        self.world.schedule(downtime, Event::Start { member });
    }

    pub(crate) fn start(&mut self, member: MemberId) -> Check {
        match self.nodes.get_mut(&member) {
            Some(node) if node.live.is_none() => node.start(&mut self.world),
            _ => Ok(()),
        }
    }

    /// Makes room for a member that is new, with nothing in its log.
    pub(crate) fn admit(&mut self) -> MemberId {
        let id = MemberId(self.nodes.len() as u64 + 1);
        let genesis = self.genesis_on_disk();
        prepare_disk(&mut self.world, id, genesis);
        self.nodes.insert(id, Node::new(id));
        id
    }

    /// The first members.
    fn begin(&mut self) -> Check {
        let (voters, learners) = (self.world.scenario.voters, self.world.scenario.learners);
        let ids = |from: u64, count: u64| (from..from + count).map(MemberId).collect::<Vec<_>>();
        let mut genesis = ConfState::of_voters(ids(1, voters));
        let bootstrap = self.world.scenario.genesis == Genesis::Bootstrap;
        if !bootstrap {
            genesis.learners = ids(voters + 1, learners);
        }
        self.world.invariants.configurations.begin_with(genesis.clone());
        let first = genesis.voters.len() + genesis.learners.len();
        for _ in 0..first {
            let member = self.admit();
            if bootstrap {
                self.bootstrap(member, &genesis.voters);
            }
        }
        for member in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.start(member)?;
        }
        Ok(())
    }

    /// What a new member's disk says of the configuration.
    fn genesis_on_disk(&self) -> ConfState {
        match self.world.scenario.genesis {
            // It learns all from the log.
            Genesis::Bootstrap => ConfState::default(),
            Genesis::ConfState => self.world.invariants.configurations.at(Index::ZERO).1.clone(),
        }
    }

    /// Writes the log that a new cluster starts with.
    fn bootstrap(&mut self, member: MemberId, voters: &[MemberId]) {
        let peer = |&id: &MemberId| raft::Peer { id, context: Default::default() };
        let peers: Vec<_> = voters.iter().map(peer).collect();
        let storage = self.world.disk(member).to_storage();
        let mut raw = RawNode::new(raft::Config::new(member), storage).expect("an empty storage");
        raw.bootstrap(&peers).expect("members with ids of their own");
        let ready = raw.ready();
        self.begin_log(&ready.entries);
        let disk = self.world.disk(member);
        disk.write(Record::Entries(ready.entries));
        disk.write(Record::State(ready.hard_state.expect("a first hard state")));
        disk.sync();
    }

    fn begin_log(&mut self, entries: &[Entry]) {
        self.world.invariants.commits.begin_with(entries);
        self.world.genesis = Index(entries.len() as u64);
    }

    /// A member that leads, in the newest term if there are several.
    pub(crate) fn leader(&self) -> Option<MemberId> {
        let leaders = self.nodes.values().filter(|node| node.leads());
        leaders.max_by_key(|node| node.term()).map(|node| node.id)
    }

    pub(crate) fn running(&self) -> Vec<MemberId> {
        let running = self.nodes.values().filter(|node| node.live.is_some());
        running.map(|node| node.id).collect()
    }
}

/// The transport tells the sender of a snapshot that it arrived. Sometimes it is wrong about that, and
/// sometimes it never says.
fn report_arrival(world: &mut World, sender: MemberId, to: MemberId) {
    let (says, right) = (world.random.chance(800), world.random.chance(800));
    if world.healing || says {
        let arrived = world.healing || right;
        let delay = 1 + world.random.below(TICK);
        world.schedule(delay, Event::SnapshotSent { member: sender, about: to, arrived });
    }
}
