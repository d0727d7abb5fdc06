//! The index compared with a plain list of the changes of each key.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The changes of each key, in order: the revision, and whether it is a tombstone.
#[derive(Clone, Default)]
struct Model {
    keys: BTreeMap<Vec<u8>, Vec<(Revision, bool)>>,
    /// The uncompacted history, which determines versions and create revisions.
    all: BTreeMap<Vec<u8>, Vec<(Revision, bool)>>,
}

impl Model {
    fn add(&mut self, key: &[u8], revision: Revision, tombstone: bool) {
        for keys in [&mut self.keys, &mut self.all] {
            keys.entry(key.to_vec()).or_default().push((revision, tombstone));
        }
    }

    fn get(&self, key: &[u8], at: i64) -> Option<KeyMeta> {
        let kept = self.keys.get(key)?.iter().rfind(|(revision, _)| revision.main <= at)?;
        if kept.1 {
            return None;
        }
        let history = &self.all[key];
        let place = history
            .iter()
            .position(|one| one == kept)
            .expect("the full history has every kept revision");
        let since = history[..place].iter().rposition(|(_, tombstone)| *tombstone);
        let created = since.map_or(0, |tombstone| tombstone + 1);
        Some(KeyMeta {
            modified: kept.0,
            created: history[created].0.main,
            version: i64::try_from(place - created + 1).unwrap(),
        })
    }

    fn range(&self, range: &KeyRange<'_>, at: i64) -> Vec<(Vec<u8>, KeyMeta)> {
        let inside = |key: &&Vec<u8>| {
            key.as_slice() >= range.from && range.to.is_none_or(|to| key.as_slice() < to)
        };
        let found = |key: &Vec<u8>| Some((key.clone(), self.get(key, at)?));
        self.keys.keys().filter(inside).filter_map(found).collect()
    }

    /// Keeps the last revision at or below the compaction, unless it is a tombstone below it.
    fn compact(&mut self, at: i64) -> Vec<Revision> {
        let mut kept = Vec::new();
        self.keys.retain(|_, history| {
            let Some(newest) = history.iter().rposition(|(revision, _)| revision.main <= at) else {
                return true;
            };
            let (revision, tombstone) = history[newest];
            let gone = tombstone && revision.main < at;
            history.drain(..newest + usize::from(gone));
            kept.extend((!gone).then_some(revision));
            !history.is_empty()
        });
        kept.sort();
        kept
    }

    fn keep(&self, at: i64) -> Vec<Revision> {
        let newest = self.keys.values().filter_map(|history| {
            let (revision, tombstone) =
                history.iter().rfind(|(revision, _)| revision.main <= at)?;
            (!tombstone).then_some(*revision)
        });
        let mut kept: Vec<_> = newest.collect();
        kept.sort();
        kept
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    /// A transaction that deletes and recreates a key.
    Replace(u8),
    Compact(u8),
    Snapshot,
    Look {
        from: u8,
        to: Option<u8>,
        back: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    // Some keys get many revisions.
    let key = || prop_oneof![any::<u8>(), 0..4_u8];
    prop_oneof![
        20 => key().prop_map(Step::Put),
        6 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::Replace),
        1 => any::<u8>().prop_map(Step::Compact),
        1 => Just(Step::Snapshot),
        4 => (any::<u8>(), any::<Option<u8>>(), any::<u8>())
            .prop_map(|(from, to, back)| Step::Look { from, to, back }),
    ]
}

/// Keys of different lengths, some a prefix of others.
fn key(number: u8) -> Vec<u8> {
    let mut key = vec![number / 16];
    key.extend(std::iter::repeat_n(number, usize::from(number % 16) * 2));
    key
}

struct Pair {
    index: TreeIndex,
    model: Model,
    current: i64,
    compacted: i64,
}

impl Pair {
    fn put(&mut self, name: &[u8], sub: i64) {
        let revision = Revision::new(self.current, sub);
        self.index.put(name, revision);
        self.model.add(name, revision, false);
    }

    fn delete(&mut self, name: &[u8]) {
        let revision = Revision::new(self.current, 0);
        self.index.tombstone(name, revision);
        self.model.add(name, revision, true);
    }

    fn compact(&mut self, at: i64) {
        assert_eq!(compact(&mut self.index, at), self.model.compact(at));
        self.compacted = at;
    }

