//! A power cut at any disk operation (write, sync, create, rename, removal): recovery finds the
//! state after some entry, and the log continues from there.
//!
//! ```text
//!   log      1  2  3  4  5  6  7  8  9 ...
//!   run      a  a  a  C  a  a  k  a  C  ✗      a: apply, k: turn of compaction, C: commit
//!   found    ──────3 or 7──►                   the effects of all entries up to it, no others
//!   replay              4 or 8 ... ──►         the same state as without a power cut
//! ```
//!
//! A seed determines a log and a schedule. The first run counts the disk operations; one more run
//! for each of them cuts the power there. The progress of compactions is not guaranteed, so they
//! are finished before states are compared.
//!
//! The commit thread may commit at any time, also while an entry is applied. So half of the
//! scenarios are eager: they commit while applying every entry that checks for a waiter, and keep
//! no batch pending, so that each backend transaction becomes durable separately.

use anyhow::bail;
use env::{Fault, SeededRandom, SimDisk};
use raft::Entry;
use server::Applied;
use testkit::waiting::step_until;

use crate::support::{Member, Observed, Setup, Workload};

/// Power cuts per disk operation, each losing different unsynced writes.
const CUTS: u64 = 3;
/// Number of scenarios; `BOWLINE_CRASH_SEEDS` overrides it.
const SEEDS: u64 = 12;
/// Minimum number of power cuts of a default run.
const CUTS_MIN: u64 = 5_000;
/// Generated entries per log.
const ENTRIES: usize = 45;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Apply,
    Commit,
    Compact,
    Restart,
}

/// A log, and the steps of a member that applies it.
pub(crate) struct Scenario {
    log: Workload,
    steps: Vec<Step>,
    /// Whether each backend transaction is committed separately.
    eager: bool,
}

impl Scenario {
    fn new(seed: u64) -> Scenario {
        let mut random = SeededRandom::new(!seed);
        let step = |random: &mut SeededRandom| match random.below(40) {
            0..24 => Step::Apply,
            24..32 => Step::Compact,
            32..39 => Step::Commit,
            _ => Step::Restart,
        };
        let steps = (0..2 * ENTRIES).map(|_| step(&mut random)).collect();
        let eager = random.chance(1, 2);
        Scenario { log: Workload::new(seed, ENTRIES), steps, eager }
    }

    fn setup(&self) -> Setup {
        let pending_bytes_max = if self.eager { 0 } else { Setup::DEFAULT.pending_bytes_max };
        Setup { pending_bytes_max, ..Setup::DEFAULT }
    }

    /// Runs the scenario on a disk until its end or the first error.
    fn run(&self, disk: &SimDisk) -> (Run<'_>, anyhow::Result<()>) {
        let mut run = Run { scenario: self, member: None, durable: 0, applied: 0 };
        let result = run.execute(disk);
        (run, result)
    }
}

/// Progress of a run.
struct Run<'s> {
    scenario: &'s Scenario,
    /// None if the member could not be opened.
    member: Option<Member>,
    /// The last entry that is known to be durable.
    durable: usize,
    /// The last applied entry.
    applied: usize,
}

impl Run<'_> {
    fn execute(&mut self, disk: &SimDisk) -> anyhow::Result<()> {
        self.member = Some(Member::open(disk, self.scenario.setup())?);
        self.scenario.steps.iter().try_for_each(|step| self.step(*step))
    }

    fn step(&mut self, step: Step) -> anyhow::Result<()> {
        match step {
            Step::Apply => self.apply(),
            Step::Commit => {
                self.machine().backend().committer().turn()?;
                self.durable = self.applied;
                Ok(())
            }
            Step::Compact => {
                self.machine().store().turn_compaction()?;
                Ok(())
            }
            Step::Restart => self.restart(),
        }
    }

    fn apply(&mut self) -> anyhow::Result<()> {
        let Some(entry) = self.scenario.log.entries.get(self.applied) else { return Ok(()) };
        let Member { machine, voters, .. } =
            self.member.as_mut().expect("open until an error ends the run");
        let waits = |_| {
            if self.scenario.eager {
                // If the commit fails, so does the entry.
                let _ = machine.backend().committer().turn();
            }
            true
        };
        machine.apply(entry, &waits, voters)?;
        self.applied += 1;
        Ok(())
    }

    /// Restarts without a power cut: only the pending batch is lost.
    fn restart(&mut self) -> anyhow::Result<()> {
        let member = self.member.take().expect("open until an error ends the run").restart()?;
        let found = applied(&member);
        let wanted = if self.scenario.eager {
            self.durable..=self.applied
        } else {
            self.durable..=self.durable
        };
        assert!(wanted.contains(&found), "expected entry {wanted:?} after a restart, got {found}");
        (self.applied, self.durable) = (found, found);
        self.member = Some(member);
        Ok(())
    }

    fn machine(&self) -> &server::StateMachine {
        &self.member.as_ref().expect("open until an error ends the run").machine
    }

    /// Checks that nothing is applied after a failed commit.
    fn assert_stopped(&mut self) {
        let Some(member) = &mut self.member else { return };
        let next = member.next_raw(raft::EntryType::Normal, Vec::new());
        let stopped = matches!(member.apply(&next), Err(server::Fault::Commit(_)));
        assert!(stopped, "an entry was applied after a failed commit");
    }

    /// Checks the member that recovers from a disk, and optionally replays the rest of the log.
    fn assert_recovered(&self, disk: &SimDisk, when: &str, replay_rest: bool) {
        let mut member = Member::open(disk, Setup::default()).expect(when);
        let (log, found) = (&self.scenario.log, applied(&member));
        assert!(
            found >= self.durable,
            "{when}: entries up to {} were durable, found {found}",
            self.durable
        );
        assert!(
            found <= self.applied,
            "{when}: found entry {found}, only {} applied",
            self.applied
        );
        let revision = member.machine.store().current();
        assert_eq!(revision, log.states[found].memory.current, "{when}: revision after recovery");
        assert_applied_entries_are_skipped(&mut member, &log.entries[..found]);
        member.finish_compactions();
        Observed::of(&member.machine).assert_same(&log.states[found], &when);
        if replay_rest {
            replay(&mut member, &log.entries);
            let last = log.states.last().expect("one state more than entries");
            Observed::of(&member.machine).assert_same(last, &format!("{when}, after replay"));
        }
    }
}

