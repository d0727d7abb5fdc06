//! Changes that are applied to a database and to its model alike.

use bolt::{BucketMut, Error, WriteTx};
use env::SeededRandom;

use super::contents::Contents;

/// The buckets that changes refer to. The last has the same name as a possible key of its parent.
pub(crate) const BUCKETS: [&[&[u8]]; 6] =
    [&[b"a"], &[b"b"], &[b"a", b"in"], &[b"a", b"in", b"deep"], &[b"c"], &[b"c", b"00003"]];

/// A change. A bucket is an index into [`BUCKETS`], a key a number.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Puts a value of the given length; the salt makes it distinct.
    Put {
        bucket: usize,
        key: u64,
        len: usize,
        salt: u8,
    },
    Delete {
        bucket: usize,
        key: u64,
    },
    Create {
        bucket: usize,
    },
    DeleteBucket {
        bucket: usize,
    },
    SetSequence {
        bucket: usize,
        to: u64,
    },
    SetFillPercent {
        bucket: usize,
        percent: u8,
    },
}

/// Returns the key of a number: most are short, some long, and a few longer than a small page.
pub(crate) fn key(number: u64) -> Vec<u8> {
    let mut key = format!("{number:05}").into_bytes();
    match number {
        n if n % 97 == 96 => key.resize(2500, b'x'),
        n if n % 13 == 12 => key.resize(300, b'x'),
        _ => {}
    }
    key
}

fn value(key: u64, len: usize, salt: u8) -> Vec<u8> {
    let first = salt ^ key.to_le_bytes()[0];
    (0..len).map(|at| first.wrapping_add(at.to_le_bytes()[0])).collect()
}

impl Op {
    /// Applies the change to both, and asserts equal results.
    pub(crate) fn apply(&self, tx: &mut WriteTx<'_>, model: &mut Contents) {
        assert_eq!(self.change(tx), self.change_model(model), "{self:?}");
    }

    fn change(&self, tx: &mut WriteTx<'_>) -> Result<bool, Error> {
        match *self {
            Op::Put { bucket, key: number, len, salt } => {
                let mut bucket = bucket_if_missing(tx, BUCKETS[bucket])?;
                bucket.put(&key(number), &value(number, len, salt)).map(|()| true)
            }
            Op::Delete { bucket, key: number } => {
                find_bucket(tx, BUCKETS[bucket])?.delete(&key(number))
            }
            Op::Create { bucket } => bucket_if_missing(tx, BUCKETS[bucket]).map(|_| true),
            Op::DeleteBucket { bucket } => {
                let (name, path) = BUCKETS[bucket].split_last().unwrap();
                find_bucket(tx, path)?.delete_bucket(name).map(|()| true)
            }
            Op::SetSequence { bucket, to } => {
                find_bucket(tx, BUCKETS[bucket])?.set_sequence(to);
                Ok(true)
            }
            Op::SetFillPercent { bucket, percent } => {
                find_bucket(tx, BUCKETS[bucket])?.set_fill_percent(f64::from(percent) / 100.0);
                Ok(true)
            }
        }
    }

    fn change_model(&self, model: &mut Contents) -> Result<bool, Error> {
        match *self {
            Op::Put { bucket, key: number, len, salt } => {
                let bucket = model.bucket_if_missing(BUCKETS[bucket])?;
                bucket.put(&key(number), value(number, len, salt)).map(|()| true)
            }
            Op::Delete { bucket, key: number } => {
                model.bucket(BUCKETS[bucket])?.delete(&key(number))
            }
            Op::Create { bucket } => model.bucket_if_missing(BUCKETS[bucket]).map(|_| true),
            Op::DeleteBucket { bucket } => {
                let (name, path) = BUCKETS[bucket].split_last().unwrap();
                model.bucket(path)?.delete_bucket(name).map(|()| true)
            }
            Op::SetSequence { bucket, to } => {
                model.bucket(BUCKETS[bucket])?.sequence = to;
                Ok(true)
            }
            Op::SetFillPercent { bucket, .. } => model.bucket(BUCKETS[bucket]).map(|_| true),
        }
    }
}

fn find_bucket<'t>(tx: &'t mut WriteTx<'_>, path: &[&[u8]]) -> Result<BucketMut<'t>, Error> {
    path.iter().try_fold(tx.root(), |bucket, name| bucket.into_bucket(name))
}

fn bucket_if_missing<'t>(tx: &'t mut WriteTx<'_>, path: &[&[u8]]) -> Result<BucketMut<'t>, Error> {
    path.iter().try_fold(tx.root(), |bucket, name| bucket.into_bucket_if_missing(name))
}

/// A source of changes derived from a seed. It alternates between phases with more puts and with
/// more deletes.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) random: SeededRandom,
    /// Number of distinct keys.
    keys: u64,
    /// Maximum value size, in bytes.
    value_max: u64,
    /// Deletes per ten operations.
    deletes: u64,
}

impl Workload {
    pub(crate) fn new(seed: u64, keys: u64, value_max: u64) -> Workload {
        Workload { random: SeededRandom::new(seed), keys, value_max, deletes: 3 }
    }

    /// Returns the changes of a transaction.
    pub(crate) fn transaction(&mut self, ops_max: u64) -> Vec<Op> {
        if self.random.chance(1, 8) {
            self.deletes = [1, 3, 9][usize::try_from(self.random.below(3)).unwrap()];
        }
        let ops = 1 + self.random.below(ops_max);
        (0..ops).map(|_| self.op()).collect()
    }

    fn op(&mut self) -> Op {
        let random = &mut self.random;
        let bucket = usize::try_from(random.below(BUCKETS.len() as u64)).unwrap();
        match random.below(100) {
            0 => Op::Create { bucket },
            1 => Op::DeleteBucket { bucket },
            2 => Op::SetSequence { bucket, to: random.next() },
            3 => Op::SetFillPercent { bucket, percent: random.next().to_le_bytes()[0] },
            _ => {
                let key = random.below(self.keys);
                if random.chance(self.deletes, 10) {
                    return Op::Delete { bucket, key };
                }
                let len = match random.below(32) {
                    0 => random.below(self.value_max),
                    1..4 => random.below(1 + self.value_max / 8),
                    4 => 0,
                    _ => random.below(60),
                };
                let salt = random.next().to_le_bytes()[0];
                Op::Put { bucket, key, len: usize::try_from(len).unwrap(), salt }
            }
        }
    }
}
