//! A scenario: a cluster under load and faults, determined by a seed; then healed and checked.
//!
//! ```text
//!   step     1 … 150            …  4000              …  5200
//!            bootstrap,            last fault,          a write through every member;
//!            election              heal                 members are equal; the history is checked
//! ```
//!
//! `checker` has the final conditions, `faults` the faults, `operator` the membership changes.

use std::time::Duration;

use env::SeededRandom;
use history::History;
use server::planted_bug::{self, PlantedBug};
use server::{Server, ServerConfig, StopReason};
use simkit::{RandomExt as _, catch_panic};
use types::MemberId;

use crate::client::{Clients, Reachable};
use crate::cluster::{Cluster, Settings};
use crate::faults::{FaultCounts, FaultInjector};
use crate::journal::Journal;
use crate::node::Node;
use crate::operator::Operator;

/// The hashes of all members are recorded once in this many steps, on average.
const HASH_STEPS: u64 = 150;
/// A member is defragmented once in this many steps, on average.
const DEFRAGMENT_STEPS: u64 = 400;
/// A stopped member restarts within this many steps.
const RESTART_STEPS_MAX: u64 = 300;

/// The parameters of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Seed of all random choices.
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
    /// Injected faults.
    pub faults: FaultCounts,
}

simkit::counters! {
    /// Statistics of a scenario.
    pub struct Counts {
        steps: "steps",
        starts: "restarts",
        joined: "members joined",
        removed: "members removed",
        promoted: "learners promoted",
        snapshots: "snapshots delivered",
        operations: "client operations",
        answered: "operations answered",
        unknown: "operations with an unknown outcome",
        events: "events received by watchers",
        revisions: "revisions",
        terms: "terms",
    }
}

/// A scenario that failed.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The failed check, or the message of a panic.
    pub reason: String,
    /// The journal; empty unless enabled.
    pub journal: Journal,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}seed {}: {}", self.journal, self.seed, self.reason)
    }
}

impl Scenario {
    /// Default number of steps.
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
        self.run_with(Journal::disabled())
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
        // A panic of a member fails the scenario like a failed check.
        let result = catch_panic(|| simulation.run()).unwrap_or_else(Err);
        let seed = self.seed;
        match result {
            Err(reason) => Err(Failure { seed, reason, journal: simulation.journal }),
            Ok(()) => simulation.check_history(),
        }
    }

    /// Returns a function that configures a member so that rare events are frequent.
    fn config(&self) -> impl Fn(&mut ServerConfig) + Clone + use<> {
        let mut random = SeededRandom::new(!self.seed);
        let snapshot_count = 10 + random.below(40);
        let catchup_entries = random.below(11);
        let segment_bytes = (4 + random.below(16)) << 10;
        let strict_reconfig_check = random.chance(1, 3);
        let pre_vote = random.chance(3, 4);
        let tick_advance = random.chance(3, 4);
        let pending_bytes_max = if random.chance(1, 2) { Some(0) } else { None };
        let lease_checkpoint = random.chance(1, 2);
        let fast_keep_alive = random.chance(1, 2);
        move |config| {
            config.snapshot_count = snapshot_count;
            config.snapshot_catchup_entries = catchup_entries;
            config.segment_bytes = segment_bytes;
            config.strict_reconfig_check = strict_reconfig_check;
            config.pre_vote = pre_vote;
            config.initial_election_tick_advance = tick_advance;
            (config.max_snapshots, config.max_wals) = (2, 1);
            config.compaction_batch_limit = 5;
            config.watch_progress_notify_interval = Duration::from_secs(2);
            config.compact_hash_check_time = Duration::from_secs(5);
            config.corrupt_check_time = Duration::from_secs(7);
            config.features.compact_hash_check = true;
            config.features.initial_corrupt_check = true;
            config.features.lease_checkpoint = lease_checkpoint;
            config.features.lease_checkpoint_persist = lease_checkpoint;
            config.features.fast_lease_keep_alive = fast_keep_alive;
            if let Some(bytes) = pending_bytes_max {
                config.backend.pending_bytes_max = bytes;
            }
        }
    }
}

/// The running simulation.
pub(crate) struct Simulation {
    pub(crate) scenario: Scenario,
    pub(crate) random: SeededRandom,
    pub(crate) cluster: Cluster,
    pub(crate) clients: Clients,
    pub(crate) operator: Operator,
    pub(crate) faults: FaultInjector,
    pub(crate) journal: Journal,
    pub(crate) counts: Counts,
    pub(crate) fault_counts: FaultCounts,
}

/// The result of a check: an error describes the violation.
pub(crate) type Checked = Result<(), String>;

impl Simulation {
    fn new(scenario: Scenario, journal: Journal) -> Simulation {
        let mut random = SeededRandom::new(scenario.seed.wrapping_mul(7919));
        let mut settings = Settings::new(random.next());
        settings.members = random.pick(&[1, 2, 3, 3, 3, 3, 4, 5]);
        let mut cluster = Cluster::new(settings, scenario.config());
        cluster.nodes.values_mut().for_each(|node| node.clock_rate = 900 + random.below(101));
        let (clients, watchers) = (2 + random.below(8), 1 + random.below(4));
        Simulation {
            scenario,
            clients: Clients::new(random.next(), clients, watchers),
            operator: Operator::new(random.next()),
            faults: FaultInjector::new(random.next()),
            random,
            cluster,
            journal,
            counts: Counts::default(),
            fault_counts: FaultCounts::default(),
        }
    }

