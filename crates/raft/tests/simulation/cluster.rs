//! A simulated cluster: its members, their shared context, and the event loop.

use std::collections::BTreeMap;

use raft::{ConfState, Entry, RawNode};
use simkit::RandomExt as _;
use types::{Index, MemberId};

use crate::context::{Event, SimContext};
use crate::disk::Record;
use crate::invariants::Check;
use crate::network::{is_snapshot, through_wire};
use crate::node::{Node, prepare_disk};
use crate::scenario::{Defect, Genesis, TICK};

/// A cluster with its simulation context.
pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<MemberId, Node>,
    pub(crate) sim: SimContext,
    /// Makes proposals unique.
    pub(crate) proposed: u64,
    /// Whether the cluster has recovered after the faults.
    pub(crate) healed: bool,
    /// The number of answered reads when the faults ended.
    pub(crate) reads_before: u64,
    /// The time when a leader was last seen after the faults, or the operator intervened.
    pub(crate) leaderless_since: u64,
}

impl Cluster {
    pub(crate) fn new(seed: u64, defect: Option<Defect>) -> Cluster {
        let sim = SimContext::new(simkit::scrambled(seed), defect);
        Cluster {
            nodes: BTreeMap::new(),
            sim,
            proposed: 0,
            healed: false,
            reads_before: 0,
            leaderless_since: 0,
        }
    }

    /// Runs through the faults, then heals. Fails at the first violation.
    pub(crate) fn run(&mut self) -> Check {
        self.start_cluster()?;
        self.sim.schedule(TICK, Event::Act);
        let end = self.sim.scenario.fault_ticks * TICK;
        while self.sim.now < end {
            let Some(event) = self.sim.next_event() else { break };
            self.handle(event)?;
        }
        self.heal()
    }

    pub(crate) fn handle(&mut self, event: Event) -> Check {
        match event {
            Event::Tick { member, incarnation } => {
                self.in_incarnation(member, incarnation, Node::tick)
            }
            Event::Turn { member, incarnation } => {
                self.in_incarnation(member, incarnation, Node::turn)
            }
            Event::Saved { member, incarnation } => {
                self.in_incarnation(member, incarnation, Node::saved)
            }
            Event::Appended { member, incarnation } => {
                self.in_incarnation(member, incarnation, Node::appended)
            }
            Event::Applied { member, incarnation } => {
                self.in_incarnation(member, incarnation, Node::applied)
            }
            Event::Deliver { sender, message } => self.deliver(sender, *message),
            Event::Unreachable { member, about } => {
                self.with_member(member, |node, sim| node.report_unreachable(sim, about))
            }
            Event::SnapshotSent { member, about, arrived } => {
                self.with_member(member, |node, sim| node.report_snapshot(sim, about, arrived))
            }
            Event::Start { member } => self.start(member),
            Event::Crash { .. } | Event::Act if self.sim.healing => Ok(()),
            Event::Crash { member, incarnation, downtime } => {
                self.crash(member, Some(incarnation), downtime);
                Ok(())
            }
            Event::Act => self.act(),
            Event::Inspect => self.inspect(),
        }
    }

    /// Calls a member if it is still in the incarnation that the event belongs to.
    fn in_incarnation(
        &mut self,
        member: MemberId,
        incarnation: u32,
        act: impl FnOnce(&mut Node, &mut SimContext) -> Check,
    ) -> Check {
        let same_incarnation =
            self.nodes.get(&member).is_some_and(|node| node.incarnation == incarnation);
        if same_incarnation { self.with_member(member, act) } else { Ok(()) }
    }

