//! The keys that this proxy owns, and those that it acquires or releases. Does no I/O.
//!
//! ```text
//!                ┌── refused ──► (none), and not acquired for 2 s
//!   (none) ─► acquiring ── acquired ──► owned ── revoked, evicted ──► releasing ── released ──┐
//!     ▲          └── unknown result, or revoked meanwhile ───────────────┘                    │
//!     └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A read of a key in any state but owned goes to a member, and so does one of an owned key while
//! a write of it is in flight. The end of the session removes all keys at once.
//!
//! Calls that a client may cancel hold a [ticket](tickets): one that is dropped without a result
//! releases its keys, since the member may or may not have executed the request.

mod backoff;
mod slots;
mod tickets;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use proto::etcdserverpb::ResponseHeader;
use proto::mvccpb::{Event, KeyValue};
use tokio::sync::Notify;
use tokio::time::Instant;

use slots::{Session, Slots, detached};
pub(super) use tickets::{AcquireTicket, WriteTicket};

/// The keys of a proxy.
#[derive(Debug, Default)]
pub(super) struct OwnedKeys {
    slots: Mutex<Slots>,
    /// Wakes the task that releases keys.
    release_queued: Notify,
    /// Wakes the task that keeps the session, when another task has ended it.
    session_ended: Notify,
}

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum Lookup {
    /// The current state of the key, and the header of an answer.
    Owned(Option<KeyValue>, ResponseHeader),
    /// The caller may acquire the key.
    Free(AcquireTicket),
    /// A member has to answer.
    PassOn,
}

/// A key to release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) key: Bytes,
    pub(super) lease: i64,
    /// The creation revision of the leasing key, if it is known.
    pub(super) owned_since: Option<i64>,
}

/// An event of the leasing key of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeasingEvent {
    /// The owner has to release the leasing key.
    Revoked { lease: i64, owned_since: i64, revision: i64 },
    /// The leasing key was put with this lease.
    Acquired { lease: i64, revision: i64 },
    /// The leasing key was deleted.
    Deleted { revision: i64 },
}

impl OwnedKeys {
    /// Starts a session: keys are acquired with this lease, and answered from memory until
    /// `valid_until`.
    pub(super) fn start_session(&self, lease: i64, valid_until: Instant) {
        self.slots.lock().restart(Some(Session { lease, valid_until }));
    }

    /// Extends the session.
    pub(super) fn extend_session(&self, valid_until: Instant) {
        self.slots.lock().extend_session(valid_until);
    }

    /// Ends the session, and forgets all keys.
    pub(super) fn end_session(&self) {
        self.slots.lock().restart(None);
        self.session_ended.notify_one();
    }

    /// Waits until the session has ended. One waiter at a time.
    pub(super) async fn session_end(&self) {
        while self.slots.lock().session().is_some() {
            self.session_ended.notified().await;
        }
    }

    /// Looks up a key for a read, which may acquire the key if `acquires`.
    pub(super) fn lookup(self: &Arc<Self>, key: &Bytes, acquires: bool) -> Lookup {
        let now = Instant::now();
        let mut slots = self.slots.lock();
        if let Some(kv) = slots.read(key, now) {
            return Lookup::Owned(kv.cloned(), slots.header());
        }
        let acquired = acquires.then(|| slots.acquire(key, now)).flatten();
        // Acquiring may have evicted another key.
        self.wake_tasks(&slots);
        match acquired {
            Some(lease) => Lookup::Free(AcquireTicket::new(Arc::clone(self), detached(key), lease)),
            None => Lookup::PassOn,
        }
    }

    /// Evaluates a function of the current state, atomically.
    pub(super) fn view<T>(&self, f: impl FnOnce(&KeysView<'_>) -> Option<T>) -> Option<T> {
        let slots = self.slots.lock();
        f(&KeysView { slots: &slots, now: Instant::now() })
    }

    /// Begins a write of these keys. Reads of those that are owned go to a member until it ends.
    pub(super) fn begin_write(self: &Arc<Self>, keys: &[Bytes]) -> WriteTicket {
        let (lease, owned) = self.slots.lock().begin_write(keys);
        WriteTicket::new(Arc::clone(self), lease, owned)
    }

    /// Records the revision in a member's response header.
    pub(super) fn record_revision(&self, header: &ResponseHeader) {
        self.slots.lock().record_revision(header);
    }

    /// Applies an event of the leasing key of a key.
    pub(super) fn apply(&self, key: &Bytes, event: LeasingEvent) {
        let mut slots = self.slots.lock();
        slots.apply(key, event, Instant::now());
        self.wake_tasks(&slots);
    }

    /// Wakes the tasks that have something to do.
    fn wake_tasks(&self, slots: &Slots) {
        if slots.has_releases() {
            self.release_queued.notify_one();
        }
        if slots.session().is_none() {
            self.session_ended.notify_one();
        }
    }

    /// Takes the next key to release.
    pub(super) fn next_release(&self) -> Option<Release> {
        self.slots.lock().next_release()
    }

    /// Waits until there may be keys to release. One waiter at a time.
    pub(super) async fn release_queued(&self) {
        self.release_queued.notified().await;
    }

    /// Forgets a key that was released.
    pub(super) fn released(&self, release: &Release) {
        self.slots.lock().released(release);
    }
}

/// The state of the keys at one moment.
#[derive(Debug)]
pub(super) struct KeysView<'a> {
    slots: &'a Slots,
    now: Instant,
}

impl KeysView<'_> {
    /// Returns the current state of a key, or none if a member has to be queried.
    pub(super) fn get(&self, key: &Bytes) -> Option<Option<&KeyValue>> {
        self.slots.get(key, self.now)
    }

    /// Returns the header of an answer.
    pub(super) fn header(&self) -> ResponseHeader {
        self.slots.header()
    }
}

impl LeasingEvent {
    /// Parses an event of a watcher.
    pub(super) fn parse(event: &Event, revoke: &[u8]) -> Option<LeasingEvent> {
        let kv = event.kv.as_ref()?;
        let (lease, revision) = (kv.lease, kv.mod_revision);
        Some(match event.r#type == i32::from(proto::mvccpb::event::EventType::Put) {
            true if kv.value == revoke => {
                LeasingEvent::Revoked { lease, owned_since: kv.create_revision, revision }
            }
            true => LeasingEvent::Acquired { lease, revision },
            false => LeasingEvent::Deleted { revision },
        })
    }
}

#[cfg(test)]
mod tests;
