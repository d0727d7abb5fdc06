//! Random transactions, turns, views and restarts, compared with a map.

use std::collections::BTreeMap;

use backend::schema::{Bucket, meta};
use backend::{BackendView, Read, Sequence};
use proptest::collection::vec;
use proptest::prelude::*;
use types::{Index, Term};

use crate::{Fixture, config, dump, pairs};

const BUCKETS: [Bucket; 2] = [Bucket::Key, Bucket::AuthUsers];

type Contents = BTreeMap<(Bucket, String), String>;

#[derive(Clone, Debug)]
enum Step {
    /// Changes, and whether the transaction is committed.
    Tx(Vec<Change>, bool),
    Turn,
    ForceCommit,
    TakeView,
    DropView(usize),
    Range(usize, String, Option<String>),
    Defragment,
    /// Reopens the file: uncommitted writes are lost.
    Reopen,
}

#[derive(Clone, Debug)]
struct Change {
    bucket: Bucket,
    key: String,
    value: Option<String>,
}

fn key() -> impl Strategy<Value = String> {
    "[a-d]{1,3}"
}

fn change() -> impl Strategy<Value = Change> {
    let value = prop_oneof![
        2 => Just(None),
        4 => "[x-z]{0,4}".prop_map(Some),
        1 => (0_usize..3000).prop_map(|len| Some("v".repeat(len))),
    ];
    (prop::sample::select(&BUCKETS[..]), key(), value).prop_map(|(bucket, key, value)| Change {
        bucket,
        key,
        value,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (vec(change(), 0..6), prop::bool::weighted(0.9)).prop_map(|(changes, commit)| Step::Tx(changes, commit)),
        4 => Just(Step::Turn),
        1 => Just(Step::ForceCommit),
        3 => Just(Step::TakeView),
        1 => any::<usize>().prop_map(Step::DropView),
        3 => (any::<usize>(), key(), prop::option::of(key())).prop_map(|(n, from, to)| Step::Range(n, from, to)),
        1 => Just(Step::Defragment),
        1 => Just(Step::Reopen),
    ]
}

/// The expected states: the newest, the one in the file, and those of the views.
struct Model {
    db: Fixture,
    now: Contents,
    applied: u64,
    newest: Sequence,
    in_file: (Contents, u64),
    views: Vec<(BackendView, Contents)>,
}

impl Model {
    fn new() -> Model {
        Model {
            db: Fixture::new(config()),
            now: Contents::new(),
            applied: 0,
            newest: Sequence(0),
            in_file: (Contents::new(), 0),
            views: Vec::new(),
        }
    }

    fn run(mut self, steps: Vec<Step>) {
        for step in steps {
            self = self.step(step);
            self.check();
        }
        assert_eq!(self.db.backend.snapshot().unwrap().check(), []);
    }

    fn step(mut self, step: Step) -> Model {
        match step {
            Step::Tx(changes, commit) => self.tx(changes, commit),
            Step::Turn => {
                self.db.turn();
                self.committed();
            }
            Step::ForceCommit => {
                self.db.backend.force_commit().unwrap();
                self.committed();
            }
            Step::TakeView => self.views.push((self.db.backend.view(), self.now.clone())),
            Step::DropView(n) if !self.views.is_empty() => {
                self.views.remove(n % self.views.len());
            }
            Step::DropView(_) => {}
            Step::Range(n, from, to) => self.range(n, &from, to.as_deref()),
            Step::Defragment => {
                self.db.backend.defragment().unwrap();
                self.committed();
            }
            Step::Reopen => return self.reopen(),
        }
        self
    }

    fn tx(&mut self, changes: Vec<Change>, commit: bool) {
        let mut tx = self.db.backend.begin();
        let mut after = self.now.clone();
        for Change { bucket, key, value } in changes {
            match value {
                Some(value) => {
                    tx.put(bucket, key.clone(), value.clone()).unwrap();
                    after.insert((bucket, key), value);
                }
                None => {
                    tx.delete(bucket, key.clone());
                    after.remove(&(bucket, key));
                }
            }
        }
        tx.set_applied(Index(self.applied + 1), Term(1));
        for bucket in BUCKETS {
            assert_eq!(dump(&tx, bucket), of(&after, bucket));
        }
        look_up(&tx, &after);
        if commit {
            self.newest = tx.commit().unwrap();
            self.now = after;
            self.applied += 1;
        }
    }

    fn committed(&mut self) {
        assert_eq!(self.db.backend.durable(), self.newest);
        self.in_file = (self.now.clone(), self.applied);
    }

    fn range(&mut self, n: usize, from: &str, to: Option<&str>) {
        if self.views.is_empty() {
            return;
        }
        let (view, state) = &self.views[n % self.views.len()];
        for bucket in BUCKETS {
            let range = view.range(bucket, from.as_bytes(), to.map(str::as_bytes)).unwrap();
            let mut expected = of(state, bucket);
            expected
                .retain(|(key, _)| key.as_str() >= from && to.is_none_or(|to| key.as_str() < to));
            assert_eq!(pairs(range), expected);
        }
    }

    fn reopen(mut self) -> Model {
        // Views keep their file open and locked.
        self.views.clear();
        let (now, applied) = self.in_file.clone();
        let db = self.db.reopen();
        Model { db, now, applied, newest: Sequence(0), ..self }
    }

    fn check(&self) {
        let view = self.db.backend.view();
        assert_eq!(meta::applied(&view).unwrap().0, Index(self.applied));
        let now = std::iter::once((&view, &self.now));
        for (view, state) in now.chain(self.views.iter().map(|(view, state)| (view, state))) {
            for bucket in BUCKETS {
                assert_eq!(dump(view, bucket), of(state, bucket));
            }
            for ((bucket, key), value) in state {
                let found = view.get(*bucket, key.as_bytes()).unwrap();
                assert_eq!(found.as_deref(), Some(value.as_bytes()));
            }
            look_up(view, state);
        }
    }
}

/// Looks keys up with a reader.
fn look_up(from: &impl Read, state: &Contents) {
    for bucket in BUCKETS {
        let mut reader = from.reader(bucket).unwrap();
        for key in keys_to_look_up(state) {
            let found = reader.get(key.as_bytes()).unwrap();
            let expected = state.get(&(bucket, key)).map(String::as_bytes);
            assert_eq!(found.as_deref(), expected);
        }
    }
}

/// Keys, some of which exist, in strides that cover all of them.
fn keys_to_look_up(state: &Contents) -> impl Iterator<Item = String> {
    let known = state.keys().map(|(_, key)| key.clone());
    let keys: Vec<_> = known.chain(["", "a", "bb", "ccc", "e"].map(str::to_owned)).collect();
    let stride = if keys.len().is_multiple_of(7) { 1 } else { 7 };
    (0..2 * keys.len()).map(move |n| keys[n / 2 * stride % keys.len()].clone())
}

fn of(state: &Contents, wanted: Bucket) -> Vec<(String, String)> {
    let pairs = state.iter().filter(|((bucket, _), _)| *bucket == wanted);
    pairs.map(|((_, key), value)| (key.clone(), value.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_backend_behaves_like_a_map_with_views(steps in vec(step(), 1..60)) {
        Model::new().run(steps);
    }
}
