//! Crash test: a power cut at any change of the disk, and a disk error at any call.
//!
//! A seed determines a workload: transactions, each with the index of its log entry, mixed with
//! turns of the committer, forced commits, defragmentations and restarts. It runs once to count the
//! disk calls, and then once per call with a fault injected there. The reopened file must hold the
//! state after *some* transaction, no earlier than the last durable one, with exactly that
//! transaction's applied index.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use backend::schema::{Bucket, meta};
use backend::{Backend, BackendView, Config, Read, Sequence};
use env::{Fault, SeededRandom, SimClock, SimDisk};
use types::{Index, Term};

/// Sorted, as the states are.
const BUCKETS: [Bucket; 3] = [Bucket::Members, Bucket::Lease, Bucket::Key];

/// Steps of a workload.
const STEPS: usize = 40;

type Contents = BTreeMap<(Bucket, Vec<u8>), Vec<u8>>;

/// A put, or a delete if the value is `None`.
type Change = (Bucket, Vec<u8>, Option<Vec<u8>>);

#[derive(Clone, Debug)]
enum Step {
    Tx(Vec<Change>),
    Turn,
    ForceCommit,
    Defragment,
    Restart,
}

fn workload(seed: u64) -> Vec<Step> {
    let mut random = SeededRandom::new(seed);
    (0..STEPS)
        .map(|_| match random.below(20) {
            0..12 => Step::Tx(changes(&mut random)),
            12..16 => Step::Turn,
            16..18 => Step::ForceCommit,
            18 => Step::Defragment,
            _ => Step::Restart,
        })
        .collect()
}

fn changes(random: &mut SeededRandom) -> Vec<Change> {
    let change = |random: &mut SeededRandom| {
        let bucket = BUCKETS[usize::try_from(random.below(3)).unwrap()];
        let key = format!("key {:02}", random.below(30)).into_bytes();
        let len = if random.chance(1, 8) { random.below(3000) } else { random.below(100) };
        let byte = u8::try_from(random.below(256)).unwrap();
        let value = (!random.chance(1, 4)).then(|| vec![byte; usize::try_from(len).unwrap()]);
        (bucket, key, value)
    };
    (0..=random.below(5)).map(|_| change(random)).collect()
}

/// Small pages and little growth, so that a commit touches many pages and a power cut copies
/// little.
fn config() -> Config {
    let mut config = Config::default();
    config.bolt.page_size = 1024;
    config.bolt.grow_bytes = 8 << 10;
    config
}

fn open(disk: &SimDisk) -> Result<Backend, backend::OpenError> {
    let (disk, clock) = (Arc::new(disk.clone()), Arc::new(SimClock::default()));
    Backend::open(disk, clock, Path::new("db"), config())
}

/// State of a run.
struct Run {
    /// The state after each transaction; the applied index is the position in this list.
    states: Vec<Contents>,
    /// The last durable transaction.
    durable: usize,
    /// The applied index when the file was last opened.
    base: usize,
    backend: Option<Backend>,
}

/// A disk call has failed.
#[derive(Debug)]
struct DiskFailed;

impl Run {
    /// Runs until the end or the first error.
    fn new(disk: &SimDisk, steps: &[Step]) -> (Run, Result<(), DiskFailed>) {
        let mut run = Run { states: vec![Contents::new()], durable: 0, base: 0, backend: None };
        let outcome = run.run_steps(disk, steps);
        (run, outcome)
    }

    fn run_steps(&mut self, disk: &SimDisk, steps: &[Step]) -> Result<(), DiskFailed> {
        self.restart(disk)?;
        for step in steps {
            self.step(disk, step)?;
        }
        Ok(())
    }

    fn step(&mut self, disk: &SimDisk, step: &Step) -> Result<(), DiskFailed> {
        match step {
            Step::Tx(changes) => self.tx(changes)?,
            Step::Turn => drop(self.backend().committer().turn().map_err(|_| DiskFailed)?),
            Step::ForceCommit => self.force_commit()?,
            // A failed defragmentation changes nothing, unless its rename may not be durable; then
            // commits fail.
            Step::Defragment => match self.backend().defragment() {
                Ok(_) => {}
                Err(_) => self.force_commit()?,
            },
            Step::Restart => self.restart(disk)?,
        }
        self.note_durable();
        Ok(())
    }

    fn force_commit(&mut self) -> Result<(), DiskFailed> {
        self.backend().force_commit().map_err(|_| DiskFailed)?;
        self.note_durable();
        assert_eq!(self.durable, self.states.len() - 1, "everything");
        Ok(())
    }

    fn tx(&mut self, changes: &[Change]) -> Result<(), DiskFailed> {
        let mut after = self.states.last().unwrap().clone();
        let mut tx = self.backend().begin();
        for (bucket, key, value) in changes {
            match value {
                Some(value) => {
                    tx.put(*bucket, key.clone(), value.clone()).unwrap();
                    after.insert((*bucket, key.clone()), value.clone());
                }
                None => {
                    tx.delete(*bucket, key.clone());
                    after.remove(&(*bucket, key.clone()));
                }
            }
        }
        tx.set_applied(Index(self.states.len() as u64), Term(3));
        let sequence = tx.commit().map_err(|_| DiskFailed)?;
        assert_eq!(sequence, Sequence((self.states.len() - self.base) as u64));
        self.states.push(after);
        Ok(())
    }

    /// Reopens the file without committing pending writes.
    fn restart(&mut self, disk: &SimDisk) -> Result<(), DiskFailed> {
        self.backend = None;
        let backend = open(disk).map_err(|_| DiskFailed)?;
        self.base = self.found(&backend.view());
        assert_eq!(self.base, self.durable, "without a fault, exactly the durable state is found");
        self.states.truncate(self.base + 1);
        self.backend = Some(backend);
        Ok(())
    }

