//! The bound on the work of the swap, during which the writer is blocked.

use crate::diff::ChangeSink;
use crate::error::CorruptPage;

/// Maximum number of changes copied while the writer waits: as many as etcd's largest transaction.
pub const SWAP_CHANGES_MAX: u64 = 10_000;
/// Maximum bytes of keys and values copied while the writer waits: a few of the largest requests.
pub const SWAP_BYTES_MAX: usize = 8 << 20;

/// Counts changes, up to the limit of the swap.
#[derive(Default)]
pub(super) struct ChangeCounter {
    changes: u64,
    bytes: usize,
}

/// Reason why counting stopped.
pub(super) enum CountError {
    LimitExceeded,
    Corrupt(CorruptPage),
}

impl From<CorruptPage> for CountError {
    fn from(corrupt: CorruptPage) -> CountError {
        CountError::Corrupt(corrupt)
    }
}

impl ChangeCounter {
    fn count(&mut self, bytes: usize) -> Result<(), CountError> {
        self.changes += 1;
        self.bytes += bytes;
        let fits = self.changes <= SWAP_CHANGES_MAX && self.bytes <= SWAP_BYTES_MAX;
        if fits { Ok(()) } else { Err(CountError::LimitExceeded) }
    }
}

impl ChangeSink for ChangeCounter {
    type Error = CountError;

    fn put(&mut self, _: &[&[u8]], key: &[u8], value: &[u8]) -> Result<(), CountError> {
        self.count(key.len() + value.len())
    }

    fn delete(&mut self, _: &[&[u8]], key: &[u8]) -> Result<(), CountError> {
        self.count(key.len())
    }

    fn create_bucket(&mut self, _: &[&[u8]], name: &[u8]) -> Result<(), CountError> {
        self.count(name.len())
    }

    fn delete_bucket(&mut self, _: &[&[u8]], name: &[u8]) -> Result<(), CountError> {
        self.count(name.len())
    }

    fn set_sequence(&mut self, _: &[&[u8]], _: u64) -> Result<(), CountError> {
        self.count(0)
    }
}
