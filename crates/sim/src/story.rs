//! What a cluster goes through, from a seed: clients at work, members that come and go, and whatever goes wrong; then all is healed, and looked at.
//!
//! ```text
//!   step     1 … 150            …  3000              …  4200
//!            begins, elects        last mishap,         everybody has written through every member;
//!            one                   all is healed        members are equal; the history is judged
//! ```
//!
//! What is demanded is in `judge`; what goes wrong, in `trouble`; who comes and goes, in `operator`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use env::SeededRandom;
use history::History;
use server::planted_bug::{self, PlantedBug};
use server::{Server, ServerConfig, StopReason};
use types::MemberId;

use crate::client::{Clients, Reach};
use crate::cluster::{Cluster, Settings};
use crate::journal::Journal;
use crate::operator::Operator;
use crate::site::Site;
use crate::trouble::{Mishap, Trouble};

/// Out of this many steps, members are compared in one.
const COMPARE_STEPS: u64 = 150;
/// Likewise one of them is defragmented.
const DEFRAGMENT_STEPS: u64 = 400;
/// A member that has ended comes back after this many steps, at most.
const BACK_STEPS: u64 = 300;

/// What a cluster is to go through.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// What everything follows from.
    pub seed: u64,
    /// How many steps until all is healed.
    pub steps: u64,
    /// A mistake that all members make, if they are to.
    pub plant: Option<PlantedBug>,
}

/// What came of it.
#[derive(Debug)]
pub struct Told {
    /// All that happened, as a number.
    pub digest: u64,
    /// What clients saw.
    pub history: History,
    /// How much of what there was.
    pub counts: Counts,
}

/// How much of what there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say what they count")]
pub struct Counts {
    pub steps: u64,
    /// By kind, in the order of [`Mishap::ALL`].
    pub mishaps: [u64; Mishap::ALL.len()],
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
        self.mishaps.iter_mut().zip(other.mishaps).for_each(|(count, more)| *count += more);
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

/// A story that did not end well.
#[derive(Debug)]
pub struct Failure {
    /// Which.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
    /// What happened, if that was kept.
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

impl Story {
    /// The ordinary length.
    pub const STEPS: u64 = 4000;

    /// The story of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Story {
        Story { seed, steps: Story::STEPS, plant: None }
    }

    /// Goes through it.
    ///
    /// # Errors
    /// Something was not as it must be.
    pub fn tell(&self) -> Result<Told, Failure> {
        self.tell_to(Journal::default())
    }

    /// Goes through it, and keeps what happened.
    ///
    /// # Errors
    /// As for [`Story::tell`].
    pub fn tell_in_detail(&self) -> Result<Told, Failure> {
        self.tell_to(Journal::kept())
    }

    fn tell_to(&self, journal: Journal) -> Result<Told, Failure> {
        planted_bug::plant(self.plant);
        let mut world = World::new(*self, journal);
        // A member that panics has found something itself.
        let end = catch_unwind(AssertUnwindSafe(|| world.go())).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        });
        let failure = |what, world: &World| Failure {
            seed: self.seed,
            what,
            journal: world.journal.lines().to_vec(),
        };
        end.map_err(|what| failure(what, &world))?;
        world.judge().map_err(|(what, journal)| Failure { seed: self.seed, what, journal })
    }

    /// How members behave: whatever happens seldom elsewhere happens often here.
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

/// All there is.
pub(crate) struct World {
    pub(crate) story: Story,
    pub(crate) random: SeededRandom,
    pub(crate) cluster: Cluster,
    pub(crate) clients: Clients,
    pub(crate) operator: Operator,
    pub(crate) trouble: Trouble,
    pub(crate) journal: Journal,
    pub(crate) counts: Counts,
}

/// What must not be, if it is.
pub(crate) type Demand = Result<(), String>;