    /// Runs the steps with faults, heals all faults, and waits until all members are equal.
    fn run(&mut self) -> Checked {
        for _ in 0..self.scenario.steps {
            self.inject_fault()?;
            self.step_operator();
            self.step()?;
        }
        self.heal()?;
        self.settle()
    }

    /// Advances the cluster and its clients by one step.
    pub(crate) fn step(&mut self) -> Checked {
        self.cluster.step();
        self.handle_stopped()?;
        self.end_due_faults()?;
        let reachable =
            Reachable { now: self.cluster.now, servers: self.cluster.servers().collect() };
        self.clients.step(&reachable, &mut self.journal);
        if self.random.chance(1, HASH_STEPS) {
            self.record_hashes();
        }
        if self.random.chance(1, DEFRAGMENT_STEPS)
            && let Some(id) = self.any_member()
            && let Some(server) = self.cluster.nodes[&id].server()
        {
            self.clients.defragment(server, self.cluster.now);
        }
        Ok(())
    }

    /// Records the hashes of all members at the highest revision that a client has seen, for the
    /// checker to compare.
    fn record_hashes(&mut self) {
        let revision = self.clients.revision();
        for server in self.cluster.servers() {
            self.clients.record_hash(server, revision);
        }
    }

    /// Handles members that have stopped by themselves. Fails unless the member was removed or its
    /// disk was made to fail.
    fn handle_stopped(&mut self) -> Checked {
        for (id, reason) in std::mem::take(&mut self.cluster.stopped) {
            self.disconnect_clients(id);
            self.note(|| format!("{id} stopped: {reason}"));
            let node = self.cluster.node(id);
            match reason {
                StopReason::Removed => self.operator.note_removed(id),
                StopReason::Fault(error) if node.is_explained_by_disk_fault(&error) => {
                    if node.has_pending_power_cut {
                        self.lose_power(id);
                    }
                    self.start_later(id);
                }
                other => return Err(format!("{id} stopped unexpectedly: {other}")),
            }
        }
        Ok(())
    }

    /// Schedules the restart of a member.
    pub(crate) fn start_later(&mut self, id: MemberId) {
        let steps = self.random.below(RESTART_STEPS_MAX);
        self.faults.start_at(self.cluster.steps + steps, id);
    }

    /// Cuts the power of a member and disconnects its clients.
    pub(crate) fn lose_power(&mut self, id: MemberId) {
        let (network, seed) = (self.cluster.network.clone(), self.random.next());
        self.disconnect_clients(id);
        self.cluster.node(id).lose_power(&network, seed);
    }

    /// Disconnects the clients and the operator from a member.
    pub(crate) fn disconnect_clients(&mut self, id: MemberId) {
        self.clients.disconnect(id, self.cluster.now, &mut self.journal);
        self.operator.disconnect(id, self.cluster.now, &mut self.journal);
    }

    /// Starts a stopped member. A start that fails because of an injected disk fault is repeated
    /// later.
    pub(crate) fn start(&mut self, id: MemberId) -> Checked {
        let Some(node) = self.cluster.nodes.get(&id) else { return Ok(()) };
        if node.is_running() || self.operator.is_removed(id) {
            return Ok(());
        }
        self.counts.starts += 1;
        let started = self.cluster.try_start(id);
        match started {
            Ok(()) => self.note_started(id),
            Err(error)
                if self.cluster.node(id).is_explained_by_disk_fault(&error_chain(&error)) =>
            {
                self.note(|| format!("{id} did not start: {error}"));
                if self.cluster.node(id).has_pending_power_cut {
                    self.lose_power(id);
                }
                self.cluster.node(id).heal();
                self.start_later(id);
            }
            Err(error) => return Err(format!("{id} does not start: {}", error_chain(&error))),
        }
        Ok(())
    }

    fn note_started(&mut self, id: MemberId) {
        let Some(server) = self.cluster.nodes.get(&id).and_then(Node::server) else { return };
        let (members, applied) = (server.membership(), server.applied());
        let names: Vec<_> = members.ids().map(|id| id.to_string()).collect();
        self.note(|| format!("{id} started: applied {applied}, members {}", names.join(" ")));
    }

    /// Returns a random member, running or not.
    pub(crate) fn any_member(&mut self) -> Option<MemberId> {
        let ids: Vec<_> = self.cluster.nodes.keys().copied().collect();
        self.random.pick_any(&ids)
    }

    /// Adds a line to the journal.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        self.journal.note(self.cluster.now, line);
    }

    /// Runs without new faults and requests until a condition holds, which `what` describes. Fails
    /// if it does not hold within a bounded number of steps.
    pub(crate) fn run_until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Simulation) -> bool,
    ) -> Checked {
        const STEPS_MAX: usize = 12_000;
        for _ in 0..STEPS_MAX {
            if condition(self) {
                return Ok(());
            }
            self.cluster.step();
            self.handle_stopped()?;
            self.end_due_faults()?;
            self.operator.follow_membership(
                &mut self.cluster,
                &mut self.counts,
                self.scenario.config(),
            );
            let reachable =
                Reachable { now: self.cluster.now, servers: self.cluster.servers().collect() };
            self.clients.receive_all(&reachable, &mut self.journal);
            self.clients.step_watchers(&reachable, &mut self.journal);
        }
        Err(format!("not reached in {STEPS_MAX} steps: {what}\n{}", self.cluster.describe()))
    }

    /// Advances the operator by one step.
    fn step_operator(&mut self) {
        let config = self.scenario.config();
        self.operator.step(&mut self.cluster, &mut self.counts, &mut self.journal, config);
    }

    /// Returns all running members.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.cluster.nodes.values().filter_map(Node::server)
    }
}

/// Formats an error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
