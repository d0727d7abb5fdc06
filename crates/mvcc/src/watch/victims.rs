//! Victims: watchers whose stream is full.
//!
//! A victim holds the one response that did not fit, or nothing if the victims of its stream hold
//! too much already. It reads later revisions from history:
//!
//! ```text
//!   synced ─ publish @8, full ─► victim, holds @8, next 9 ─ room ─► unsynced, reads 9..
//!                                                                  (synced, if 8 is current)
//!                              └► victim, holds nothing, next 8 ─ room ─► unsynced, reads 8..
//! ```
//!
//! So a client that does not read costs its queue, the bounded responses of its victims, and the
//! watchers themselves, whatever is written. A victim misses events only if they are compacted
//! before there is room; then it is canceled.

use std::sync::Arc;

use super::hub_state::{HubState, Notifications};
use super::outbox::QueuedResponse;
use super::watcher::WatcherState;

impl HubState {
    /// Makes a watcher without a group a victim, after its response for the revisions `from..next`
    /// did not fit.
    pub(super) fn become_victim(
        &mut self,
        slot: usize,
        item: QueuedResponse,
        from: i64,
        next: i64,
    ) {
        let held = self.stream(self.watchers[slot].outbox.stream).victim_bytes;
        let hold = held + item.bytes() <= self.limits.victim_bytes;
        self.watchers[slot].next = if hold { next } else { from };
        self.join_victims(slot, hold.then_some(item));
    }

    /// Moves at most `count` victims of a stream on, while there is room. Returns how many, and
    /// whether more can be moved.
    pub(super) fn move_victims(
        &mut self,
        stream: u64,
        count: usize,
        notifications: &mut Notifications,
    ) -> (usize, bool) {
        for moved in 0..count {
            let Some(stream) = self.streams.get(&stream) else { return (moved, false) };
            let Some((_, &slot)) = stream.victims.first_key_value() else { return (moved, false) };
            if !self.move_victim(slot, notifications) {
                return (moved, false);
            }
        }
        (count, self.streams.get(&stream).is_some_and(|stream| !stream.victims.is_empty()))
    }

    /// Moves a victim on, if there is room.
    fn move_victim(&mut self, slot: usize, notifications: &mut Notifications) -> bool {
        let outbox = Arc::clone(&self.watchers[slot].outbox);
        if !outbox.wait_for_room() {
            return false;
        }
        if let Some(item) = self.take_held(slot) {
            // Filling the queue takes the lock of the hub, so there is still room.
            notifications.add(&outbox, outbox.push(item));
        }
        self.leave_group(slot);
        self.assign_group(slot);
        true
    }

    /// Takes the response that a victim holds.
    fn take_held(&mut self, slot: usize) -> Option<QueuedResponse> {
        let watcher = &mut self.watchers[slot];
        let WatcherState::Victim { held, .. } = &mut watcher.state else { return None };
        let item = held.take()?;
        let stream = watcher.outbox.stream;
        self.stream(stream).victim_bytes -= item.bytes();
        Some(*item)
    }
}