impl World {
    fn new(story: Story, journal: Journal) -> World {
        let mut random = SeededRandom::new(story.seed.wrapping_mul(7919));
        let mut settings = Settings::new(random.next());
        settings.members = [1, 2, 3, 3, 3, 3, 4, 5][usize::try_from(random.below(8)).unwrap_or(0)];
        let mut cluster = Cluster::new(settings, story.config());
        cluster.sites.values_mut().for_each(|site| site.pace = 900 + random.below(101));
        let (clients, watchers) = (2 + random.below(8), 1 + random.below(4));
        World {
            story,
            clients: Clients::new(random.next(), clients, watchers),
            operator: Operator::new(random.next()),
            trouble: Trouble::new(random.next()),
            random,
            cluster,
            journal,
            counts: Counts::default(),
        }
    }

    /// All of it, up to the moment at which everything is healed and equal.
    fn go(&mut self) -> Demand {
        for _ in 0..self.story.steps {
            self.mishaps()?;
            self.operate();
            self.step()?;
        }
        self.heal()?;
        self.settle()
    }

    /// Something happens in the cluster, and to clients.
    pub(crate) fn step(&mut self) -> Demand {
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
            && let Some(server) = self.cluster.sites[&id].server()
        {
            self.clients.defragment(server, self.cluster.now);
        }
        Ok(())
    }

    /// The hashes of all members, as of some revision, whoever has it.
    fn compare(&mut self) {
        let revision = self.clients.revision();
        for server in self.cluster.servers() {
            self.clients.note_hash(server, revision);
        }
    }

    /// Members that have ended by themselves: those that may, and others.
    fn bury(&mut self) -> Demand {
        for (id, reason) in std::mem::take(&mut self.cluster.ended) {
            self.lose(id);
            self.note(|| format!("{id} ended: {reason}"));
            let site = self.cluster.site(id);
            match reason {
                StopReason::Removed => self.operator.leave(id),
                StopReason::Fault(why) if site.excuses(&why) => {
                    if site.is_off {
                        self.lose_power(id);
                    }
                    self.start_later(id);
                }
                other => return Err(format!("{id} ended by itself: {other}")),
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
        self.cluster.site(id).lose_power(&network, seed);
    }

    /// Clients lose a member.
    pub(crate) fn lose(&mut self, id: MemberId) {
        self.clients.lose(id, self.cluster.now, &mut self.journal);
        self.operator.lose(id, self.cluster.now, &mut self.journal);
    }

    /// Starts a member that does not run, if it starts.
    pub(crate) fn start(&mut self, id: MemberId) -> Demand {
        let Some(site) = self.cluster.sites.get(&id) else { return Ok(()) };
        if site.is_running() || self.operator.has_left(id) {
            return Ok(());
        }
        self.counts.starts += 1;
        let started = self.cluster.try_start(id);
        match started {
            Ok(()) => self.note_started(id),
            Err(error) if self.cluster.site(id).excuses(&words(&error)) => {
                self.note(|| format!("{id} did not start: {error}"));
                if self.cluster.site(id).is_off {
                    self.lose_power(id);
                }
                self.cluster.site(id).heal();
                self.start_later(id);
            }
            Err(error) => return Err(format!("{id} does not start: {}", words(&error))),
        }
        Ok(())
    }

    fn note_started(&mut self, id: MemberId) {
        let Some(server) = self.cluster.sites.get(&id).and_then(Site::server) else { return };
        let (members, applied) = (server.state().cluster.now(), server.applied());
        let names: Vec<_> = members.ids().map(|id| id.to_string()).collect();
        self.note(|| format!("{id} started: applied {applied}, members {}", names.join(" ")));
    }

    /// Any member, whether it runs or not.
    pub(crate) fn any_member(&mut self) -> Option<MemberId> {
        let ids: Vec<_> = self.cluster.sites.keys().copied().collect();
        let place = usize::try_from(self.random.below(ids.len().max(1) as u64)).unwrap_or(0);
        ids.get(place).copied()
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        self.journal.note(self.cluster.now, what);
    }

    /// Goes on until something is so.
    pub(crate) fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut World) -> bool,
    ) -> Demand {
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
        Err(format!("it does not come to pass: {what}\n{}", self.cluster.describe()))
    }

    /// The operator changes who is a member, now and then.
    fn operate(&mut self) {
        let config = self.story.config();
        self.operator.step(&mut self.cluster, &mut self.counts, &mut self.journal, config);
    }

    /// All that run.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.cluster.sites.values().filter_map(Site::server)
    }
}

/// An error, with all that it comes from.
fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
