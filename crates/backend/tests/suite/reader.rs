//! A reader finds what its view shows, regardless of earlier lookups and concurrent writes.

use std::collections::BTreeMap;

use backend::Read as _;
use backend::schema::Bucket;
use backend::schema::revision;
use proptest::collection::vec;
use proptest::prelude::*;
use types::Revision;

use crate::{Fixture, config};

const B: Bucket = Bucket::Key;

/// Number of revisions: enough to fill some dozens of pages.
const REVISIONS: i64 = 600;

type Contents = BTreeMap<[u8; 17], Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    /// Puts this many revisions after the last, in one transaction.
    Put(i64),
    /// Deletes every other revision of a range, as a compaction does.
    Delete(i64, i64),
    /// Commits to the file.
    Turn,
    /// Looks up this many revisions, with some stride and start.
    Look(i64, i64, i64),
}

fn write() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_i64..60).prop_map(Step::Put),
        1 => (0..REVISIONS, 1_i64..50).prop_map(|(from, count)| Step::Delete(from, count)),
        3 => Just(Step::Turn),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let stride = prop_oneof![4 => Just(1_i64), 1 => Just(-1), 2 => -70_i64..70, 2 => any::<i16>().prop_map(i64::from)];
    let look = (0..REVISIONS, stride, 1_i64..40);
    prop_oneof![1 => write(), 2 => look.prop_map(|(from, stride, count)| Step::Look(from, stride, count))]
}

fn key(n: i64) -> [u8; 17] {
    // Three per transaction.
    revision::encode(Revision::new(n / 3, n % 3))
}

/// A database of revisions, and its expected contents.
struct Revisions {
    db: Fixture,
    now: Contents,
    next: i64,
}

impl Revisions {
    fn step(&mut self, step: &Step) {
        let mut tx = self.db.backend.begin();
        match *step {
            Step::Put(count) => {
                for n in self.next..self.next + count {
                    let value = format!("{n} ").repeat(40).into_bytes();
                    tx.put(B, key(n).to_vec(), value.clone()).unwrap();
                    self.now.insert(key(n), value);
                }
                self.next += count;
            }
            Step::Delete(from, count) => {
                for n in (from..from + 2 * count).step_by(2) {
                    tx.delete(B, key(n).to_vec());
                    self.now.remove(&key(n));
                }
            }
            Step::Turn | Step::Look(..) => {}
        }
        tx.commit().unwrap();
        if let Step::Turn = step {
            self.db.turn();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_reader_finds_what_its_view_shows(before in vec(write(), 0..20), after in vec(step(), 1..30)) {
        let mut it = Revisions { db: Fixture::new(config()), now: Contents::new(), next: 0 };
        before.iter().for_each(|step| it.step(step));
        let (view, shown) = (it.db.backend.view(), it.now.clone());
        let mut reader = view.reader(B).unwrap();
        for step in &after {
            it.step(step);
            let Step::Look(from, stride, count) = *step else { continue };
            for n in 0..count {
                let key = key((from + n * stride).rem_euclid(REVISIONS));
                let found = reader.get(&key).unwrap();
                prop_assert_eq!(found.as_deref(), shown.get(&key).map(Vec::as_slice));
                prop_assert_eq!(found, view.get(B, &key).unwrap());
            }
        }
    }
}
