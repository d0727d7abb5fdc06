//! Workload profiles: which actions a run performs how often, and on which cluster.
//!
//! A run that does a little of everything finds little. So each seed has a profile that does much
//! of a few things.

use env::SeededRandom;
use simkit::RandomExt as _;

/// An action on the cluster.
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
    CampaignConcurrently,
    Snapshot,
    Checkpoint,
    SlowDisk,
    BusyStorage,
    RetireRemoved,
}

/// The workload profile of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Some of everything.
    Mixed,
    /// Continuous elections.
    Elections,
    /// Leaders repeatedly crash after they have reached a minority, while entries are acknowledged
    /// one by one: figure 3.7 of the thesis, figure 8 of the paper.
    FigureEight,
    /// Members are added and removed.
    Membership,
    /// Continuous conf changes on slow disks, with crashing members: many members know only an old
    /// configuration.
    Churn,
    /// Hardly any faults.
    Calm,
}

impl Profile {
    pub(crate) fn draw(random: &mut SeededRandom) -> Profile {
        use Profile::*;
        random.pick(&[Mixed, Mixed, Elections, FigureEight, Membership, Churn, Calm])
    }

    /// Draws the number of initial voters and learners.
    pub(crate) fn draw_members(self, random: &mut SeededRandom) -> (u64, u64) {
        match self {
            Profile::Elections | Profile::FigureEight => (random.pick(&[2, 3, 3, 3, 3, 5, 5]), 0),
            Profile::Churn => (random.between(2, 4), 0),
            Profile::Mixed | Profile::Membership | Profile::Calm => {
                (random.between(1, 7), random.pick(&[0, 0, 1, 2]))
            }
        }
    }

    pub(crate) fn draw_action(self, random: &mut SeededRandom) -> Action {
        random.pick_weighted(self.weights())
    }

    fn weights(self) -> Weights {
        match self {
            Profile::Mixed => MIXED,
            Profile::Elections => ELECTIONS,
            Profile::FigureEight => FIGURE_EIGHT,
            Profile::Membership => MEMBERSHIP,
            Profile::Churn => CHURN,
            Profile::Calm => CALM,
        }
    }
}

use Action::*;

/// The relative frequency of each action.
type Weights = &'static [(Action, u64)];

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
    (CampaignConcurrently, 1),
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
    (CampaignConcurrently, 5),
    (Snapshot, 2),
    (Checkpoint, 4),
    (SlowDisk, 4),
];

const FIGURE_EIGHT: Weights = &[
    (Propose, 12),
    (Read, 4),
    (Crash, 2),
    (CrashLeader, 4),
    (LeaderReachesOne, 12),
    (IsolateLeader, 6),
    (HealNetwork, 12),
    (Campaign, 8),
    (CampaignConcurrently, 2),
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
    (CampaignConcurrently, 2),
    (Snapshot, 10),
    (Checkpoint, 6),
    (SlowDisk, 3),
    (BusyStorage, 4),
    (RetireRemoved, 4),
];

const CHURN: Weights = &[
    (Propose, 10),
    (Read, 5),
    (ChangeMembership, 40),
    (Crash, 10),
    (Partition, 5),
    (HealNetwork, 10),
    (Transfer, 2),
    (Campaign, 5),
    (CampaignConcurrently, 5),
    (Snapshot, 3),
    (Checkpoint, 2),
    (RetireRemoved, 1),
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
