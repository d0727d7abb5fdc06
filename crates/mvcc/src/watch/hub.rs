//! The watch hub: delivers the events of each transaction to the watchers.
//!
//! The applier publishes transactions, the watch thread takes turns for watchers that are behind,
//! and each client reads its own [`Stream`]. All of them share `HubState` behind one lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::history::{History, HistoryError};
use super::hub_state::{HubState, Notifications, StreamState};
use super::limits::{Limits, PROGRESS_INTERVAL_MIN};
use super::outbox::{Notify, Outbox};
use super::progress::ProgressSchedule;
use super::stream::Stream;
use super::sync::SyncBatch;
use crate::event::Event;

/// The settings of the watch hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The response size in bytes from which a response is split, for watchers that allow it: the
    /// largest request plus the overhead of a message.
    pub fragment_bytes: usize,
    /// The interval of progress notifications.
    pub progress_interval: Duration,
    /// The bounds of queues and of the work per turn.
    pub limits: Limits,
}

/// The defaults of etcd's flags.
impl Default for Config {
    fn default() -> Config {
        Config {
            fragment_bytes: 2 << 20,
            progress_interval: Duration::from_secs(600),
            limits: Limits::default(),
        }
    }
}

/// The work that is left after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubTurn {
    /// More work is ready now.
    Again,
    /// No work is left until the hub calls `wake`.
    Idle,
}

/// All watchers of a member. Clones share the same hub.
#[derive(Clone)]
pub struct Hub {
    pub(super) shared: Arc<HubShared>,
}

/// The state shared by the hub and its streams.
///
/// Lock order: `turn`, `state`, the queue of a stream, `streams_with_room`. The last two are held
/// for a few instructions.
pub(super) struct HubShared {
    pub(super) fragment_bytes: usize,
    progress_interval: Duration,
    limits: Limits,
    state: Mutex<HubState>,
    /// Held for the duration of a turn: there is one at a time.
    turn: Mutex<()>,
    /// Streams whose victims can continue.
    streams_with_room: Mutex<BTreeSet<u64>>,
    wake: Notify,
    pending: Arc<AtomicUsize>,
}

impl Hub {
    /// Creates a hub without watchers, for a store at a revision. Calls `wake` when [`Hub::turn`]
    /// has work to do, or [`Hub::tick_progress`] has to be called earlier than it returned; never
    /// with a lock held.
    #[must_use]
    pub fn new(revision: i64, config: &Config, wake: Notify) -> Hub {
        let shared = HubShared {
            fragment_bytes: config.fragment_bytes,
            progress_interval: config.progress_interval.max(PROGRESS_INTERVAL_MIN),
            limits: config.limits,
            state: Mutex::new(HubState::new(revision, config.limits)),
            turn: Mutex::default(),
            streams_with_room: Mutex::default(),
            wake,
            pending: Arc::default(),
        };
        Hub { shared: Arc::new(shared) }
    }

    /// Delivers the events of an applied transaction. `publish` makes its revision visible in the
    /// store.
    ///
    /// Both happen as one step for clients that create a watcher or request progress. The changes
    /// are already readable in [`History`]. Streams are notified on this thread, after all locks
    /// are released.
    ///
    /// # Panics
    ///
    /// If the revision is not larger than all before.
    pub fn publish(&self, revision: i64, events: &[Event], publish: impl FnOnce()) {
        self.shared.with(|state, notifications| {
            // The store first: a client that receives an event can read it.
            publish();
            state.publish(revision, events, notifications);
        });
    }

    /// Moves all watchers to another store, which is at this revision. `publish` makes that store
    /// visible.
    ///
    /// Watchers continue at the revision they have reached. They read the revisions in between from
    /// the history of the new store, and are canceled if those are compacted.
    pub fn restore(&self, revision: i64, publish: impl FnOnce()) {
        self.shared.with(|state, _| {
            publish();
            state.restore(revision);
        });
        self.shared.wake();
    }

