//! A scenario: a cluster under load and faults, determined by a seed; then healed and checked.
//!
//! ```text
//!   step     1 … 150            …  3000              …  4200
//!            bootstrap,            last fault,          a write through every member;
//!            election              heal                 members are equal; the history is checked
//! ```
//!
//! `checker` has the final conditions, `faults` the faults, `operator` the membership changes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use env::SeededRandom;
use history::History;
use server::planted_bug::{self, PlantedBug};
use server::{Server, ServerConfig, StopReason};
use types::MemberId;

use crate::client::{Clients, Reach};
use crate::cluster::{Cluster, Settings};
use crate::faults::{Fault, FaultInjector};
use crate::journal::Journal;
use crate::node::Node;
use crate::operator::Operator;

/// Members are compared once in this many steps, on average.
const COMPARE_STEPS: u64 = 150;
/// A member is defragmented once in this many steps, on average.
const DEFRAGMENT_STEPS: u64 = 400;
/// A stopped member restarts within this many steps.
const BACK_STEPS: u64 = 300;

/// The parameters of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Determines everything.
    pub seed: u64,
    /// Steps until all faults are healed.
    pub steps: u64,
    /// Bug planted in all members.
    pub plant: Option<PlantedBug>,
}

/// The result of a scenario that passed.
#[derive(Debug)]
pub struct Report {
    /// Digest of everything that happened.
    pub digest: u64,
    /// History of the clients.
    pub history: History,
    /// Statistics.
    pub counts: Counts,
}

/// Statistics of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are enough")]
pub struct Counts {
    pub steps: u64,
    /// Faults by kind, in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
    pub starts: u64,
    pub joined: u64,
    pub removed: u64,
    pub promoted: u64,
    pub snapshots: u64,
    pub operations: u64,
    pub answered: u64,
    pub unknown: u64,
    pub events: u64,
    pub revisions: u64,
    pub terms: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.steps += other.steps;
        self.faults.iter_mut().zip(other.faults).for_each(|(count, more)| *count += more);
        self.starts += other.starts;
        self.joined += other.joined;
        self.removed += other.removed;
        self.promoted += other.promoted;
        self.snapshots += other.snapshots;
        self.operations += other.operations;
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.events += other.events;
        self.revisions += other.revisions;
        self.terms += other.terms;
    }
}

/// A scenario that failed.
#[derive(Debug)]
pub struct Failure {
    /// Seed.
    pub seed: u64,
    /// Reason.
    pub what: String,
    /// Journal, if enabled.
    pub journal: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.journal {
            writeln!(f, "{line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

impl Scenario {
    /// Default length.
    pub const STEPS: u64 = 4000;

    /// Returns the scenario of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Scenario {
        Scenario { seed, steps: Scenario::STEPS, plant: None }
    }

    /// Runs the scenario.
    ///
    /// # Errors
    /// A check failed.
    pub fn run(&self) -> Result<Report, Failure> {
        self.run_with(Journal::default())
    }

    /// Runs the scenario and keeps a journal.
    ///
    /// # Errors
    /// Fails like [`Scenario::run`].
    pub fn run_with_journal(&self) -> Result<Report, Failure> {
        self.run_with(Journal::enabled())
    }

    fn run_with(&self, journal: Journal) -> Result<Report, Failure> {
        planted_bug::plant(self.plant);
        let mut simulation = Simulation::new(*self, journal);
        // A panic of a member is a finding.
        let end = catch_unwind(AssertUnwindSafe(|| simulation.go())).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        });
        let failure = |what, simulation: &Simulation| Failure {
            seed: self.seed,
            what,
            journal: simulation.journal.lines().to_vec(),
        };
        end.map_err(|what| failure(what, &simulation))?;
        simulation.check_history().map_err(|(what, journal)| Failure {
            seed: self.seed,
            what,
            journal,
        })
    }

