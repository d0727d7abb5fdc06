//! A power cut at any change of the disk: what is found is the state after some entry, and the log leads on from there.
//!
//! ```text
//!   log      1  2  3  4  5  6  7  8  9 ...
//!   run      a  a  a  C  a  a  k  a  C  ✗        a: an entry is applied, k: a turn of compaction, C: a commit to the file
//!   found    ──────3 or 7──►                     with all that entries up to there did, and nothing else
//!   replay              4 or 8 ... ──► the same as if the power had never gone
//! ```
//!
//! A seed gives a log and when things are done. It is run once to count the changes of the disk, and then again for each of them with the
//! power lost at it. How far compactions have come is nobody's promise, so they are finished before anything is compared.
//!
//! A thread commits when it likes, also while an entry is being applied. So half of the runs commit in the midst of every entry that they can be called
//! from, and let nothing be pending: whatever is a transaction of its own becomes durable on its own.

use anyhow::bail;
use env::{Fault, SeededRandom, SimDisk};
use raft::Entry;
use server::Applied;

use crate::support::{Member, Observed, Setup, Workload};

/// Power cuts drawn from each moment.
const CUTS: u64 = 3;
/// Workloads, unless the environment asks for another number.
const SEEDS: u64 = 12;
/// Power cuts that an ordinary run must have made.
const CUTS_MIN: u64 = 5_000;
/// Entries of a log.
const ENTRIES: usize = 45;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Apply,
    Commit,
    Compact,
    Restart,
}

/// What a member is to go through.
pub(crate) struct Story {
    log: Workload,
    steps: Vec<Step>,
    /// Whether every transaction is committed by itself.
    eager: bool,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut random = SeededRandom::new(!seed);
        let step = |random: &mut SeededRandom| match random.below(40) {
            0..24 => Step::Apply,
            24..32 => Step::Compact,
            32..39 => Step::Commit,
            _ => Step::Restart,
        };
        let steps = (0..2 * ENTRIES).map(|_| step(&mut random)).collect();
        let eager = random.chance(1, 2);
        Story { log: Workload::new(seed, ENTRIES), steps, eager }
    }

    fn setup(&self) -> Setup {
        let pending_bytes_max = if self.eager { 0 } else { Setup::DEFAULT.pending_bytes_max };
        Setup { pending_bytes_max, ..Setup::DEFAULT }
    }

    /// Goes through it on a disk, until the end or the first error.
    fn tell(&self, disk: &SimDisk) -> (Run<'_>, anyhow::Result<()>) {
        let mut run = Run { story: self, member: None, durable: 0, applied: 0 };
        let told = run.go(disk);
        (run, told)
    }
}

/// How far a run has come.
struct Run<'s> {
    story: &'s Story,
    /// None if it could not even be opened.
    member: Option<Member>,
    /// The last entry that was said to be durable.
    durable: usize,
    /// The last entry that was applied.
    applied: usize,
}

impl Run<'_> {
    fn go(&mut self, disk: &SimDisk) -> anyhow::Result<()> {
        self.member = Some(Member::open(disk, self.story.setup())?);
        self.story.steps.iter().try_for_each(|step| self.step(*step))
    }

    fn step(&mut self, step: Step) -> anyhow::Result<()> {
        match step {
            Step::Apply => self.apply(),
            Step::Commit => {
                self.machine().backend.committer().turn()?;
                self.durable = self.applied;
                Ok(())
            }
            Step::Compact => {
                self.machine().store.turn_compaction()?;
                Ok(())
            }
            Step::Restart => self.restart(),
        }
    }

    fn apply(&mut self) -> anyhow::Result<()> {
        let Some(entry) = self.story.log.entries.get(self.applied) else { return Ok(()) };
        let Member { machine, voters, .. } =
            self.member.as_mut().expect("open until an error ends the run");
        let waits = |_| {
            if self.story.eager {
                // If it fails, so does the entry.
                let _ = machine.backend.committer().turn();
            }
            true
        };
        machine.apply(entry, &waits, voters)?;
        self.applied += 1;
        Ok(())
    }

    /// Only what is not durable is forgotten: no power was lost.
    fn restart(&mut self) -> anyhow::Result<()> {
        let member = self.member.take().expect("open until an error ends the run").restart()?;
        let found = applied(&member);
        let wanted = if self.story.eager {
            self.durable..=self.applied
        } else {
            self.durable..=self.durable
        };
        assert!(wanted.contains(&found), "{found} found, {wanted:?} were durable");
        (self.applied, self.durable) = (found, found);
        self.member = Some(member);
        Ok(())
    }

    fn machine(&self) -> &server::StateMachine {
        &self.member.as_ref().expect("open until an error ends the run").machine
    }

    /// After a commit that failed nothing more is applied.
    fn assert_stopped(&mut self) {
        let Some(member) = &mut self.member else { return };
        let next = member.next_raw(raft::EntryType::Normal, Vec::new());
        let stopped = matches!(member.apply(&next), Err(server::Fault::Commit(_)));
        assert!(stopped, "an entry was applied after a commit that failed");
    }

    /// Looks at what a machine finds that starts again, and lets the log go on.
    fn assert_recovered(&self, disk: &SimDisk, when: &str, go_on: bool) {
        let mut member = Member::open(disk, Setup::default()).expect(when);
        let (log, found) = (&self.story.log, applied(&member));
        assert!(found >= self.durable, "{when}: lost {found} of {}", self.durable);
        assert!(found <= self.applied, "{when}: {found} found, {} were applied", self.applied);
        let revision = member.machine.store.current();
        assert_eq!(revision, log.states[found].answers.current, "{when}: revision at a start");
        assert_again_changes_nothing(&mut member, &log.entries[..found]);
        member.finish_compactions();
        Observed::of(&member.machine).assert_same(&log.states[found], &when);
        if go_on {
            replay(&mut member, &log.entries);
            let last = log.states.last().expect("there is one more than entries");
            Observed::of(&member.machine).assert_same(last, &format!("{when}, and on"));
        }
    }
}