    /// Opens a stream for a client. `notify` is called when the empty stream gets a response. `now`
    /// is monotonic. `jitter`, a random time up to a tenth of the interval, delays progress
    /// notifications so that the streams do not send them all at once.
    #[must_use]
    pub fn stream(&self, notify: Notify, now: Duration, jitter: Duration) -> Stream {
        let shared = &self.shared;
        let outbox = shared.with(|state, _| {
            let number = state.stream_number();
            let pending = Arc::clone(&shared.pending);
            let outbox = Arc::new(Outbox::new(number, notify, shared.limits, pending));
            let progress =
                ProgressSchedule::new(now, shared.progress_interval.saturating_add(jitter));
            state.progress_due.insert((progress.due(), number));
            state.streams.insert(number, StreamState::new(Arc::clone(&outbox), progress));
            outbox
        });
        // The new stream may be the next one due for progress notifications.
        shared.wake();
        Stream::new(Arc::clone(shared), outbox)
    }

    /// Executes a bounded part of the work: moves victims whose streams have room, then syncs
    /// unsynced watchers.
    ///
    /// # Errors
    ///
    /// If history cannot be read. No event is lost, but the database is damaged and the member has
    /// to stop.
    pub fn turn(&self, history: &dyn History) -> Result<HubTurn, HistoryError> {
        let _alone = self.shared.turn.lock();
        self.shared.move_victims();
        let compacted = history.compacted();
        if let Some(mut sync) = self.begin_sync(compacted) {
            // A history that ends earlier belongs to a store that was replaced meanwhile: ignore
            // what was read.
            let walked = sync.walk(history).map(|()| history.current() >= sync.to);
            self.shared
                .with(|state, notifications| state.finish_sync(sync, walked, notifications))?;
        }
        Ok(self.next())
    }

    /// Sends the progress notifications that are due. Returns the time of the next one, if there is
    /// a stream.
    pub fn tick_progress(&self, now: Duration) -> Option<Duration> {
        self.shared.with(|state, notifications| state.tick_progress(now, notifications))
    }

    /// Returns the last published revision.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.shared.state().current
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.state().streams.len()
    }

    /// Returns the number of watchers.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.shared.state().watchers.len()
    }

    /// Returns the number of watchers that are behind: unsynced watchers and victims.
    #[must_use]
    pub fn slow_watchers(&self) -> usize {
        let state = self.shared.state();
        state.watchers.len() - state.synced.len()
    }

    /// Returns the number of events in the queues of the streams.
    #[must_use]
    pub fn pending_events(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    fn begin_sync(&self, compacted: i64) -> Option<SyncBatch> {
        self.shared.with(|state, notifications| state.begin_sync(compacted, notifications))
    }

    fn next(&self) -> HubTurn {
        let idle =
            self.shared.state().unsynced.is_empty() && self.shared.streams_with_room().is_empty();
        if idle { HubTurn::Idle } else { HubTurn::Again }
    }
}

impl HubShared {
    /// Calls `f` under the lock, then notifies streams after releasing it.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut HubState, &mut Notifications) -> T) -> T {
        let mut notifications = Notifications::default();
        let result = f(&mut self.state(), &mut notifications);
        notifications.send();
        result
    }

    /// Requests a turn.
    pub(super) fn wake(&self) {
        (self.wake)();
    }

    /// Records that a stream with victims has room again, and wakes the hub.
    pub(super) fn has_room(&self, stream: u64) {
        self.streams_with_room().insert(stream);
        self.wake();
    }

    fn move_victims(&self) {
        let streams = std::mem::take(&mut *self.streams_with_room());
        let mut left = self.limits.turn_watchers;
        for stream in streams {
            let (moved, more) =
                self.with(|state, notifications| state.move_victims(stream, left, notifications));
            left -= moved;
            if more {
                self.streams_with_room().insert(stream);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock()
    }

    fn streams_with_room(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.streams_with_room.lock()
    }
}

impl HubState {
    /// Continues all synced watchers at the new store. They have every event of the old one; the
    /// revisions after it they read from history.
    fn restore(&mut self, revision: i64) {
        let seen = std::mem::replace(&mut self.current, revision);
        self.epoch += 1;
        for slot in self.watchers.slots() {
            if self.watchers[slot].is_synced() {
                self.watchers[slot].next = self.watchers[slot].next.max(seen + 1);
                self.leave_group(slot);
                self.assign_group(slot);
            }
        }
    }
}