    /// Configures members so that rare events are frequent.
    fn config(&self) -> impl Fn(&mut ServerConfig) + Clone + use<> {
        let mut random = SeededRandom::new(!self.seed);
        let snapshot_count = 10 + random.below(40);
        let catchup = random.below(11);
        let segment_bytes = (4 + random.below(16)) << 10;
        let is_strict = random.chance(1, 3);
        let pre_vote = random.chance(3, 4);
        let advance = random.chance(3, 4);
        let pending_bytes_max = if random.chance(1, 2) { Some(0) } else { None };
        let is_checkpointed = random.chance(1, 2);
        let is_fast = random.chance(1, 2);
        move |config| {
            config.snapshot_count = snapshot_count;
            config.snapshot_catchup_entries = catchup;
            config.segment_bytes = segment_bytes;
            config.strict_reconfig_check = is_strict;
            config.pre_vote = pre_vote;
            config.initial_election_tick_advance = advance;
            (config.max_snapshots, config.max_wals) = (2, 1);
            config.compaction_batch_limit = 5;
            config.watch_progress_notify_interval = Duration::from_secs(2);
            config.compact_hash_check_time = Duration::from_secs(5);
            config.corrupt_check_time = Duration::from_secs(7);
            config.features.compact_hash_check = true;
            config.features.initial_corrupt_check = true;
            config.features.lease_checkpoint = is_checkpointed;
            config.features.lease_checkpoint_persist = is_checkpointed;
            config.features.fast_lease_keep_alive = is_fast;
            if let Some(bytes) = pending_bytes_max {
                config.backend.pending_bytes_max = bytes;
            }
        }
    }
}

/// The running simulation.
pub(crate) struct Simulation {
    pub(crate) story: Scenario,
    pub(crate) random: SeededRandom,
    pub(crate) cluster: Cluster,
    pub(crate) clients: Clients,
    pub(crate) operator: Operator,
    pub(crate) trouble: FaultInjector,
    pub(crate) journal: Journal,
    pub(crate) counts: Counts,
}

/// The result of a check: an error describes the violation.
pub(crate) type Checked = Result<(), String>;

impl Simulation {
    fn new(story: Scenario, journal: Journal) -> Simulation {
        let mut random = SeededRandom::new(story.seed.wrapping_mul(7919));
        let mut settings = Settings::new(random.next());
        settings.members = [1, 2, 3, 3, 3, 3, 4, 5][usize::try_from(random.below(8)).unwrap_or(0)];
        let mut cluster = Cluster::new(settings, story.config());
        cluster.nodes.values_mut().for_each(|node| node.pace = 900 + random.below(101));
        let (clients, watchers) = (2 + random.below(8), 1 + random.below(4));
        Simulation {
            story,
            clients: Clients::new(random.next(), clients, watchers),
            operator: Operator::new(random.next()),
            trouble: FaultInjector::new(random.next()),
            random,
            cluster,
            journal,
            counts: Counts::default(),
        }
    }

    /// Runs until all faults are healed and all members are equal.
    fn go(&mut self) -> Checked {
        for _ in 0..self.story.steps {
            self.faults()?;
            self.operate();
            self.step()?;
        }
        self.heal()?;
        self.settle()
    }

    /// Advances the cluster and its clients by one step.
    pub(crate) fn step(&mut self) -> Checked {
        self.cluster.step();
        self.bury()?;
        self.relieve()?;
        let reach = Reach { now: self.cluster.now, servers: self.cluster.servers().collect() };
        self.clients.step(&reach, &mut self.journal);
        if self.random.chance(1, COMPARE_STEPS) {
            self.compare();
        }
        if self.random.chance(1, DEFRAGMENT_STEPS)
            && let Some(id) = self.any_member()
            && let Some(server) = self.cluster.nodes[&id].server()
        {
            self.clients.defragment(server, self.cluster.now);
        }
        Ok(())
    }

    /// Records the hashes of all members at some revision.
    fn compare(&mut self) {
        let revision = self.clients.revision();
        for server in self.cluster.servers() {
            self.clients.note_hash(server, revision);
        }
    }