/// The last entry that a member has applied.
fn applied(member: &Member) -> usize {
    usize::try_from(member.applied().0.0).expect("a short log")
}

/// Applies what is missing, and finishes compactions.
fn replay(member: &mut Member, entries: &[Entry]) {
    for entry in &entries[applied(member)..] {
        member.apply(entry).expect("an entry that was applied before");
        member.turn_compaction();
    }
    member.finish_compactions();
}

/// The log is read from its last snapshot on, so entries come again that the database has.
fn assert_again_changes_nothing(member: &mut Member, entries: &[Entry]) {
    const AGAIN_MAX: usize = 5;
    let before = member.machine.backend.view().sequence();
    for entry in entries.iter().rev().take(AGAIN_MAX).rev() {
        let again = member.apply(entry).expect("an entry that was applied before");
        assert!(matches!(again, Applied::AlreadyApplied), "{again:?}");
    }
    assert_eq!(member.machine.backend.view().sequence(), before);
    assert_eq!(member.voters.heard, [], "consensus has heard of these changes");
}

fn seeds() -> u64 {
    std::env::var("BOWLINE_CRASH_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_power_cut_at_any_change_leaves_the_state_after_some_entry() {
    let mut cuts = 0;
    for seed in 0..seeds() {
        let story = Story::new(seed);
        let whole = SimDisk::new(seed);
        let (run, told) = story.tell(&whole);
        told.unwrap();
        drop(run);
        for change in 0..whole.calls().changes() {
            let disk = SimDisk::new(seed);
            disk.fail_change(change, Fault::Crash);
            let (mut run, told) = story.tell(&disk);
            if told.is_err() {
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

/// A member under load that loses power again and again holds what one holds that never did.
#[test]
fn crash_under_load_keeps_members_the_same_13766() {
    const LOADS: u64 = 40;
    const ENTRIES: usize = 80;
    let mut crashes = 0;
    for seed in 0..LOADS {
        let log = Workload::new(1_000 + seed, ENTRIES);
        let mut random = SeededRandom::new(seed);
        let mut disk = SimDisk::new(seed);
        let mut durable = 0;
        loop {
            disk.fail_change(random.below(50), Fault::Crash);
            match carry_load(&disk, &log, &mut random, &mut durable) {
                Ok(member) => {
                    let last = log.states.last().unwrap();
                    Observed::of(&member.machine).assert_same(last, &format!("load {seed}"));
                    break;
                }
                Err(_) => disk = disk.power_cut(random.next()),
            }
            crashes += 1;
        }
    }
    assert!(crashes > 100, "only {crashes} crashes");
}

/// Applies all there is, committing now and then, until the power fails.
fn carry_load(
    disk: &SimDisk,
    log: &Workload,
    random: &mut SeededRandom,
    durable: &mut usize,
) -> anyhow::Result<Member> {
    let mut member = Member::open(disk, Setup::default())?;
    let found = applied(&member);
    assert!(found >= *durable, "{found} found, {durable} was durable");
    for entry in &log.entries[found..] {
        member.apply(entry)?;
        for _ in 0..random.below(3) {
            member.machine.store.turn_compaction()?;
        }
        if random.chance(1, 4) {
            member.machine.backend.committer().turn()?;
            *durable = applied(&member);
        }
    }
    disk.heal();
    if member.machine.backend.failure().is_some() {
        bail!("the power failed");
    }
    member.finish_compactions();
    Ok(member)
}