/// Index of the last applied entry.
fn applied(member: &Member) -> usize {
    usize::try_from(member.applied().0.0).expect("a short log")
}

/// Applies the missing entries and finishes compactions.
fn replay(member: &mut Member, entries: &[Entry]) {
    for entry in &entries[applied(member)..] {
        member.apply(entry).expect("an entry that was applied before");
        member.turn_compaction();
    }
    member.finish_compactions();
}

/// Checks that entries which the database contains are skipped. A restart replays them, because the
/// log is read from the last snapshot on.
fn assert_applied_entries_are_skipped(member: &mut Member, entries: &[Entry]) {
    const REPEATED_MAX: usize = 5;
    let before = member.machine.backend().view().sequence();
    for entry in entries.iter().rev().take(REPEATED_MAX).rev() {
        let again = member.apply(entry).expect("an entry that was applied before");
        assert!(matches!(again, Applied::AlreadyApplied), "{again:?}");
    }
    assert_eq!(member.machine.backend().view().sequence(), before);
    assert_eq!(member.voters.changes, [], "skipped conf changes reached consensus");
}

fn seeds() -> u64 {
    std::env::var("BOWLINE_CRASH_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_power_cut_at_any_disk_operation_leaves_the_state_after_some_entry() {
    let mut cuts = 0;
    for seed in 0..seeds() {
        let scenario = Scenario::new(seed);
        let whole = SimDisk::new(seed);
        let (run, result) = scenario.run(&whole);
        result.unwrap();
        drop(run);
        for change in 0..whole.calls().changes() {
            let disk = SimDisk::new(seed);
            disk.fail_change(change, Fault::Crash);
            let (mut run, result) = scenario.run(&disk);
            if result.is_err() {
                run.assert_stopped();
            }
            for cut in 0..CUTS {
                let when = format!("seed {seed}, change {change}, cut {cut}");
                run.assert_recovered(&disk.power_cut(cut ^ change), &when, cut == 0);
                cuts += 1;
            }
        }
    }
    assert!(cuts >= CUTS_MIN.min(seeds() * 100), "only {cuts} cuts");
}

/// A member that repeatedly loses power under load reaches the same state as one that never does.
#[test]
fn repeated_crashes_under_load_do_not_change_the_state_13766() {
    const LOADS: u64 = 40;
    const ENTRIES: usize = 80;
    let mut crashes = 0;
    for seed in 0..LOADS {
        let log = Workload::new(1_000 + seed, ENTRIES);
        let mut random = SeededRandom::new(seed);
        let mut disk = SimDisk::new(seed);
        let mut durable = 0;
        step_until("the whole log is applied", || {
            disk.fail_change(random.below(50), Fault::Crash);
            match apply_until_crash(&disk, &log, &mut random, &mut durable) {
                Ok(member) => {
                    let last = log.states.last().unwrap();
                    Observed::of(&member.machine).assert_same(last, &format!("load {seed}"));
                    true
                }
                Err(_) => {
                    disk = disk.power_cut(random.next());
                    crashes += 1;
                    false
                }
            }
        });
    }
    assert!(crashes > 100, "only {crashes} crashes");
}

/// Applies the log with occasional commits until the power is cut.
fn apply_until_crash(
    disk: &SimDisk,
    log: &Workload,
    random: &mut SeededRandom,
    durable: &mut usize,
) -> anyhow::Result<Member> {
    let mut member = Member::open(disk, Setup::default())?;
    let found = applied(&member);
    assert!(found >= *durable, "entries up to {durable} were durable, found {found}");
    for entry in &log.entries[found..] {
        member.apply(entry)?;
        for _ in 0..random.below(3) {
            member.machine.store().turn_compaction()?;
        }
        if random.chance(1, 4) {
            member.machine.backend().committer().turn()?;
            *durable = applied(&member);
        }
    }
    disk.heal();
    if member.machine.backend().failure().is_some() {
        bail!("power cut");
    }
    member.finish_compactions();
    Ok(member)
}
