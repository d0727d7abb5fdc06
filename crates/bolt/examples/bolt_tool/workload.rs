//! Changes derived from a seed, the same as the Go programs in `interop` make with bbolt.

use anyhow::Result;
use bolt::{BucketMut, Db, Error, WriteTx};
use env::SeededRandom;

/// Spreads seeds and rounds over all numbers.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const ROUND_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// The buckets that are changed.
const BUCKETS: [&[&[u8]]; 4] =
    [&[b"alpha"], &[b"beta"], &[b"alpha", b"inner"], &[b"gamma", b"deep", b"deeper"]];

/// A list of changes.
#[derive(Debug)]
pub(crate) struct Workload {
    random: SeededRandom,
    ops: u64,
    ops_per_tx: u64,
    keys: u64,
    nested: bool,
    deletes: bool,
}

/// The changes of `write`.
pub(crate) fn written(seed: u64, ops: u64, nested: bool, deletes: bool) -> Workload {
    let random = SeededRandom::new(seed.wrapping_mul(SEED_STEP).wrapping_add(0x77));
    Workload { random, ops, ops_per_tx: 500, keys: ops.max(1), nested, deletes }
}

/// The changes of `round`.
pub(crate) fn round(seed: u64, round: u64) -> Workload {
    let round = round.wrapping_add(1).wrapping_mul(ROUND_STEP);
    let random = SeededRandom::new(seed.wrapping_mul(SEED_STEP).wrapping_add(round));
    Workload { random, ops: 2000, ops_per_tx: 100, keys: 3000, nested: true, deletes: true }
}

impl Workload {
    /// Applies all changes.
    pub(crate) fn apply(mut self, db: &Db) -> Result<()> {
        while self.ops > 0 {
            let ops = self.ops.min(self.ops_per_tx);
            self.ops -= ops;
            let mut tx = db.write()?;
            self.begin(&mut tx)?;
            (0..ops).try_for_each(|_| self.change(&mut tx))?;
            tx.commit()?;
        }
        Ok(())
    }

    /// Applies the changes at the start of each transaction.
    fn begin(&mut self, tx: &mut WriteTx<'_>) -> Result<(), Error> {
        let choice = self.random.next();
        let mut alpha = tx.create_bucket_if_missing(b"alpha")?;
        alpha.set_sequence(alpha.sequence() + 1);
        if self.deletes && choice.is_multiple_of(8) {
            match tx.root().delete_bucket(b"beta") {
                Ok(()) | Err(Error::BucketNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn change(&mut self, tx: &mut WriteTx<'_>) -> Result<(), Error> {
        // Draws all three numbers, even if unused, to stay in step with the Go program.
        let (choice, key, value) =
            (self.random.next(), self.random.below(self.keys), self.random.next());
        let mut bucket = bucket(tx, choice % if self.nested { 4 } else { 2 })?;
        let key = format!("{key:08}");
        if self.deletes && (choice >> 8) % 10 < 4 {
            return bucket.delete(key.as_bytes()).map(drop);
        }
        bucket.put(key.as_bytes(), &bytes(value))
    }
}

fn bucket<'t>(tx: &'t mut WriteTx<'_>, number: u64) -> Result<BucketMut<'t>, Error> {
    let path = BUCKETS
        .into_iter()
        .zip(0..)
        .find(|(_, index)| *index == number)
        .map_or(BUCKETS[0], |(path, _)| path);
    path.iter().try_fold(tx.root(), |bucket, name| bucket.into_bucket_if_missing(name))
}

/// Returns a value; every eighth may be long.
fn bytes(value: u64) -> Vec<u8> {
    let most = if value.is_multiple_of(8) { 9000 } else { 200 };
    (0..(value >> 8) % most).map(|at| (value >> 24).wrapping_add(at).to_le_bytes()[0]).collect()
}
