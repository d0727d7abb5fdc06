//! The owners of a file's locks.
//!
//! The two kinds are independent. Within a kind, a handle has one lock, and locking again changes
//! its mode.

use std::collections::BTreeMap;

use crate::{Lock, Locking};

/// The locks of a file, by the number of the owning handle.
#[derive(Debug, Default)]
pub(super) struct Locks {
    flock: BTreeMap<u64, Lock>,
    ofd: BTreeMap<u64, Lock>,
}

impl Locks {
    /// Takes a lock unless it conflicts with another handle's.
    pub(super) fn try_lock(&mut self, handle: u64, locking: Locking, lock: Lock) -> bool {
        let held = match locking {
            Locking::Flock => &mut self.flock,
            Locking::Ofd => &mut self.ofd,
        };
        let free = held.iter().all(|(other, theirs)| {
            *other == handle || (*theirs, lock) == (Lock::Shared, Lock::Shared)
        });
        if free {
            held.insert(handle, lock);
        } else if locking == Locking::Flock {
            // Linux converts a flock by releasing it first: a failed conversion loses the old lock.
            held.remove(&handle);
        }
        free
    }

    /// Releases all locks of a handle.
    pub(super) fn release(&mut self, handle: u64) {
        self.flock.remove(&handle);
        self.ofd.remove(&handle);
    }
}
