//! What a seed decides before the run begins: the cluster, its settings, its temper and its weather.

use raft::{Config, PlantedBug, ReadOnlyOption};
use types::{Index, MemberId};

use crate::random::Random;
use crate::temper::Temper;

/// Units of simulated time in a tick.
pub(crate) const TICK: u64 = 100;

/// Members that may ever exist. Ids are not reused.
pub(crate) const MAX_MEMBERS: u64 = 12;

/// Something wrong in the core itself, to see that it is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flaw {
    Planted(PlantedBug),
    /// The holes of etcd's raft, which this core has closed.
    EtcdBugs,
}

/// How the first members learn who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Genesis {
    /// By entries that start the log.
    Bootstrap,
    /// By a configuration at index zero.
    ConfState,
}

/// How much a leader sends at a time.
#[derive(Clone, Copy, Debug)]
enum Flow {
    /// One entry, and the next when it is acknowledged: a crash may come between any two.
    OneByOne,
    /// A few.
    Narrow,
    /// Plenty.
    Wide,
}

impl Flow {
    /// Bytes in a message, and messages in flight.
    fn draw(self, random: &mut Random) -> (u64, usize) {
        match self {
            Flow::OneByOne => (0, 1),
            Flow::Narrow => (random.pick(&[0, 40, 150]), random.pick(&[1, 2, 4])),
            Flow::Wide => (random.pick(&[300, 4_000, 1 << 20]), 64),
        }
    }
}

/// What a network does to messages.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// Delays are up to this.
    pub(crate) delay: u64,
    /// So many of a thousand take up to [`Weather::LATE`] longer.
    pub(crate) late: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// So many of a thousand losses are told to the sender.
    pub(crate) told: u64,
}

impl Weather {
    /// How late a late message may be: several elections.
    pub(crate) const LATE: u64 = 25 * TICK;

    /// After the faults.
    pub(crate) fn fair() -> Weather {
        Weather { delay: 20, late: 0, lost: 0, doubled: 0, told: 1000 }
    }
}

/// Everything a seed decides in advance.
pub(crate) struct Scenario {
    pub(crate) voters: u64,
    pub(crate) learners: u64,
    pub(crate) genesis: Genesis,
    pub(crate) weather: Weather,
    pub(crate) temper: Temper,
    /// Actions come this far apart on average.
    pub(crate) pause: u64,
    pub(crate) fault_ticks: u64,
    /// So many of a thousand lives use asynchronous storage writes.
    pub(crate) asynchronous: u64,
    /// A sync takes up to this; and so does applying.
    pub(crate) sync_delay: u64,
    pub(crate) apply_delay: u64,
    /// How long a member may let work pile up before it looks.
    pub(crate) turn_delay: u64,
    /// So many of a thousand messages go through their wire form.
    pub(crate) encoded: u64,
    /// So many of a thousand members crash after they voted, or after they were elected.
    pub(crate) crash_after_vote: u64,
    pub(crate) crash_after_election: u64,
    /// A clock may be off by so many units in a tick.
    pub(crate) skew: u64,
    election_ticks: u32,
    heartbeat_ticks: u32,
    pre_vote: bool,
    check_quorum: bool,
    pub(crate) by_lease: bool,
    step_down_on_removal: bool,
    disable_proposal_forwarding: bool,
    flow: Flow,
    flaw: Option<Flaw>,
}

impl Scenario {
    pub(crate) fn draw(random: &mut Random, flaw: Option<Flaw>) -> Scenario {
        let temper = Temper::draw(random);
        let figure_eight = temper == Temper::FigureEight;
        let churn = temper == Temper::Churn;
        let (voters, learners) = temper.draw_members(random);
        let heartbeat_ticks = random.pick(&[1, 1, 2]);
        let check_quorum = random.flip();
        let by_lease = check_quorum && random.chance(300);
        Scenario {
            voters,
            learners,
            genesis: random.pick(&[Genesis::Bootstrap, Genesis::ConfState]),
            weather: draw_weather(random),
            temper,
            pause: random.pick(&[20, 60, 150]),
            fault_ticks: random.between(150, 500),
            asynchronous: random.pick(&[0, 500, 1000, 1000]),
            sync_delay: if churn { 500 } else { random.pick(&[2, 30, 120, 300]) },
            apply_delay: random.pick(&[2, 30, 200]),
            turn_delay: random.pick(&[1, 10, 40]),
            encoded: random.pick(&[0, 100, 1000]),
            crash_after_vote: random.pick(&[0, 0, 20, 150]),
            crash_after_election: if figure_eight { 400 } else { random.pick(&[0, 0, 50, 300]) },
            skew: if by_lease { 0 } else { random.pick(&[0, 10, 40]) },
            election_ticks: heartbeat_ticks * 3 + random.pick(&[0, 1, 4, 7]),
            heartbeat_ticks,
            // Without it, members that know different configurations may outrun each other's terms.
            pre_vote: churn || random.flip(),
            check_quorum,
            by_lease,
            step_down_on_removal: random.flip(),
            disable_proposal_forwarding: random.chance(100),
            flow: if figure_eight {
                Flow::OneByOne
            } else {
                random.pick(&[Flow::Narrow, Flow::Wide])
            },
            flaw,
        }
    }

    /// The configuration of one life of a member.
    pub(crate) fn config(
        &self,
        random: &mut Random,
        id: MemberId,
        applied: Index,
        asynchronous: bool,
    ) -> Config {
        let (max_message_bytes, max_inflight_messages) = self.flow.draw(random);
        let read_only_option =
            if self.by_lease { ReadOnlyOption::LeaseBased } else { ReadOnlyOption::Safe };
        Config {
            election_ticks: self.election_ticks,
            heartbeat_ticks: self.heartbeat_ticks,
            seed: random.next(),
            applied,
            async_storage_writes: asynchronous,
            max_message_bytes,
            max_applying_bytes: random.pick(&[0, 1, 100, 10_000]),
            max_uncommitted_bytes: random.pick(&[0, 0, 100, 2_000]),
            max_inflight_messages,
            max_inflight_bytes: random.pick(&[0, max_message_bytes.max(1), 1 << 20]),
            check_quorum: self.check_quorum,
            pre_vote: self.pre_vote,
            read_only_option,
            disable_proposal_forwarding: self.disable_proposal_forwarding,
            step_down_on_removal: self.step_down_on_removal,
            planted_bug: match self.flaw {
                Some(Flaw::Planted(bug)) => Some(bug),
                Some(Flaw::EtcdBugs) | None => None,
            },
            keep_etcd_bugs: matches!(self.flaw, Some(Flaw::EtcdBugs)),
            ..Config::new(id)
        }
    }

    pub(crate) fn election_ticks(&self) -> u64 {
        u64::from(self.election_ticks)
    }
}

fn draw_weather(random: &mut Random) -> Weather {
    Weather {
        delay: random.pick(&[3, 20, 60, 200]),
        late: random.pick(&[0, 0, 20, 100]),
        lost: random.pick(&[0, 0, 20, 100]),
        doubled: random.pick(&[0, 0, 20, 100]),
        told: random.pick(&[0, 500, 1000]),
    }
}
