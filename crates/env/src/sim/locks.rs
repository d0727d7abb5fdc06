//! Who holds the locks of a file.
//!
//! The two kinds do not see each other. Within a kind, a handle has one lock, and asking again changes it.

use std::collections::BTreeMap;

use crate::{Lock, Locking};

/// The locks of one file, by the number of the handle that holds them.
#[derive(Debug, Default)]
pub(super) struct Locks {
    flock: BTreeMap<u64, Lock>,
    ofd: BTreeMap<u64, Lock>,
}

impl Locks {
    /// Takes a lock unless another handle's is in the way.
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
            // Linux changes a flock by dropping it first: who asks for more and does not get it has lost what it had.
            held.remove(&handle);
        }
        free
    }

    /// Lets go of everything that a handle holds.
    pub(super) fn release(&mut self, handle: u64) {
        self.flock.remove(&handle);
        self.ofd.remove(&handle);
    }
}