    /// Handles members that have stopped: some may, others must not.
    fn bury(&mut self) -> Checked {
        for (id, reason) in std::mem::take(&mut self.cluster.ended) {
            self.lose(id);
            self.note(|| format!("{id} ended: {reason}"));
            let node = self.cluster.node(id);
            match reason {
                StopReason::Removed => self.operator.leave(id),
                StopReason::Fault(why) if node.excuses(&why) => {
                    if node.is_off {
                        self.lose_power(id);
                    }
                    self.start_later(id);
                }
                other => return Err(format!("{id} stopped unexpectedly: {other}")),
            }
        }
        Ok(())
    }

    pub(crate) fn start_later(&mut self, id: MemberId) {
        let steps = self.random.below(BACK_STEPS);
        self.trouble.start_at(self.cluster.steps + steps, id);
    }

    pub(crate) fn lose_power(&mut self, id: MemberId) {
        let (network, seed) = (self.cluster.network.clone(), self.random.next());
        self.lose(id);
        self.cluster.node(id).lose_power(&network, seed);
    }

    /// Disconnects the clients of a member.
    pub(crate) fn lose(&mut self, id: MemberId) {
        self.clients.lose(id, self.cluster.now, &mut self.journal);
        self.operator.lose(id, self.cluster.now, &mut self.journal);
    }

    /// Starts a stopped member, if it starts.
    pub(crate) fn start(&mut self, id: MemberId) -> Checked {
        let Some(node) = self.cluster.nodes.get(&id) else { return Ok(()) };
        if node.is_running() || self.operator.has_left(id) {
            return Ok(());
        }
        self.counts.starts += 1;
        let started = self.cluster.try_start(id);
        match started {
            Ok(()) => self.note_started(id),
            Err(error) if self.cluster.node(id).excuses(&words(&error)) => {
                self.note(|| format!("{id} did not start: {error}"));
                if self.cluster.node(id).is_off {
                    self.lose_power(id);
                }
                self.cluster.node(id).heal();
                self.start_later(id);
            }
            Err(error) => return Err(format!("{id} does not start: {}", words(&error))),
        }
        Ok(())
    }

    fn note_started(&mut self, id: MemberId) {
        let Some(server) = self.cluster.nodes.get(&id).and_then(Node::server) else { return };
        let (members, applied) = (server.state().cluster.now(), server.applied());
        let names: Vec<_> = members.ids().map(|id| id.to_string()).collect();
        self.note(|| format!("{id} started: applied {applied}, members {}", names.join(" ")));
    }

    /// Returns a random member, running or not.
    pub(crate) fn any_member(&mut self) -> Option<MemberId> {
        let ids: Vec<_> = self.cluster.nodes.keys().copied().collect();
        let place = usize::try_from(self.random.below(ids.len().max(1) as u64)).unwrap_or(0);
        ids.get(place).copied()
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        self.journal.note(self.cluster.now, what);
    }

    /// Runs until a condition holds.
    pub(crate) fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Simulation) -> bool,
    ) -> Checked {
        const STEPS_MAX: usize = 12_000;
        for _ in 0..STEPS_MAX {
            if is_so(self) {
                return Ok(());
            }
            self.cluster.step();
            self.bury()?;
            self.relieve()?;
            self.operator.look_after(&mut self.cluster, &mut self.counts, self.story.config());
            let reach = Reach { now: self.cluster.now, servers: self.cluster.servers().collect() };
            self.clients.listen(&reach, &mut self.journal);
            self.clients.watch(&reach, &mut self.journal);
        }
        Err(format!("not reached: {what}\n{}", self.cluster.describe()))
    }

    /// Lets the operator change the membership occasionally.
    fn operate(&mut self) {
        let config = self.story.config();
        self.operator.step(&mut self.cluster, &mut self.counts, &mut self.journal, config);
    }

    /// Returns all running members.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.cluster.nodes.values().filter_map(Node::server)
    }
}

/// Formats an error with its causes.
fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
