//! What a seed decides before the run begins: the cluster, its settings, and what it will suffer.
//!
//! A run in which everything happens a little finds little. So each seed has a *temper*: some are all
//! elections, some all membership changes, some play leaders that crash after they reached a minority, again
//! and again (figure 3.7 of the thesis, figure 8 of the paper).

use raft::{Config, PlantedBug, ReadOnlyOption};
use types::{Index, MemberId};

use crate::random::Random;

/// Units of simulated time in a tick.
pub(crate) const TICK: u64 = 100;

/// Members that may ever exist. Ids are not reused.
pub(crate) const MAX_MEMBERS: u64 = 12;

/// Something done to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Propose,
    ProposeBatch,
    Read,
    ChangeMembership,
    Crash,
    CrashLeader,
    PowerCut,
    Partition,
    IsolateLeader,
    LeaderReachesOne,
    CutOneWay,
    HealNetwork,
    Transfer,
    ForgetLeader,
    Campaign,
    Rivals,
    Snapshot,
    Checkpoint,
    SlowDisk,
    BusyStorage,
    RetireRemoved,
}

/// How likely each action is, beside the others.
type Weights = &'static [(Action, u64)];

use Action::*;

const MIXED: Weights = &[
    (Propose, 80),
    (ProposeBatch, 16),
    (Read, 30),
    (ChangeMembership, 8),
    (Crash, 4),
    (CrashLeader, 2),
    (PowerCut, 1),
    (Partition, 3),
    (IsolateLeader, 1),
    (LeaderReachesOne, 1),
    (CutOneWay, 3),
    (HealNetwork, 10),
    (Transfer, 4),
    (ForgetLeader, 3),
    (Campaign, 2),
    (Rivals, 1),
    (Snapshot, 12),
    (Checkpoint, 10),
    (SlowDisk, 3),
    (BusyStorage, 4),
    (RetireRemoved, 3),
];

const ELECTIONS: Weights = &[
    (Propose, 40),
    (Read, 20),
    (Crash, 6),
    (CrashLeader, 3),
    (PowerCut, 1),
    (Partition, 2),
    (CutOneWay, 3),
    (HealNetwork, 10),
    (Transfer, 5),
    (ForgetLeader, 5),
    (Campaign, 3),
    (Rivals, 5),
    (Snapshot, 2),
    (Checkpoint, 4),
];

const FIGURE_EIGHT: Weights = &[
    (Propose, 12),
    (Read, 4),
    (Crash, 3),
    (CrashLeader, 8),
    (LeaderReachesOne, 14),
    (IsolateLeader, 4),
    (HealNetwork, 10),
    (Campaign, 10),
    (Rivals, 2),
    (Checkpoint, 2),
];

const MEMBERSHIP: Weights = &[
    (Propose, 40),
    (ProposeBatch, 8),
    (Read, 12),
    (ChangeMembership, 30),
    (Crash, 4),
    (CrashLeader, 2),
    (PowerCut, 1),
    (Partition, 2),
    (CutOneWay, 2),
    (HealNetwork, 10),
    (Transfer, 4),
    (Campaign, 2),
    (Rivals, 2),
    (Snapshot, 10),
    (Checkpoint, 6),
    (SlowDisk, 3),
    (BusyStorage, 4),
    (RetireRemoved, 4),
];

const CALM: Weights = &[
    (Propose, 60),
    (ProposeBatch, 30),
    (Read, 30),
    (ChangeMembership, 2),
    (Crash, 1),
    (HealNetwork, 2),
    (Transfer, 1),
    (Snapshot, 6),
    (Checkpoint, 4),
    (SlowDisk, 1),
    (RetireRemoved, 1),
];

/// How the first members learn who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Genesis {
    /// By entries that start the log.
    Bootstrap,
    /// By a configuration at index zero.
    ConfState,
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
    pub(crate) actions: Weights,
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
    tight: bool,
    planted_bug: Option<PlantedBug>,
}

impl Scenario {
    pub(crate) fn draw(random: &mut Random, planted_bug: Option<PlantedBug>) -> Scenario {
        let actions = random.pick(&[MIXED, MIXED, ELECTIONS, FIGURE_EIGHT, MEMBERSHIP, CALM]);
        let small = actions == ELECTIONS || actions == FIGURE_EIGHT;
        let voters = if small { random.pick(&[2, 3, 3, 3, 4, 5, 5]) } else { random.between(1, 7) };
        let heartbeat_ticks = random.pick(&[1, 1, 2]);
        let check_quorum = random.flip();
        let by_lease = check_quorum && random.chance(300);
        Scenario {
            voters,
            learners: if small { 0 } else { random.pick(&[0, 0, 1, 2]) },
            genesis: random.pick(&[Genesis::Bootstrap, Genesis::ConfState]),
            weather: draw_weather(random),
            actions,
            pause: random.pick(&[20, 50, 120]),
            fault_ticks: random.between(120, 400),
            asynchronous: random.pick(&[0, 500, 1000, 1000]),
            sync_delay: random.pick(&[2, 30, 120, 300]),
            apply_delay: random.pick(&[2, 30, 200]),
            turn_delay: random.pick(&[1, 10, 40]),
            encoded: random.pick(&[0, 100, 1000]),
            crash_after_vote: random.pick(&[0, 0, 20, 150]),
            crash_after_election: random.pick(&[0, 0, 50, 300]),
            skew: if by_lease { 0 } else { random.pick(&[0, 10, 40]) },
            election_ticks: heartbeat_ticks * 3 + random.pick(&[0, 1, 4, 7]),
            heartbeat_ticks,
            pre_vote: random.flip(),
            check_quorum,
            by_lease,
            step_down_on_removal: random.flip(),
            disable_proposal_forwarding: random.chance(100),
            tight: small || random.flip(),
            planted_bug,
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
        let max_message_bytes = if self.tight {
            random.pick(&[0, 40, 150])
        } else {
            random.pick(&[300, 4_000, 1 << 20])
        };
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
            max_inflight_messages: if self.tight { random.pick(&[1, 2, 4]) } else { 64 },
            max_inflight_bytes: random.pick(&[0, max_message_bytes.max(1), 1 << 20]),
            check_quorum: self.check_quorum,
            pre_vote: self.pre_vote,
            read_only_option,
            disable_proposal_forwarding: self.disable_proposal_forwarding,
            step_down_on_removal: self.step_down_on_removal,
            planted_bug: self.planted_bug,
            ..Config::new(id)
        }
    }

    pub(crate) fn draw_action(&self, random: &mut Random) -> Action {
        let total = self.actions.iter().map(|(_, weight)| weight).sum();
        let mut rest = random.below(total);
        for &(action, weight) in self.actions {
            if rest < weight {
                return action;
            }
            rest -= weight;
        }
        Propose
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
