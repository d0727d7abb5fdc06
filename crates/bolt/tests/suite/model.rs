//! After any transactions, the file holds the same as a nested `BTreeMap`.

use bolt::{Db, Options, Snapshot};
use env::{SeededRandom, SimDisk};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::support::contents::Contents;
use crate::support::ops::{BUCKETS, Op, Workload};
use crate::support::verify::{verify, verify_size};
use crate::support::{FILE, assert_consistent, open, options};

/// Commits between two full checks.
const CHECK_EVERY: u64 = 4;
/// Maximum number of states held while the file changes.
const HELD_MAX: usize = 6;

/// A database, its model, and snapshots that are still read.
struct Run {
    disk: SimDisk,
    options: Options,
    db: Option<Db>,
    model: Contents,
    held: Vec<(Snapshot, Contents)>,
    random: SeededRandom,
    commits: u64,
}

impl Run {
    fn new(seed: u64, options: Options) -> Run {
        let disk = SimDisk::new(seed);
        let db = Some(open(&disk, &options).unwrap());
        let random = SeededRandom::new(seed ^ 0x5eed);
        Run { disk, options, db, model: Contents::default(), held: Vec::new(), random, commits: 0 }
    }

    /// Applies changes, and commits them if `commit` is set.
    fn transaction(&mut self, ops: &[Op], commit: bool) {
        let db = self.db.as_ref().unwrap();
        let mut tx = db.write().unwrap();
        let mut model = self.model.clone();
        let look_at = usize::try_from(self.random.below(3 * ops.len() as u64 + 1)).unwrap();
        for (index, op) in ops.iter().enumerate() {
            op.apply(&mut tx, &mut model);
            if index == look_at {
                verify(&tx.read(), &model, &mut self.random);
                let (stats, count) = (tx.read().stats().unwrap(), model.count());
                assert_eq!(
                    (stats.keys, stats.buckets),
                    (count.pairs + count.buckets, count.buckets + 1)
                );
            }
        }
        if !commit {
            return;
        }
        let txid = tx.txid();
        let committed = tx.commit().unwrap();
        let changed = committed == txid;
        assert!(changed || model == self.model, "the model changed without a commit");
        self.model = model;
        self.commits += 1;
        if self.commits.is_multiple_of(CHECK_EVERY) {
            self.check();
        }
    }

    fn check(&mut self) {
        let snapshot = self.db.as_ref().unwrap().snapshot();
        verify(&snapshot.root(), &self.model, &mut self.random);
        verify_size(&snapshot, &self.model, &self.disk.contents(FILE).unwrap());
        assert_consistent(&snapshot);
    }

    /// Holds the newest state, or drops a held one.
    fn hold(&mut self) {
        if self.held.len() < HELD_MAX {
            self.held.push((self.db.as_ref().unwrap().snapshot(), self.model.clone()));
        } else {
            let index = usize::try_from(self.random.below(HELD_MAX as u64)).unwrap();
            let (snapshot, model) = self.held.swap_remove(index);
            self.check_held(&snapshot, &model);
        }
    }

    /// Asserts that a held state is unchanged.
    fn check_held(&mut self, snapshot: &Snapshot, model: &Contents) {
        verify(&snapshot.root(), model, &mut self.random);
        let stats = snapshot.root().stats().unwrap();
        assert_eq!(stats.buckets, model.count().buckets + 1);
        assert_consistent(snapshot);
    }

    fn reopen(&mut self) {
        while let Some((snapshot, model)) = self.held.pop() {
            self.check_held(&snapshot, &model);
        }
        self.db = None;
        self.db = Some(open(&self.disk, &self.options).unwrap());
        self.check();
    }
}

fn run(seed: u64, options: Options, keys: u64, value_max: u64, transactions: u64) {
    let mut workload = Workload::new(seed, keys, value_max);
    let mut run = Run::new(seed, options);
    for _ in 0..transactions {
        let ops = workload.transaction(60);
        let commit = !workload.random.chance(1, 8);
        run.transaction(&ops, commit);
        match workload.random.below(24) {
            0..6 => run.hold(),
            6 => run.reopen(),
            _ => {}
        }
    }
    run.reopen();
    assert!(run.commits > transactions / 2);
}

#[test]
fn random_transactions_on_small_pages_match_the_model() {
    for seed in 0..6 {
        let sync_freelist = seed % 2 == 1;
        run(seed, Options { page_size: 1024, sync_freelist, ..options() }, 400, 9_000, 120);
    }
}

#[test]
fn random_transactions_on_default_pages_match_the_model() {
    for seed in 10..14 {
        let sync_freelist = seed % 2 == 1;
        run(seed, Options { sync_freelist, ..options() }, 1_500, 30_000, 120);
    }
}

#[test]
fn random_transactions_on_large_pages_match_the_model() {
    for seed in 20..22 {
        let sync_freelist = seed % 2 == 1;
        run(seed, Options { page_size: 16_384, sync_freelist, ..options() }, 3_000, 70_000, 100);
    }
}

#[test]
fn small_buckets_switch_between_inline_and_paged() {
    for seed in 30..36 {
        run(seed, Options { page_size: 1024, ..options() }, 12, 700, 250);
    }
}

fn op() -> impl Strategy<Value = Op> {
    let bucket = 0..BUCKETS.len();
    let key = 0_u64..120;
    prop_oneof![
        12 => (bucket.clone(), key.clone(), 0_usize..80, any::<u8>())
            .prop_map(|(bucket, key, len, salt)| Op::Put { bucket, key, len, salt }),
        2 => (bucket.clone(), key.clone(), 0_usize..6_000, any::<u8>())
            .prop_map(|(bucket, key, len, salt)| Op::Put { bucket, key, len, salt }),
        8 => (bucket.clone(), key).prop_map(|(bucket, key)| Op::Delete { bucket, key }),
        1 => bucket.clone().prop_map(|bucket| Op::Create { bucket }),
        1 => bucket.clone().prop_map(|bucket| Op::DeleteBucket { bucket }),
        1 => (bucket.clone(), any::<u64>()).prop_map(|(bucket, to)| Op::SetSequence { bucket, to }),
        1 => (bucket, any::<u8>())
            .prop_map(|(bucket, percent)| Op::SetFillPercent { bucket, percent }),
    ]
}

/// Actions between transactions.
#[derive(Clone, Debug)]
enum Between {
    Nothing,
    Hold,
    Reopen,
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![4 => Just(Between::Nothing), 2 => Just(Between::Hold), 1 => Just(Between::Reopen)]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_transactions_match_the_model(
        page_size in prop_oneof![Just(1024_usize), Just(4096), Just(16_384)],
        sync_freelist: bool,
        steps in prop::collection::vec((prop::collection::vec(op(), 0..60), prop::bool::weighted(0.9), between()), 1..14),
    ) {
        let mut run = Run::new(7, Options { page_size, sync_freelist, ..options() });
        for (ops, commit, between) in steps {
            run.transaction(&ops, commit);
            match between {
                Between::Nothing => {}
                Between::Hold => run.hold(),
                Between::Reopen => run.reopen(),
            }
        }
        run.reopen();
    }
}