    fn note_durable(&mut self) {
        if let Some(backend) = &self.backend {
            self.durable = self.base + usize::try_from(backend.durable().0).unwrap();
        }
    }

    fn backend(&self) -> &Backend {
        self.backend.as_ref().expect("the backend is open until an error ends the run")
    }

    /// Identifies the state that a view shows by its applied index, and asserts that it is equal
    /// byte for byte.
    fn found(&self, view: &BackendView) -> usize {
        let (Index(index), term) = meta::applied(view).unwrap();
        assert_eq!(term, Term(if index == 0 { 0 } else { 3 }));
        let index = usize::try_from(index).unwrap();
        assert!(index < self.states.len(), "index {index} of {}", self.states.len() - 1);
        let mut expected = self.states[index].iter();
        for bucket in BUCKETS {
            for item in view.all(bucket).unwrap() {
                let item = item.unwrap();
                let found = ((bucket, item.key.to_vec()), item.value.to_vec());
                let wanted = expected.next().map(|(key, value)| (key.clone(), value.clone()));
                assert_eq!(Some(found), wanted, "the state after transaction {index}");
            }
        }
        assert_eq!(expected.next(), None, "the state after transaction {index}");
        index
    }

    /// Checks the state that is left, and continues from there.
    fn check_left(&mut self, disk: &SimDisk, writes_again: bool) {
        self.backend = None;
        let backend = open(disk).unwrap();
        let index = self.found(&backend.view());
        assert!(
            index >= self.durable,
            "lost a durable transaction: found {index}, durable {}",
            self.durable
        );
        assert_eq!(backend.snapshot().unwrap().check(), []);
        if writes_again {
            let mut tx = backend.begin();
            tx.put(Bucket::Alarm, "after", "all").unwrap();
            tx.set_applied(Index(index as u64 + 1), Term(4));
            tx.commit().unwrap();
            backend.force_commit().unwrap();
            drop(backend);
            let backend = open(disk).unwrap();
            assert_eq!(meta::applied(&backend.view()).unwrap(), (Index(index as u64 + 1), Term(4)));
            let found = backend.view().get(Bucket::Alarm, b"after").unwrap().map(|v| v.to_vec());
            assert_eq!(found.as_deref(), Some(&b"all"[..]));
        }
    }

    /// Asserts that after a failed commit writes are refused and reads succeed.
    fn check_refused(&self) {
        let Some(backend) = &self.backend else { return };
        assert_eq!(self.found(&backend.view()), self.states.len() - 1);
        let mut tx = backend.begin();
        tx.put(Bucket::Alarm, "after", "all").unwrap();
        assert!(tx.commit().is_err());
        assert!(backend.force_commit().is_err());
        assert!(backend.committer().turn().is_err());
        assert_eq!(self.found(&backend.view()), self.states.len() - 1);
    }
}

#[test]
fn a_power_cut_at_any_change_leaves_the_state_after_some_transaction() {
    const CUTS: u64 = 4;
    let mut points = 0;
    for seed in 0..seeds() {
        let steps = workload(seed);
        let whole = SimDisk::new(seed);
        assert!(Run::new(&whole, &steps).1.is_ok());
        for change in 0..whole.calls().changes() {
            let disk = SimDisk::new(seed);
            disk.fail_change(change, Fault::Crash);
            let (mut run, outcome) = Run::new(&disk, &steps);
            // A failure to remove a temporary file is ignored, so not every run is stopped.
            if outcome.is_err() {
                run.check_refused();
            }
            for cut in 0..CUTS {
                run.check_left(&disk.power_cut(cut ^ change), cut == 0);
            }
            points += 1;
        }
    }
    assert!(points >= seeds() * 60, "only {points} crash points");
}

/// Number of workloads; `BOWLINE_CRASH_SEEDS` overrides it.
fn seeds() -> u64 {
    const SEEDS: u64 = 60;
    std::env::var("BOWLINE_CRASH_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

#[test]
fn disk_errors_stop_writes_and_lose_no_durable_transaction() {
    const WORKLOADS: u64 = 4;
    let mut stopped = 0;
    for seed in 0..WORKLOADS {
        let steps = workload(100 + seed);
        let whole = SimDisk::new(seed);
        assert!(Run::new(&whole, &steps).1.is_ok());
        for call in 0..whole.calls().all() {
            for (fault, lasting) in
                [(Fault::Eio, false), (Fault::Enospc, false), (Fault::Eio, true)]
            {
                let disk = SimDisk::new(seed);
                match lasting {
                    true => disk.fail_from_call(call, fault),
                    false => disk.fail_call(call, fault),
                }
                let (mut run, outcome) = Run::new(&disk, &steps);
                if outcome.is_err() {
                    stopped += 1;
                    run.check_refused();
                }
                disk.heal();
                run.check_left(&disk, true);
            }
        }
    }
    assert!(stopped > 1000, "only {stopped} runs were stopped");
}

#[test]
fn a_full_disk_stops_writes_until_a_restart_with_space() {
    let steps = workload(7);
    let whole = SimDisk::new(7);
    assert!(Run::new(&whole, &steps).1.is_ok());
    let size = whole.contents("db").unwrap().len() as u64;
    let mut stopped = 0;
    for capacity in (0..=2 * size).step_by(512) {
        let disk = SimDisk::new(7);
        disk.set_capacity(Some(capacity));
        let (mut run, outcome) = Run::new(&disk, &steps);
        if outcome.is_err() {
            stopped += 1;
            run.check_refused();
        }
        disk.set_capacity(None);
        run.check_left(&disk, true);
    }
    assert!(stopped > 10, "only {stopped} runs were stopped");
}