    /// Calls a member if it is running.
    pub(crate) fn with_member(
        &mut self,
        member: MemberId,
        act: impl FnOnce(&mut Node, &mut SimContext) -> Check,
    ) -> Check {
        match self.nodes.get_mut(&member) {
            Some(node) if node.live.is_some() => act(node, &mut self.sim),
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, sender: MemberId, message: raft::Message) -> Check {
        let sim = &mut self.sim;
        let node = self.nodes.get_mut(&message.to).filter(|node| node.live.is_some());
        let Some(node) = node.filter(|_| !sim.network.links.is_cut(sender, message.to)) else {
            sim.lose(sender, &message);
            return Ok(());
        };
        if is_snapshot(&message) {
            report_arrival(sim, sender, message.to);
        }
        let message = if sim.random.per_mille(sim.scenario.encoded) {
            sim.totals.encoded += 1;
            through_wire(&message)?
        } else {
            message
        };
        node.receive(sim, message)
    }

    /// Crashes a member if it is still in the given incarnation.
    pub(crate) fn crash(&mut self, member: MemberId, incarnation: Option<u32>, downtime: u64) {
        let Some(node) = self.nodes.get_mut(&member) else { return };
        if node.live.is_none()
            || incarnation.is_some_and(|incarnation| incarnation != node.incarnation)
        {
            return;
        }
        node.crash(&mut self.sim);
        self.sim.schedule(downtime, Event::Start { member });
    }

    pub(crate) fn start(&mut self, member: MemberId) -> Check {
        match self.nodes.get_mut(&member) {
            Some(node) if node.live.is_none() => node.start(&mut self.sim),
            _ => Ok(()),
        }
    }

    /// Adds a new member with an empty log.
    pub(crate) fn add_member(&mut self) -> MemberId {
        let id = MemberId(self.nodes.len() as u64 + 1);
        let genesis = self.genesis_on_disk();
        prepare_disk(&mut self.sim, id, genesis);
        self.nodes.insert(id, Node::new(id));
        id
    }

    /// Creates and starts the initial members.
    fn start_cluster(&mut self) -> Check {
        let (voters, learners) = (self.sim.scenario.voters, self.sim.scenario.learners);
        let ids = |from: u64, count: u64| (from..from + count).map(MemberId).collect::<Vec<_>>();
        let mut genesis = ConfState::of_voters(ids(1, voters));
        let bootstrap = self.sim.scenario.genesis == Genesis::Bootstrap;
        if !bootstrap {
            genesis.learners = ids(voters + 1, learners);
        }
        self.sim.invariants.configurations.begin_with(genesis.clone());
        let first = genesis.voters.len() + genesis.learners.len();
        for _ in 0..first {
            let member = self.add_member();
            if bootstrap {
                self.bootstrap(member, &genesis.voters);
            }
        }
        for member in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.start(member)?;
        }
        Ok(())
    }

    /// Returns the initial configuration on the disk of a new member.
    fn genesis_on_disk(&self) -> ConfState {
        match self.sim.scenario.genesis {
            // It learns everything from the log.
            Genesis::Bootstrap => ConfState::default(),
            Genesis::ConfState => self.sim.invariants.configurations.at(Index::ZERO).1.clone(),
        }
    }

    /// Writes the initial log of a new cluster.
    fn bootstrap(&mut self, member: MemberId, voters: &[MemberId]) {
        let peer = |&id: &MemberId| raft::Peer { id, context: Default::default() };
        let peers: Vec<_> = voters.iter().map(peer).collect();
        let storage = self.sim.disk(member).to_storage();
        let mut raw =
            RawNode::new(raft::Config::new(member), storage).expect("an empty storage is valid");
        raw.bootstrap(&peers).expect("peer ids are unique");
        let ready = raw.ready();
        self.begin_log(&ready.entries);
        let disk = self.sim.disk(member);
        disk.write(Record::Entries(ready.entries));
        disk.write(Record::State(ready.hard_state.expect("a first hard state")));
        disk.sync();
    }

    fn begin_log(&mut self, entries: &[Entry]) {
        self.sim.invariants.commits.begin_with(entries);
        self.sim.genesis = Index(entries.len() as u64);
    }

    /// Returns the leader, of the latest term if there are several.
    pub(crate) fn leader(&self) -> Option<MemberId> {
        let leaders = self.nodes.values().filter(|node| node.leads());
        leaders.max_by_key(|node| node.term()).map(|node| node.id)
    }

    pub(crate) fn running(&self) -> Vec<MemberId> {
        let running = self.nodes.values().filter(|node| node.live.is_some());
        running.map(|node| node.id).collect()
    }
}

/// The transport reports to the sender that a snapshot arrived. Sometimes the report is wrong, and
/// sometimes it is missing.
fn report_arrival(sim: &mut SimContext, sender: MemberId, to: MemberId) {
    let (reported, correct) = (sim.random.per_mille(800), sim.random.per_mille(800));
    if sim.healing || reported {
        let arrived = sim.healing || correct;
        let delay = 1 + sim.random.below(TICK);
        sim.schedule(delay, Event::SnapshotSent { member: sender, about: to, arrived });
    }
}
