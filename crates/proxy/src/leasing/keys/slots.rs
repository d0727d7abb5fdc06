//! The state of every key. See the drawing in [`super`].
//!
//! ```text
//!   session   lease 7, valid until 12:00:50
//!   a   owned since 20   "1" at revision 31   no writers        bytes 40   last use 8
//!   b   owned since 24   absent at 24         1 writer          bytes 2    last use 9
//!   c   acquiring        revoked at 33
//!   d   releasing        since 18
//! ```
//!
//! Revisions order what is known about a leasing key: an event at revision 33 does not concern an
//! ownership that began at 35, in whatever order both are learned of.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use prost::Message as _;
use proto::etcdserverpb::ResponseHeader;
use proto::mvccpb::KeyValue;
use tokio::time::Instant;

use super::backoff::Backoffs;
use super::{LeasingEvent, Release};

/// The most keys that are owned, being acquired or being released.
pub(super) const KEYS_MAX: usize = 16_384;
/// The most keys beyond that which are released although this proxy did not know that it owns
/// them. With more, the session ends.
const ORPHANS_MAX: usize = 1024;
/// The most bytes of all owned keys and values.
pub(super) const BYTES_MAX: usize = 256 << 20;
/// The largest key and value that is owned.
const KEY_BYTES_MAX: usize = 8 << 20;

/// The lease that leasing keys are attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) lease: i64,
    /// The time until which the member keeps the lease in any case.
    pub(super) valid_until: Instant,
}

/// The state of all keys.
#[derive(Debug, Default)]
pub(super) struct Slots {
    session: Option<Session>,
    keys: BTreeMap<Bytes, Slot>,
    /// Owned keys by the time of their last use.
    uses: BTreeMap<u64, Bytes>,
    clock: u64,
    /// The bytes of all owned keys.
    bytes: usize,
    /// Keys in the state releasing whose release has not begun.
    releases: VecDeque<Bytes>,
    backoffs: Backoffs,
    /// The header with the newest revision of all answers.
    newest: ResponseHeader,
}

#[derive(Debug)]
enum Slot {
    /// `revoked` is the newest revision at which the leasing key was revoked or deleted.
    Acquiring {
        revoked: i64,
    },
    Owned(OwnedKey),
    Releasing {
        owned_since: Option<i64>,
    },
}

#[derive(Debug)]
struct OwnedKey {
    /// The creation revision of the leasing key.
    owned_since: i64,
    kv: Option<KeyValue>,
    /// The revision of the store at which the key was read.
    revision: i64,
    /// Writes in flight.
    writers: usize,
    bytes: usize,
    last_use: u64,
}

impl Slots {
    pub(super) fn session(&self) -> Option<Session> {
        self.session
    }

    /// Forgets all keys, and begins another session.
    pub(super) fn restart(&mut self, session: Option<Session>) {
        let (newest, clock) = (self.newest, self.clock);
        *self = Slots { session, newest, clock, ..Slots::default() };
    }

    pub(super) fn extend_session(&mut self, valid_until: Instant) {
        if let Some(session) = &mut self.session {
            session.valid_until = valid_until;
        }
    }

    pub(super) fn record_revision(&mut self, header: &ResponseHeader) {
        if header.revision >= self.newest.revision {
            self.newest = *header;
        }
    }

    /// Returns the header of an answer: an owned key does not change, so its state is the current
    /// one at every revision that a member has reported.
    pub(super) fn header(&self) -> ResponseHeader {
        self.newest
    }

    /// Returns the current state of a key that is answered from memory.
    pub(super) fn get(&self, key: &Bytes, now: Instant) -> Option<Option<&KeyValue>> {
        let is_valid = self.session.is_some_and(|session| now < session.valid_until);
        match self.keys.get(key) {
            Some(Slot::Owned(owned)) if is_valid && owned.writers == 0 => Some(owned.kv.as_ref()),
            _ => None,
        }
    }

    /// Returns what [`get`](Slots::get) does, and notes the use.
    pub(super) fn read(&mut self, key: &Bytes, now: Instant) -> Option<Option<&KeyValue>> {
        self.get(key, now)?;
        self.clock += 1;
        if let Some(Slot::Owned(owned)) = self.keys.get_mut(key) {
            if let Some(key) = self.uses.remove(&owned.last_use) {
                self.uses.insert(self.clock, key);
            }
            owned.last_use = self.clock;
        }
        self.get(key, now)
    }

