//! What a run is like: which actions come how often, and the cluster that suits them.
//!
//! A run in which everything happens a little finds little. So each seed has a temper, and does much of some things.

use crate::random::Random;

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

/// What a run is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temper {
    /// Something of everything.
    Mixed,
    /// One election after the other.
    Elections,
    /// Leaders that crash after they reached a minority, again and again, while entries are
    /// acknowledged one by one: figure 3.7 of the thesis, figure 8 of the paper.
    FigureEight,
    /// Members come and go.
    Membership,
    /// Change upon change, on slow disks, with members that crash meanwhile: many know only an old
    /// configuration.
    Churn,
    /// Hardly any faults.
    Calm,
}

impl Temper {
    pub(crate) fn draw(random: &mut Random) -> Temper {
        use Temper::*;
        random.pick(&[Mixed, Mixed, Elections, FigureEight, Membership, Churn, Calm])
    }

    /// The first voters and learners.
    pub(crate) fn draw_members(self, random: &mut Random) -> (u64, u64) {
        match self {
            Temper::Elections | Temper::FigureEight => (random.pick(&[2, 3, 3, 3, 3, 5, 5]), 0),
            Temper::Churn => (random.between(2, 4), 0),
            Temper::Mixed | Temper::Membership | Temper::Calm => {
                (random.between(1, 7), random.pick(&[0, 0, 1, 2]))
            }
        }
    }

    pub(crate) fn draw_action(self, random: &mut Random) -> Action {
        let weights = self.weights();
        let total = weights.iter().map(|(_, weight)| weight).sum();
        let mut rest = random.below(total);
        for &(action, weight) in weights {
            if rest < weight {
                return action;
            }
            rest -= weight;
        }
        Action::Propose
    }

    fn weights(self) -> Weights {
        match self {
            Temper::Mixed => MIXED,
            Temper::Elections => ELECTIONS,
            Temper::FigureEight => FIGURE_EIGHT,
            Temper::Membership => MEMBERSHIP,
            Temper::Churn => CHURN,
            Temper::Calm => CALM,
        }
    }
}

use Action::*;

/// How likely each action is, beside the others.
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

const CHURN: Weights = &[
    (Propose, 10),
    (Read, 5),
    (ChangeMembership, 40),
    (Crash, 10),
    (Partition, 5),
    (HealNetwork, 10),
    (Transfer, 2),
    (Campaign, 5),
    (Rivals, 5),
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
