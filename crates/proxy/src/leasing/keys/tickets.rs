//! Calls in flight that decide about owned keys. A call that a client cancels drops its ticket.

use std::sync::Arc;

use bytes::Bytes;
use proto::mvccpb::KeyValue;
use tokio::time::Instant;

use super::OwnedKeys;

/// An attempt to acquire a key.
#[derive(Debug)]
pub(in crate::leasing) struct AcquireTicket {
    keys: Arc<OwnedKeys>,
    key: Bytes,
    lease: i64,
    /// Whether the attempt has ended.
    settled: bool,
}

impl AcquireTicket {
    pub(super) fn new(keys: Arc<OwnedKeys>, key: Bytes, lease: i64) -> AcquireTicket {
        AcquireTicket { keys, key, lease, settled: false }
    }

    /// Returns the lease to acquire the key with.
    pub(in crate::leasing) fn lease(&self) -> i64 {
        self.lease
    }

    /// Ends the attempt: the leasing key was created at `owned_since`, and the key was read at
    /// `revision`.
    pub(in crate::leasing) fn acquired(
        mut self,
        owned_since: i64,
        kv: Option<KeyValue>,
        revision: i64,
    ) {
        self.settled = true;
        let mut slots = self.keys.slots.lock();
        slots.acquired(&self.key, self.lease, owned_since, kv, revision);
        self.keys.wake_tasks(&slots);
    }

    /// Ends the attempt: the leasing key was not created.
    pub(in crate::leasing) fn refused(mut self) {
        self.settled = true;
        self.keys.slots.lock().refused(&self.key, self.lease, Instant::now());
    }
}

impl Drop for AcquireTicket {
    /// Releases the key, unless the attempt has ended.
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let mut slots = self.keys.slots.lock();
        slots.abandoned(&self.key, self.lease, Instant::now());
        self.keys.wake_tasks(&slots);
    }
}

/// A write in flight.
#[derive(Debug)]
pub(in crate::leasing) struct WriteTicket {
    keys: Arc<OwnedKeys>,
    lease: i64,
    /// The owned keys that are written, with the creation revision of their leasing keys.
    owned: Vec<(Bytes, i64)>,
}

impl WriteTicket {
    pub(super) fn new(keys: Arc<OwnedKeys>, lease: i64, owned: Vec<(Bytes, i64)>) -> WriteTicket {
        WriteTicket { keys, lease, owned }
    }

    /// Returns the owned keys that are written.
    pub(in crate::leasing) fn owned(&self) -> &[(Bytes, i64)] {
        &self.owned
    }

    /// Returns the creation revision of the leasing key of a key; 0 if it is not owned.
    pub(in crate::leasing) fn owned_since(&self, key: &Bytes) -> i64 {
        self.owned.iter().find(|(owned, _)| owned == key).map_or(0, |(_, since)| *since)
    }

    /// Ends the write: `states` are those of the first owned keys at `revision`. The other keys
    /// are released.
    pub(in crate::leasing) fn written(
        mut self,
        states: impl IntoIterator<Item = Option<KeyValue>>,
        revision: i64,
    ) {
        let mut owned = std::mem::take(&mut self.owned).into_iter();
        let mut slots = self.keys.slots.lock();
        for (kv, (key, since)) in states.into_iter().zip(&mut owned) {
            slots.written(&key, self.lease, since, kv, revision);
        }
        drop(slots);
        // Dropping the ticket releases the rest.
        self.owned = owned.collect();
    }

    /// Ends the write: nothing was written, because some key is not owned as expected.
    /// `is_owned` returns whether a leasing key was created at a revision.
    pub(in crate::leasing) fn refused(mut self, is_owned: impl Fn(&Bytes, i64) -> bool) {
        let owned = std::mem::take(&mut self.owned);
        let mut slots = self.keys.slots.lock();
        for (key, since) in &owned {
            match is_owned(key, *since) {
                true => slots.not_written(key, self.lease, *since),
                false => slots.give_up(key, self.lease, *since),
            }
        }
    }
}

impl Drop for WriteTicket {
    /// Releases the keys of a write without a result.
    fn drop(&mut self) {
        let mut slots = self.keys.slots.lock();
        for (key, since) in &self.owned {
            slots.give_up(key, self.lease, *since);
        }
        self.keys.wake_tasks(&slots);
    }
}