    /// Begins to acquire a key that is in no state. Returns the lease to acquire it with, or none
    /// if the key must not be acquired now. Evicts another key if there is no room.
    pub(super) fn acquire(&mut self, key: &Bytes, now: Instant) -> Option<i64> {
        let session = self.session.filter(|session| now < session.valid_until)?;
        if self.keys.contains_key(key) || self.backoffs.contains(key, now) {
            return None;
        }
        if self.keys.len() >= KEYS_MAX {
            self.evict_oldest();
            return None;
        }
        self.keys.insert(detached(key), Slot::Acquiring { revoked: 0 });
        Some(session.lease)
    }

    /// Ends an attempt to acquire a key. `kv` is its state at `revision`.
    pub(super) fn acquired(
        &mut self,
        key: &Bytes,
        lease: i64,
        owned_since: i64,
        kv: Option<KeyValue>,
        revision: i64,
    ) {
        let Some(revoked) = self.acquiring(key, lease) else { return };
        // A key with a lease disappears without a write.
        let is_leased = kv.as_ref().is_some_and(|kv| kv.lease != 0);
        let bytes = weight(key, kv.as_ref());
        if revoked >= owned_since || is_leased || bytes > KEY_BYTES_MAX {
            return self.release(key, Some(owned_since));
        }
        self.clock += 1;
        self.uses.insert(self.clock, key.clone());
        self.bytes += bytes;
        let last_use = self.clock;
        let owned = OwnedKey { owned_since, kv, revision, writers: 0, bytes, last_use };
        self.keys.insert(key.clone(), Slot::Owned(owned));
        self.evict_surplus();
    }

    /// Ends an attempt to acquire a key that another proxy owns, or that has a lease.
    pub(super) fn refused(&mut self, key: &Bytes, lease: i64, now: Instant) {
        if self.acquiring(key, lease).is_some() {
            self.keys.remove(key);
            self.backoffs.add(key.clone(), now);
        }
    }

    /// Ends an attempt to acquire a key without a result: the leasing key may exist.
    pub(super) fn abandoned(&mut self, key: &Bytes, lease: i64, now: Instant) {
        if self.acquiring(key, lease).is_some() {
            self.backoffs.add(key.clone(), now);
            self.release(key, None);
        }
    }

    /// Returns the newest revocation of a key that is being acquired in this session.
    fn acquiring(&self, key: &Bytes, lease: i64) -> Option<i64> {
        match self.keys.get(key) {
            Some(Slot::Acquiring { revoked }) if self.is_current(lease) => Some(*revoked),
            _ => None,
        }
    }

    fn is_current(&self, lease: i64) -> bool {
        self.session.is_some_and(|session| session.lease == lease)
    }

    /// Begins a write. Returns the lease of the session, and those keys that are owned, with the
    /// creation revision of their leasing keys.
    pub(super) fn begin_write(&mut self, keys: &[Bytes]) -> (i64, Vec<(Bytes, i64)>) {
        let mut written = Vec::new();
        for key in keys {
            if let Some(Slot::Owned(owned)) = self.keys.get_mut(key) {
                owned.writers += 1;
                written.push((key.clone(), owned.owned_since));
            }
        }
        (self.session.map_or(0, |session| session.lease), written)
    }

    /// Ends a write of an owned key, whose state at `revision` is `kv`.
    pub(super) fn written(
        &mut self,
        key: &Bytes,
        lease: i64,
        owned_since: i64,
        kv: Option<KeyValue>,
        revision: i64,
    ) {
        let bytes = weight(key, kv.as_ref());
        let is_leased = kv.as_ref().is_some_and(|kv| kv.lease != 0);
        let Some(owned) = self.owned(key, lease, owned_since) else { return };
        owned.writers -= 1;
        if is_leased || bytes > KEY_BYTES_MAX {
            return self.release(key, Some(owned_since));
        }
        // Two writes in flight may be answered in any order.
        if revision > owned.revision {
            let before = std::mem::replace(&mut owned.bytes, bytes);
            let detached = |kv: KeyValue| KeyValue {
                key: detached(&kv.key),
                value: detached(&kv.value),
                ..kv
            };
            (owned.kv, owned.revision) = (kv.map(detached), revision);
            self.bytes = self.bytes - before + bytes;
            self.evict_surplus();
        }
    }

    /// Ends a write that was not executed. The key is still owned.
    pub(super) fn not_written(&mut self, key: &Bytes, lease: i64, owned_since: i64) {
        if let Some(owned) = self.owned(key, lease, owned_since) {
            owned.writers -= 1;
        }
    }