    fn check(&self, range: &KeyRange<'_>, at: i64) {
        check(&self.index, &self.model, range, at);
    }
}

fn check(index: &TreeIndex, model: &Model, range: &KeyRange<'_>, at: i64) {
    let expected = model.range(range, at);
    let mut seen = Vec::new();
    let ended = index.visit(KeySelector::Range(*range), at, |key, found| {
        seen.push((key.to_vec(), found));
        ControlFlow::Continue(())
    });
    assert_eq!((seen, ended), (expected.clone(), ControlFlow::Continue(())));
    assert_eq!(index.count(KeySelector::Range(*range), at), expected.len() as u64);
    for (key, found) in expected {
        assert_eq!(index.get(&key, at), Some(found));
        assert_eq!(index.count(KeySelector::One(&key), at), 1);
    }
}

const ALL: KeyRange<'_> = KeyRange { from: &[], to: None };

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn index_equals_a_list_of_changes_per_key(steps in proptest::collection::vec(step(), 0..600)) {
        let mut pair =
            Pair { index: TreeIndex::default(), model: Model::default(), current: 1, compacted: 0 };
        let mut snapshots = Vec::new();
        for step in steps {
            match step {
                Step::Put(number) => {
                    pair.current += 1;
                    pair.put(&key(number), i64::from(number % 3));
                }
                Step::Delete(number) if pair.index.get(&key(number), pair.current).is_some() => {
                    pair.current += 1;
                    pair.delete(&key(number));
                }
                Step::Replace(number) if pair.index.get(&key(number), pair.current).is_some() => {
                    pair.current += 1;
                    pair.delete(&key(number));
                    pair.put(&key(number), 1);
                }
                Step::Compact(back) => {
                    let at = pair.current - i64::from(back) % (pair.current - pair.compacted).max(1);
                    prop_assert_eq!(pair.index.keep(at), pair.model.keep(at));
                    pair.compact(at);
                    pair.check(&ALL, at);
                    prop_assert_eq!(pair.index.len(), pair.model.keys.len());
                }
                Step::Snapshot => {
                    let Pair { index, model, current, .. } = &pair;
                    snapshots.push((index.clone(), model.clone(), *current));
                }
                Step::Look { from, to, back } => {
                    let (from, to) = (key(from), to.map(key));
                    let at = pair.current - i64::from(back) % (pair.current - pair.compacted).max(1);
                    pair.check(&KeyRange { from: &from, to: to.as_deref() }, at);
                }
                Step::Delete(_) | Step::Replace(_) => {}
            }
            prop_assert_eq!(pair.index.live(), pair.model.range(&ALL, pair.current).len() as u64);
        }
        for (index, model, current) in snapshots {
            check(&index, &model, &ALL, current);
        }
    }
}

/// Whatever the order of insertion, no key is lost or counted twice, and nothing is left after all
/// keys are deleted and compacted.
#[test]
fn ascending_and_descending_inserts_lose_no_key() {
    for backwards in [false, true] {
        let mut index = TreeIndex::default();
        let name = |number: u32| (if backwards { 3000 - number } else { number }).to_be_bytes();
        for number in 0..3000 {
            index.put(&name(number), Revision::new(i64::from(number) + 2, 0));
            index.put(b"hot", Revision::new(i64::from(number) + 2, 1));
        }
        assert_eq!((index.live(), index.len()), (3001, 3001));
        assert_eq!(index.get(b"hot", 1000).map(|found| found.version), Some(999));
        assert_eq!(compact(&mut index, 4000).len(), 3001);
        assert_eq!((index.live(), index.len()), (3001, 3001));
        for number in 0..3000 {
            index.tombstone(&name(number), Revision::new(5000, i64::from(number)));
        }
        assert_eq!((index.live(), index.len()), (1, 3001));
        assert_eq!(compact(&mut index, 5000).len(), 3001, "tombstones at the compaction are kept");
        assert_eq!(compact(&mut index, 5001), [Revision::new(3001, 1)]);
        assert_eq!((index.live(), index.len()), (1, 1));
    }
}

fn compact(index: &mut TreeIndex, at: i64) -> Vec<Revision> {
    let (mut kept, mut from) = (Vec::new(), Some(Box::default()));
    while let Some(next) = from {
        from = index.compact(&next, at, &mut kept);
    }
    kept.sort();
    kept.dedup();
    kept
}
