//! Generates random requests. Keys are few, so that clients conflict; values are unique, so that
//! each write can be identified.

use env::SeededRandom;
use history::record::{
    Compare, Delete, Op, Put, Range, Relation, Request, Span, Target, Txn, WatchRequest,
};
use simkit::RandomExt as _;

/// Number of keys.
const KEYS: u64 = 6;
/// End of the range of all keys, which are `k0`, `k1`, …
const KEYS_END: &str = "l";
/// Historical reads and compactions are fewer than this many revisions below the highest one seen.
const PAST_REVISIONS: u64 = 12;
/// Number of the latest leases that requests refer to.
const LEASES_MAX: usize = 4;
/// TTLs in seconds; the cluster grants at least 2 seconds.
const TTLS_S: [i64; 5] = [1, 2, 3, 5, 9];

/// Generates requests.
#[derive(Debug)]
pub(crate) struct RequestGenerator {
    pub(crate) random: SeededRandom,
    /// Number of generated values.
    values: u64,
    /// The latest granted leases.
    leases: Vec<i64>,
    /// Number of generated lease ids.
    leases_granted: i64,
    /// Highest revision that a client has seen.
    pub(crate) revision: i64,
}

impl RequestGenerator {
    pub(crate) fn new(seed: u64) -> RequestGenerator {
        let random = SeededRandom::new(seed);
        RequestGenerator { random, values: 0, leases: Vec::new(), leases_granted: 0, revision: 1 }
    }

    /// Returns a random request.
    pub(crate) fn request(&mut self) -> Request {
        match self.random.below(100) {
            0..32 => Request::Put(self.put()),
            32..40 => Request::Delete(self.delete()),
            40..60 => Request::Range(Range::now(self.span())),
            60..68 => Request::Range(self.range_with_option()),
            68..84 => Request::Txn(self.txn()),
            84..88 => self.grant(),
            88..93 => Request::KeepAlive { lease: self.lease() },
            93..95 => Request::Revoke { lease: self.lease() },
            _ => Request::Compact { revision: self.past_revision() },
        }
    }

    /// Returns a put without a lease, which every member can serve.
    pub(crate) fn plain_put(&mut self) -> Request {
        let key = self.key();
        Request::Put(Put { key, value: self.value(), lease: 0, prev_kv: false })
    }

    /// Returns a watch from a revision on.
    pub(crate) fn watch(&mut self, start: i64) -> WatchRequest {
        let span = if self.random.chance(1, 2) { all() } else { self.span() };
        WatchRequest {
            prev_kv: self.random.chance(1, 3),
            no_put: self.random.chance(1, 8),
            no_delete: self.random.chance(1, 8),
            ..WatchRequest::from(span, start)
        }
    }

    fn key(&mut self) -> String {
        format!("k{}", self.random.below(KEYS))
    }

    fn value(&mut self) -> String {
        self.values += 1;
        // Some values are larger than a page.
        let padding = if self.random.chance(1, 40) { "x".repeat(2000) } else { String::new() };
        format!("v{}{padding}", self.values)
    }

    fn span(&mut self) -> Span {
        match self.random.below(10) {
            0..7 => Span::one(&self.key()),
            7 => all(),
            8 => Span::between(&self.key(), "\0"),
            _ => {
                let (a, b) = (self.key(), self.key());
                if a < b { Span::between(&a, &b) } else { Span::one(&a) }
            }
        }
    }

    /// Returns a recent revision.
    fn past_revision(&mut self) -> i64 {
        let distance = i64::try_from(self.random.below(PAST_REVISIONS)).unwrap_or(0);
        (self.revision - distance).max(1)
    }

    fn lease(&mut self) -> i64 {
        self.random.pick_any(&self.leases).unwrap_or(1)
    }

    fn grant(&mut self) -> Request {
        self.leases_granted += 1;
        let lease = 1000 + self.leases_granted;
        self.leases.push(lease);
        if self.leases.len() > LEASES_MAX {
            self.leases.remove(0);
        }
        Request::Grant { lease, ttl_s: self.random.pick(&TTLS_S) }
    }

    fn put(&mut self) -> Put {
        let lease = if self.random.chance(1, 5) { self.lease() } else { 0 };
        let (key, value) = (self.key(), self.value());
        Put { key, value, lease, prev_kv: self.random.chance(1, 3) }
    }

    fn delete(&mut self) -> Delete {
        Delete { span: self.span(), prev_kv: self.random.chance(1, 3) }
    }

    /// Returns a serializable, historical, limited or counting read.
    fn range_with_option(&mut self) -> Range {
        let mut range = Range::now(self.span());
        match self.random.below(4) {
            0 => range.serializable = true,
            1 => range.revision = self.past_revision(),
            2 => range.limit = 2,
            _ => range.count_only = true,
        }
        range
    }

    /// Returns a transaction that writes no key twice in a branch, since validation rejects that.
    fn txn(&mut self) -> Txn {
        let compares = (0..self.random.below(3)).map(|_| self.compare()).collect();
        let (then, otherwise) = (self.ops(), self.ops());
        Txn { compares, then, otherwise }
    }

    fn ops(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        let first = self.random.below(KEYS);
        for number in 0..self.random.below(4) {
            let key = format!("k{}", (first + number) % KEYS);
            ops.push(match self.random.below(5) {
                0..2 => Op::Put(Put { key, ..self.put() }),
                2 => Op::Delete(Delete { span: Span::one(&key), prev_kv: true }),
                _ => Op::Range(Range::now(self.span())),
            });
        }
        ops
    }

    fn compare(&mut self) -> Compare {
        let is = match self.random.below(4) {
            0 => Relation::Equal,
            1 => Relation::NotEqual,
            2 => Relation::Greater,
            _ => Relation::Less,
        };
        let to = match self.random.below(5) {
            0 => Target::Value(format!("v{}", self.random.below(self.values + 1))),
            1 => Target::Version(i64::try_from(self.random.below(4)).unwrap_or(0)),
            2 => Target::Create(self.past_revision()),
            3 => Target::Mod(self.past_revision()),
            _ => Target::Lease(self.lease()),
        };
        Compare { span: self.span(), is, to }
    }
}

/// Returns the range of all keys.
fn all() -> Span {
    Span::between("k", KEYS_END)
}
