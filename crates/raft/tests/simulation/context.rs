//! The state that all members share: time, randomness, the network, the disks and the invariants.

use std::collections::BTreeMap;

use env::SeededRandom;
use raft::Message;
use simkit::{EventQueue, RandomExt as _};
use types::{Index, MemberId};

use crate::disk::Disk;
use crate::invariants::Invariants;
use crate::network::{Network, is_snapshot};
use crate::scenario::{Defect, Scenario};
use crate::totals::Totals;
use crate::trace::{Summary, Trace, TraceEvent};

/// An event of the simulation. Events of a member name its incarnation and are void after a crash.
#[derive(Debug)]
pub(crate) enum Event {
    /// The clock of a member ticks.
    Tick { member: MemberId, incarnation: u32 },
    /// A member handles its pending work.
    Turn { member: MemberId, incarnation: u32 },
    /// A message arrives. The sender is stored separately, because some messages name another one.
    Deliver { sender: MemberId, message: Box<Message> },
    /// Synchronous storage: the content of the last `Ready` is written, and synced if required.
    Saved { member: MemberId, incarnation: u32 },
    /// The append thread has written its batch, and synced it if required.
    Appended { member: MemberId, incarnation: u32 },
    /// Entries are applied: those of the last `Ready`, or those of the apply thread.
    Applied { member: MemberId, incarnation: u32 },
    /// The transport reports an unreachable member.
    Unreachable { member: MemberId, about: MemberId },
    /// The transport reports the result of sending a snapshot.
    SnapshotSent { member: MemberId, about: MemberId, arrived: bool },
    /// A member crashes and stays down for a while.
    Crash { member: MemberId, incarnation: u32, downtime: u64 },
    /// A member starts.
    Start { member: MemberId },
    /// The next action on the cluster.
    Act,
    /// After the faults: check whether the cluster has recovered.
    Inspect,
}

/// The state that all members share.
pub(crate) struct SimContext {
    pub(crate) now: u64,
    pub(crate) random: SeededRandom,
    pub(crate) scenario: Scenario,
    pub(crate) network: Network,
    pub(crate) disks: BTreeMap<MemberId, Disk>,
    pub(crate) invariants: Invariants,
    pub(crate) totals: Totals,
    pub(crate) trace: Trace,
    /// Whether the faults are over.
    pub(crate) healing: bool,
    /// The last index of the entries that the initial members start with.
    pub(crate) genesis: Index,
    queue: EventQueue<Event>,
}

impl SimContext {
    pub(crate) fn new(mut random: SeededRandom, defect: Option<Defect>) -> SimContext {
        let scenario = Scenario::draw(&mut random, defect);
        SimContext {
            now: 0,
            random,
            network: Network::new(scenario.conditions.clone()),
            scenario,
            disks: BTreeMap::new(),
            invariants: Invariants::default(),
            totals: Totals::default(),
            trace: Trace::new(),
            healing: false,
            genesis: Index::ZERO,
            queue: EventQueue::default(),
        }
    }

    pub(crate) fn record(&mut self, member: MemberId, what: TraceEvent) {
        self.trace.record(self.now, member, what);
    }

    pub(crate) fn schedule(&mut self, delay: u64, event: Event) {
        self.queue.schedule(self.now + delay, event);
    }

    /// Returns the next event and advances the time to it.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let (at, event) = self.queue.pop()?;
        self.now = at;
        self.totals.events += 1;
        Some(event)
    }

    pub(crate) fn disk(&mut self, member: MemberId) -> &mut Disk {
        self.disks.get_mut(&member).expect("every member has a disk")
    }

    /// Draws a delay of up to `most`; short after the faults.
    pub(crate) fn delay(&mut self, most: u64) -> u64 {
        let most = if self.healing { most.min(5) } else { most };
        self.random.below(most + 1)
    }

    /// Sends a message through the network.
    pub(crate) fn send(&mut self, sender: MemberId, message: &Message) {
        let to = message.to;
        if is_snapshot(message) {
            self.totals.snapshots_sent += 1;
        }
        self.record(sender, TraceEvent::Sent(Summary::of(message)));
        let copies = self.network.draw_copies(&mut self.random, sender, to);
        if copies.is_empty() {
            return self.lose(sender, message);
        }
        self.totals.duplicated += copies.len() as u64 - 1;
        for delay in copies {
            let message = Box::new(message.clone());
            self.schedule(delay, Event::Deliver { sender, message });
        }
    }

    /// Drops a message; the transport may report it to the sender.
    pub(crate) fn lose(&mut self, sender: MemberId, message: &Message) {
        self.totals.dropped += 1;
        self.record(sender, TraceEvent::Dropped(Summary::of(message)));
        let (member, about) = (sender, message.to);
        if !self.random.per_mille(self.network.conditions.loss_reported) {
            return;
        }
        let delay = 1 + self.random.below(50);
        if is_snapshot(message) {
            self.schedule(delay, Event::SnapshotSent { member, about, arrived: false });
        }
        self.schedule(delay, Event::Unreachable { member, about });
    }
}