    /// Ends a write whose result is unknown or not kept.
    pub(super) fn give_up(&mut self, key: &Bytes, lease: i64, owned_since: i64) {
        if self.owned(key, lease, owned_since).is_some() {
            self.release(key, Some(owned_since));
        }
    }

    /// Returns an ownership, unless it has ended.
    fn owned(&mut self, key: &Bytes, lease: i64, owned_since: i64) -> Option<&mut OwnedKey> {
        let is_current = self.is_current(lease);
        match self.keys.get_mut(key) {
            Some(Slot::Owned(owned)) if is_current && owned.owned_since == owned_since => {
                Some(owned)
            }
            _ => None,
        }
    }

    /// Applies an event of the leasing key of a key.
    pub(super) fn apply(&mut self, key: &Bytes, event: LeasingEvent, now: Instant) {
        let Some(session) = self.session else { return };
        match event {
            LeasingEvent::Revoked { lease, owned_since, revision } if lease == session.lease => {
                self.revoked(key, owned_since, revision, now);
            }
            LeasingEvent::Acquired { lease, .. } if lease == session.lease => {}
            LeasingEvent::Revoked { revision, .. }
            | LeasingEvent::Acquired { revision, .. }
            | LeasingEvent::Deleted { revision } => self.lost(key, revision),
        }
    }

    /// Releases a key that another writer has revoked.
    fn revoked(&mut self, key: &Bytes, owned_since: i64, revision: i64, now: Instant) {
        let is_full = self.keys.len() >= KEYS_MAX + ORPHANS_MAX;
        match self.keys.get_mut(key) {
            Some(Slot::Acquiring { revoked }) => *revoked = revision.max(*revoked),
            Some(Slot::Owned(owned)) if owned.owned_since > owned_since => return,
            Some(Slot::Releasing { .. }) => {}
            None if is_full => return self.restart(None),
            // Without a state: an attempt to acquire it was abandoned, and was executed later.
            Some(Slot::Owned(_)) | None => self.release(key, Some(owned_since)),
        }
        self.backoffs.add(detached(key), now);
    }

    /// Forgets a key whose leasing key was deleted, or belongs to another owner.
    fn lost(&mut self, key: &Bytes, revision: i64) {
        match self.keys.get_mut(key) {
            Some(Slot::Acquiring { revoked }) => *revoked = revision.max(*revoked),
            Some(Slot::Owned(owned)) if owned.owned_since < revision => self.remove(key),
            Some(Slot::Owned(_) | Slot::Releasing { .. }) | None => {}
        }
    }

    /// Puts a key into the state releasing.
    fn release(&mut self, key: &Bytes, owned_since: Option<i64>) {
        self.remove(key);
        let key = detached(key);
        self.keys.insert(key.clone(), Slot::Releasing { owned_since });
        self.releases.push_back(key);
    }

    pub(super) fn has_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    pub(super) fn next_release(&mut self) -> Option<Release> {
        let lease = self.session?.lease;
        let key = self.releases.pop_front()?;
        let owned_since = match self.keys.get(&key) {
            Some(Slot::Releasing { owned_since }) => *owned_since,
            _ => None,
        };
        Some(Release { key, lease, owned_since })
    }

    pub(super) fn released(&mut self, release: &Release) {
        let is_current = self.is_current(release.lease);
        if is_current && matches!(self.keys.get(&release.key), Some(Slot::Releasing { .. })) {
            self.keys.remove(&release.key);
        }
    }

    fn remove(&mut self, key: &Bytes) {
        if let Some(Slot::Owned(owned)) = self.keys.remove(key) {
            self.uses.remove(&owned.last_use);
            self.bytes -= owned.bytes;
        }
    }

    fn evict_surplus(&mut self) {
        while self.bytes > BYTES_MAX && !self.uses.is_empty() {
            self.evict_oldest();
        }
    }

    /// Releases the key that was not used for the longest time.
    fn evict_oldest(&mut self) {
        let Some(oldest) = self.uses.values().next().cloned() else { return };
        if let Some(Slot::Owned(owned)) = self.keys.get(&oldest) {
            let owned_since = owned.owned_since;
            self.release(&oldest, Some(owned_since));
        }
    }
}

/// Returns a copy. A key or value shares the buffer of its message, which may be much longer and
/// would be kept as a whole.
pub(super) fn detached(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn weight(key: &Bytes, kv: Option<&KeyValue>) -> usize {
    key.len() + kv.map_or(0, KeyValue::encoded_len)
}
