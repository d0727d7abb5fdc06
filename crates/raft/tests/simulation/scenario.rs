//! The scenario of a seed: the cluster, its settings, its workload profile and its network
//! conditions.

use env::SeededRandom;
use raft::{Config, PlantedBug, ReadOnlyOption};
use simkit::{LateMessages, NetworkConditions, RandomExt as _};
use types::{Index, MemberId};

use crate::profile::Profile;

/// Units of simulated time per tick.
pub(crate) const TICK: u64 = 100;

/// The maximum number of members over a run. Ids are not reused.
pub(crate) const MAX_MEMBERS: u64 = 12;

/// A defect of the core that the simulation must find.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Defect {
    Planted(PlantedBug),
    /// The known bugs of etcd's raft, which this core has fixed.
    EtcdBugs,
}

/// The way in which the initial members learn their configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Genesis {
    /// From entries at the start of the log.
    Bootstrap,
    /// From a configuration at index zero.
    ConfState,
}

/// The flow control of a leader.
#[derive(Clone, Copy, Debug)]
enum Flow {
    /// A single entry in flight: a crash may happen between any two.
    OneByOne,
    /// A few entries in flight.
    Narrow,
    /// Many entries in flight.
    Wide,
}

impl Flow {
    /// Returns the bytes per message and the messages in flight.
    fn draw(self, random: &mut SeededRandom) -> (u64, usize) {
        match self {
            Flow::OneByOne => (0, 1),
            Flow::Narrow => (random.pick(&[0, 40, 150]), random.pick(&[1, 2, 4])),
            Flow::Wide => (random.pick(&[300, 4_000, 1 << 20]), 64),
        }
    }
}

/// The behavior of the network and the transport.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) network: NetworkConditions,
    /// The probability, in per mille, that a loss is reported to the sender.
    pub(crate) loss_reported: u64,
}

impl Conditions {
    fn draw(random: &mut SeededRandom) -> Conditions {
        let network = NetworkConditions {
            delay: random.pick(&[3, 20, 60, 200]) - 1,
            late: late(random.pick(&[0, 0, 20, 100])),
            loss: random.pick(&[0, 0, 20, 100]),
            duplication: random.pick(&[0, 0, 20, 100]),
        };
        Conditions { network, loss_reported: random.pick(&[0, 500, 1000]) }
    }

    /// Returns the conditions after the faults.
    pub(crate) fn healthy() -> Conditions {
        let network =
            NetworkConditions { delay: 19, late: late(0), ..NetworkConditions::default() };
        Conditions { network, loss_reported: 1000 }
    }
}

/// Late messages take several election timeouts.
fn late(share: u64) -> Option<LateMessages> {
    Some(LateMessages { share, delay: 25 * TICK })
}

/// Everything a seed determines in advance.
pub(crate) struct Scenario {
    pub(crate) voters: u64,
    pub(crate) learners: u64,
    pub(crate) genesis: Genesis,
    pub(crate) conditions: Conditions,
    pub(crate) profile: Profile,
    /// The average interval between actions.
    pub(crate) pause: u64,
    pub(crate) fault_ticks: u64,
    /// The probability, in per mille, of asynchronous storage writes in an incarnation.
    pub(crate) asynchronous: u64,
    /// The maximum delay of a sync, and of applying entries.
    pub(crate) sync_delay: u64,
    pub(crate) apply_delay: u64,
    /// The maximum delay before a member handles its pending work.
    pub(crate) turn_delay: u64,
    /// The probability, in per mille, that a message is encoded and decoded.
    pub(crate) encoded: u64,
    /// The probabilities, in per mille, of a crash after a vote and after a won election.
    pub(crate) crash_after_vote: u64,
    pub(crate) crash_after_election: u64,
    /// The maximum clock skew, in units per tick.
    pub(crate) skew: u64,
    election_ticks: u32,
    heartbeat_ticks: u32,
    pre_vote: bool,
    check_quorum: bool,
    pub(crate) by_lease: bool,
    step_down_on_removal: bool,
    disable_proposal_forwarding: bool,
    flow: Flow,
    defect: Option<Defect>,
}

impl Scenario {
    pub(crate) fn draw(random: &mut SeededRandom, defect: Option<Defect>) -> Scenario {
        let profile = Profile::draw(random);
        let figure_eight = profile == Profile::FigureEight;
        let churn = profile == Profile::Churn;
        let (voters, learners) = profile.draw_members(random);
        let heartbeat_ticks = random.pick(&[1, 1, 2]);
        let check_quorum = random.flip();
        let by_lease = check_quorum && random.per_mille(300);
        Scenario {
            voters,
            learners,
            genesis: random.pick(&[Genesis::Bootstrap, Genesis::ConfState]),
            conditions: Conditions::draw(random),
            profile,
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
            // Without pre-vote, members that know different configurations may outrun each other's
            // terms.
            pre_vote: churn || random.flip(),
            check_quorum,
            by_lease,
            step_down_on_removal: random.flip(),
            disable_proposal_forwarding: random.per_mille(100),
            flow: if figure_eight {
                Flow::OneByOne
            } else {
                random.pick(&[Flow::Narrow, Flow::Wide])
            },
            defect,
        }
    }

    /// Returns the configuration of one incarnation of a member.
    pub(crate) fn config(
        &self,
        random: &mut SeededRandom,
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
            planted_bug: match self.defect {
                Some(Defect::Planted(bug)) => Some(bug),
                Some(Defect::EtcdBugs) | None => None,
            },
            keep_etcd_bugs: matches!(self.defect, Some(Defect::EtcdBugs)),
            ..Config::new(id)
        }
    }

    pub(crate) fn election_ticks(&self) -> u64 {
        u64::from(self.election_ticks)
    }
}
