//! The hub: where what is written meets those who watch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::history::{History, HistoryError};
use super::hub_state::{HubState, Notifications, StreamState};
use super::limits::{Limits, PROGRESS_INTERVAL_MIN};
use super::outbox::{Notify, Outbox};
use super::progress::Progress;
use super::stream::Stream;
use super::sync::SyncBatch;
use crate::event::Event;

/// How watchers are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A response of this size is split, for watchers that allow it: the largest request and what a message may have on top of it.
    pub fragment_bytes: usize,
    /// How often watchers that want it are told about their progress.
    pub progress_interval: Duration,
    /// How much may wait, and how much is done at once.
    pub limits: Limits,
}

/// The values that etcd has without any flags.
impl Default for Config {
    fn default() -> Config {
        Config {
            fragment_bytes: 2 << 20,
            progress_interval: Duration::from_secs(600),
            limits: Limits::default(),
        }
    }
}

/// What follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more to do now.
    Again,
    /// There is nothing to do until the hub calls for it.
    Idle,
}

/// All watchers of a member. Clones are the same hub.
#[derive(Clone)]
pub struct Hub {
    pub(super) shared: Arc<HubShared>,
}

/// What the hub and its streams share.
///
/// Locks are taken in this order: `turn`, `state`, a stream's queue, `streams_with_room`. The last two are leaves that are held for a few instructions.
pub(super) struct HubShared {
    pub(super) fragment_bytes: usize,
    progress_interval: Duration,
    limits: Limits,
    state: Mutex<HubState>,
    /// Held by who takes a turn: there is one at a time.
    turn: Mutex<()>,
    /// Streams whose victims have room now.
    streams_with_room: Mutex<BTreeSet<u64>>,
    wake: Notify,
    pending: Arc<AtomicUsize>,
}

impl Hub {
    /// A hub without watchers, for a store at a revision. It calls `wake` when there is something to do for [`Hub::turn`], or [`Hub::tick_progress`] may have to be called sooner than it said; never with a
    /// lock held.
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

    /// A transaction was applied: `publish` makes the store show its revision, and those who watch get its events.
    ///
    /// Both happen as one for whoever creates a watcher or asks for progress. By now the changes can be read from [`History`].
    /// Readers are told after all locks are released, on this thread.
    ///
    /// # Panics
    ///
    /// If the revision is not larger than all before.
    pub fn publish(&self, revision: i64, events: &[Event], publish: impl FnOnce()) {
        self.shared.with(|state, notifications| {
            // The store is first, so that who hears of an event also finds it there.
            publish();
            state.publish(revision, events, notifications);
        });
    }

    /// The store was replaced by another one that is at this revision: `publish` makes the new one visible.
    ///
    /// Watchers go on where they are: what lies between they read from the new store's history, and those for which that is compacted are ended.
    pub fn restore(&self, revision: i64, publish: impl FnOnce()) {
        self.shared.with(|state, _| {
            publish();
            state.restore(revision);
        });
        self.shared.wake();
    }

    /// A new stream for a client. `notify` is called when something can be read from it after there was nothing. `now` is monotonic; `jitter` is
    /// added to the interval of progress notifications, at random up to a tenth of it, so that not all streams are told at once.
    #[must_use]
    pub fn stream(&self, notify: Notify, now: Duration, jitter: Duration) -> Stream {
        let shared = &self.shared;
        let outbox = shared.with(|state, _| {
            let number = state.stream_number();
            let pending = Arc::clone(&shared.pending);
            let outbox = Arc::new(Outbox::new(number, notify, shared.limits, pending));
            let progress = Progress::new(now, shared.progress_interval.saturating_add(jitter));
            state.progress_due.insert((progress.due(), number));
            state.streams.insert(number, StreamState::new(Arc::clone(&outbox), progress));
            outbox
        });
        // Its progress may be the next that is due.
        shared.wake();
        Stream::new(Arc::clone(shared), outbox)
    }

    /// Does a bounded part of what waits: victims that have room now, then watchers that read history.
    ///
    /// # Errors
    ///
    /// If history cannot be read. Nothing is lost by it; but as the database is damaged, the member has to stop.
    pub fn turn(&self, history: &dyn History) -> Result<Next, HistoryError> {
        let _alone = self.shared.turn.lock();
        self.shared.move_victims();
        let compacted = history.compacted();
        if let Some(mut sync) = self.begin_sync(compacted) {
            // A history that does not come so far is that of a store which was replaced meanwhile: then nothing was read.
            let walked = sync.walk(history).map(|()| history.current() >= sync.to);
            self.shared
                .with(|state, notifications| state.finish_sync(sync, walked, notifications))?;
        }
        Ok(self.next())
    }

    /// Tells those that are due about their progress. Returns when it is to be called again, if any stream is there.
    pub fn tick_progress(&self, now: Duration) -> Option<Duration> {
        self.shared.with(|state, notifications| state.tick_progress(now, notifications))
    }

    /// The revision up to which everything was published.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.shared.state().current
    }

    /// How many streams there are.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.state().streams.len()
    }

    /// How many watchers there are.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.shared.state().watchers.len()
    }

    /// How many of them do not have all there is: unsynced ones and victims.
    #[must_use]
    pub fn slow_watchers(&self) -> usize {
        let state = self.shared.state();
        state.watchers.len() - state.synced.len()
    }

    /// How many events wait in the queues of the streams.
    #[must_use]
    pub fn pending_events(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    fn begin_sync(&self, compacted: i64) -> Option<SyncBatch> {
        self.shared.with(|state, notifications| state.begin_sync(compacted, notifications))
    }

    fn next(&self) -> Next {
        let idle =
            self.shared.state().unsynced.is_empty() && self.shared.streams_with_room().is_empty();
        if idle { Next::Idle } else { Next::Again }
    }
}

impl HubShared {
    /// Does something under the lock, then tells the syncing that have to be told.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut HubState, &mut Notifications) -> T) -> T {
        let mut notifications = Notifications::default();
        let result = f(&mut self.state(), &mut notifications);
        notifications.send();
        result
    }

    /// Calls for a turn.
    pub(super) fn wake(&self) {
        (self.wake)();
    }

    /// A stream has room again that its victims wait for.
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
    /// All that synced watchers had of the old store, up to its revision, they have. What is after that, they read.
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
