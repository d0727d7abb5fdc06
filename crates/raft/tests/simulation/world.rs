//! What the members share: time, chance, the network, the disks, and the eyes that watch it all.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use raft::Message;
use types::{Index, MemberId};

use crate::disk::Disk;
use crate::invariants::Invariants;
use crate::network::{Fate, Network, is_snapshot};
use crate::random::Random;
use crate::scenario::{Flaw, Scenario};
use crate::totals::Totals;
use crate::trace::{Summary, Trace, What};

/// Everything that can happen next. Events of a member name the life they belong to: a crash ends it.
#[derive(Debug)]
pub(crate) enum Event {
    /// A clock ticks.
    Tick { member: MemberId, life: u32 },
    /// A member looks what there is to do.
    Turn { member: MemberId, life: u32 },
    /// A message arrives. In some messages the sender's place names somebody else.
    Deliver { sender: MemberId, message: Box<Message> },
    /// Synchronous storage: what the last `Ready` asked for is written, and synced if it must be.
    Saved { member: MemberId, life: u32 },
    /// The append thread has written, and synced if it must, what it took from its queue.
    Appended { member: MemberId, life: u32 },
    /// Entries are ready to be applied: those of the last `Ready`, or those the apply thread took.
    Applied { member: MemberId, life: u32 },
    /// The transport tells that a member cannot be reached.
    Unreachable { member: MemberId, about: MemberId },
    /// The transport tells how the sending of a snapshot ended.
    SnapshotSent { member: MemberId, about: MemberId, arrived: bool },
    /// The power of a member goes, for so long.
    Crash { member: MemberId, life: u32, downtime: u64 },
    /// It comes back.
    Start { member: MemberId },
    /// Something is done to the cluster.
    Act,
    /// After the faults: is everything well again?
    Inspect,
}

struct Scheduled {
    at: u64,
    /// Among events of the same moment, the one scheduled first comes first.
    order: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// What the members share.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) scenario: Scenario,
    pub(crate) network: Network,
    pub(crate) disks: BTreeMap<MemberId, Disk>,
    pub(crate) invariants: Invariants,
    pub(crate) totals: Totals,
    pub(crate) trace: Trace,
    /// Whether the faults are over.
    pub(crate) healing: bool,
    /// The entries that the first members start their log with end here.
    pub(crate) genesis: Index,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
}

impl World {
    pub(crate) fn new(mut random: Random, flaw: Option<Flaw>) -> World {
        let scenario = Scenario::draw(&mut random, flaw);
        World {
            now: 0,
            random,
            network: Network::new(scenario.weather.clone()),
            scenario,
            disks: BTreeMap::new(),
            invariants: Invariants::default(),
            totals: Totals::default(),
            trace: Trace::new(),
            healing: false,
            genesis: Index::ZERO,
            queue: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    pub(crate) fn record(&mut self, member: MemberId, what: What) {
        self.trace.record(self.now, member, what);
    }

    pub(crate) fn schedule(&mut self, delay: u64, event: Event) {
        self.scheduled += 1;
        let scheduled = Scheduled { at: self.now + delay, order: self.scheduled, event };
        self.queue.push(Reverse(scheduled));
    }

    /// The next event; time moves on to it.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let Reverse(next) = self.queue.pop()?;
        self.now = next.at;
        self.totals.events += 1;
        Some(next.event)
    }

    pub(crate) fn disk(&mut self, member: MemberId) -> &mut Disk {
        self.disks.get_mut(&member).expect("every member has a disk")
    }

    /// A delay of up to `most`, or hardly any once the faults are over.
    pub(crate) fn delay(&mut self, most: u64) -> u64 {
        let most = if self.healing { most.min(5) } else { most };
        self.random.below(most + 1)
    }

    /// Sends a message into the network.
    pub(crate) fn send(&mut self, sender: MemberId, message: &Message) {
        let to = message.to;
        if is_snapshot(message) {
            self.totals.snapshots_sent += 1;
        }
        self.record(sender, What::Sent(Summary::of(message)));
        match self.network.fate(&mut self.random, sender, to) {
            Fate::Lost => self.lose(sender, message),
            Fate::Arrives(delays) => {
                self.totals.doubled += delays.len() as u64 - 1;
                for delay in delays {
                    let message = Box::new(message.clone());
                    self.schedule(delay, Event::Deliver { sender, message });
                }
            }
        }
    }

    /// A message is lost; its sender may get to know.
    pub(crate) fn lose(&mut self, sender: MemberId, message: &Message) {
        self.totals.dropped += 1;
        self.record(sender, What::Dropped(Summary::of(message)));
        let (member, about) = (sender, message.to);
        if !self.random.chance(self.network.weather.told) {
            return;
        }
        let delay = 1 + self.random.below(50);
        if is_snapshot(message) {
            self.schedule(delay, Event::SnapshotSent { member, about, arrived: false });
        }
        self.schedule(delay, Event::Unreachable { member, about });
    }
}
