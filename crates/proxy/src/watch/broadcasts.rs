//! Broadcasts and their receivers. Decides, and does no I/O.
//!
//! ```text
//!   [a, c)    broadcast 4   next 12   receivers 1, 2, 5        one watcher at a member each
//!             broadcast 7   next 9    receiver 6               still behind
//!   d         broadcast 5   next 0    receiver 3               not created yet
//! ```
//!
//! Invariants: a receiver belongs to one broadcast; a broadcast has a receiver; the next revision
//! of a receiver is not below that of its broadcast, so it misses nothing.

use std::collections::{BTreeMap, BTreeSet};

use proto::etcdserverpb::WatchResponse;

use super::WatchRange;
use super::receiver::Receiver;

/// A broadcast with this many receivers is not merged into another one. As in etcd.
const MERGED_RECEIVERS_MAX: usize = 5;

/// The id of a broadcast, and of its watcher at a member. Positive.
pub(crate) type BroadcastId = i64;
/// The id of a receiver.
pub(crate) type ReceiverId = u64;

/// All broadcasts.
#[derive(Debug, Default)]
pub(crate) struct Broadcasts {
    broadcasts: BTreeMap<BroadcastId, Broadcast>,
    by_range: BTreeMap<WatchRange, BTreeSet<BroadcastId>>,
    receivers: BTreeMap<ReceiverId, (BroadcastId, Receiver)>,
    last_broadcast: BroadcastId,
    last_receiver: ReceiverId,
}

/// The result of passing a response on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// The number of receivers.
    pub(crate) receivers: usize,
    /// The receivers whose client does not read. Nothing reaches them any more.
    pub(crate) overflown: Vec<ReceiverId>,
}

#[derive(Debug)]
struct Broadcast {
    range: WatchRange,
    /// The next revision of the watcher at the member; 0 for the current one.
    next_revision: i64,
    receivers: BTreeSet<ReceiverId>,
    /// Whether the member has created the watcher.
    created: bool,
}

impl Broadcasts {
    /// Adds a receiver to a broadcast that suits it, or to a new one. Returns its id, and that of
    /// a new broadcast.
    pub(crate) fn add(&mut self, mut receiver: Receiver) -> (ReceiverId, Option<BroadcastId>) {
        self.last_receiver += 1;
        let id = self.last_receiver;
        let siblings = self.by_range.get(&receiver.range).into_iter().flatten();
        let found = siblings.copied().find(|broadcast| {
            self.broadcasts.get(broadcast).is_some_and(|broadcast| broadcast.suits(&receiver))
        });
        if let Some(found) = found
            && let Some(broadcast) = self.broadcasts.get_mut(&found)
        {
            broadcast.receivers.insert(id);
            if broadcast.created {
                receiver.created();
            }
            self.receivers.insert(id, (found, receiver));
            return (id, None);
        }
        self.last_broadcast += 1;
        let opened = self.last_broadcast;
        let broadcast = Broadcast {
            range: receiver.range.clone(),
            next_revision: receiver.next_revision,
            receivers: BTreeSet::from([id]),
            created: false,
        };
        self.by_range.entry(receiver.range.clone()).or_default().insert(opened);
        self.broadcasts.insert(opened, broadcast);
        self.receivers.insert(id, (opened, receiver));
        (id, Some(opened))
    }

    /// Removes a receiver. Returns it, and its broadcast if that has no other receiver.
    pub(crate) fn remove(&mut self, id: ReceiverId) -> Option<(Receiver, Option<BroadcastId>)> {
        let (of, receiver) = self.receivers.remove(&id)?;
        let broadcast = self.broadcasts.get_mut(&of)?;
        broadcast.receivers.remove(&id);
        let closed = broadcast.receivers.is_empty();
        if closed {
            self.forget(of);
        }
        Some((receiver, closed.then_some(of)))
    }

    /// Passes a response on to all receivers.
    pub(crate) fn deliver(&mut self, id: BroadcastId, response: &WatchResponse) -> Delivered {
        let mut delivered = Delivered::default();
        let Some(broadcast) = self.broadcasts.get_mut(&id) else { return delivered };
        // A watcher starts at the requested revision, whatever the header of its creation.
        if broadcast.created || broadcast.next_revision == 0 {
            broadcast.next_revision = next_revision(response).max(broadcast.next_revision);
        }
        broadcast.created |= response.created;
        for id in &broadcast.receivers {
            if let Some((_, receiver)) = self.receivers.get_mut(id) {
                receiver.deliver(response);
                delivered.receivers += 1;
                if receiver.outbox.is_overflown() {
                    delivered.overflown.push(*id);
                }
            }
        }
        delivered
    }

    /// Removes a broadcast that the member has ended, with its receivers.
    pub(crate) fn close(&mut self, id: BroadcastId) {
        let Some(broadcast) = self.forget(id) else { return };
        for receiver in broadcast.receivers {
            self.receivers.remove(&receiver);
        }
    }

    /// Moves the receivers of a broadcast to another one of the same range that is not ahead of
    /// it. Returns whether the broadcast was removed.
    pub(crate) fn merge(&mut self, id: BroadcastId) -> bool {
        let Some(broadcast) = self.broadcasts.get(&id) else { return false };
        if !broadcast.created || broadcast.receivers.len() >= MERGED_RECEIVERS_MAX {
            return false;
        }
        let siblings = self.by_range.get(&broadcast.range).into_iter().flatten();
        let into = siblings.copied().find(|sibling| {
            let takes =
                |other: &Broadcast| other.created && other.next_revision <= broadcast.next_revision;
            *sibling != id && self.broadcasts.get(sibling).is_some_and(takes)
        });
        let Some(into) = into else { return false };
        let Some(merged) = self.forget(id) else { return false };
        for receiver in &merged.receivers {
            if let Some((of, _)) = self.receivers.get_mut(receiver) {
                *of = into;
            }
        }
        if let Some(broadcast) = self.broadcasts.get_mut(&into) {
            broadcast.receivers.extend(merged.receivers);
        }
        true
    }

    /// Returns the number of receivers that share a broadcast with an earlier one.
    pub(crate) fn sharing(&self) -> usize {
        self.receivers.len() - self.broadcasts.len()
    }

    fn forget(&mut self, id: BroadcastId) -> Option<Broadcast> {
        let broadcast = self.broadcasts.remove(&id)?;
        if let Some(siblings) = self.by_range.get_mut(&broadcast.range) {
            siblings.remove(&id);
            if siblings.is_empty() {
                self.by_range.remove(&broadcast.range);
            }
        }
        Some(broadcast)
    }
}

/// Returns the first revision that may follow a response.
///
/// The header alone does not show it: a member that catches a watcher up puts its newest revision
/// there, and may send older events after that.
pub(super) fn next_revision(response: &WatchResponse) -> i64 {
    let last = response.events.last().and_then(|event| event.kv.as_ref());
    let header = response.header.map_or(0, |header| header.revision);
    last.map_or(header, |kv| kv.mod_revision) + 1
}

impl Broadcast {
    /// Returns whether a receiver would miss nothing. A receiver of the current revision joins only
    /// a broadcast that is being created: it does not know the revision of any other.
    fn suits(&self, receiver: &Receiver) -> bool {
        let is_ahead = self.next_revision > receiver.next_revision;
        let is_undecided = self.next_revision == 0 && receiver.next_revision != 0;
        !is_ahead && !is_undecided
    }
}

#[cfg(test)]
mod tests {
    use super::super::receiver::Options;
    use super::super::receiver::tests::{events, put, receiver};
    use super::*;

    fn at(key: &str, revision: i64) -> Receiver {
        receiver(key, revision, Options::default())
    }

    fn created(revision: i64) -> WatchResponse {
        WatchResponse { created: true, ..events(revision, Vec::new()) }
    }

    #[test]
    fn watchers_of_one_range_share_a_broadcast_unless_it_is_ahead() {
        let mut all = Broadcasts::default();
        let (_, first) = all.add(at("a", 5));
        let first = first.expect("a new broadcast");
        assert_eq!(all.add(at("a", 7)).1, None);
        let (early, opened) = all.add(at("a", 4));
        assert!(opened.is_some(), "it would miss revision 4");
        all.remove(early);
        assert!(all.add(at("b", 5)).1.is_some(), "another key");
        assert_eq!(all.sharing(), 1);
        assert_eq!(all.deliver(first, &created(9)).receivers, 2);
        assert_eq!(all.deliver(first, &events(9, vec![put(9)])).receivers, 2);
        assert!(all.add(at("a", 9)).1.is_some(), "the broadcast has passed revision 9");
        assert_eq!(all.add(at("a", 10)).1, None);
    }

    #[test]
    fn current_watchers_share_only_a_broadcast_that_is_being_created() {
        let mut all = Broadcasts::default();
        let (_, first) = all.add(at("a", 0));
        assert_eq!(all.add(at("a", 0)).1, None);
        assert!(all.add(at("a", 3)).1.is_some(), "the revision is not known yet");
        all.deliver(first.expect("a new broadcast"), &created(8));
        let (_, second) = all.add(at("a", 0));
        let second = second.expect("a new broadcast");
        assert!(!all.merge(second), "not created yet");
        all.deliver(second, &created(8));
        assert!(all.merge(second), "it has caught up with the first");
        assert_eq!(all.sharing(), 2);
    }

    #[test]
    fn a_broadcast_that_catches_up_is_not_ahead_of_its_events() {
        let mut all = Broadcasts::default();
        let (_, slow) = all.add(at("a", 1));
        let slow = slow.expect("a new broadcast");
        let (_, fast) = all.add(at("a", 0));
        all.deliver(fast.expect("a new broadcast"), &created(100));
        all.deliver(slow, &created(100));
        all.deliver(slow, &events(100, vec![put(2)]));
        assert!(!all.merge(slow), "events from revision 3 on are still to come");
        all.deliver(slow, &events(100, vec![put(100)]));
        assert!(all.merge(slow));
    }

    #[test]
    fn a_late_watcher_receives_a_created_response() {
        let mut all = Broadcasts::default();
        let (_, first) = all.add(at("a", 5));
        all.deliver(first.expect("a new broadcast"), &created(4));
        let late = at("a", 6);
        let outbox = std::sync::Arc::clone(&late.outbox);
        all.add(late);
        let response = outbox.pop().expect("created");
        assert!(response.created);
        assert_eq!(response.header.map(|header| header.revision), Some(6));
    }

    #[test]
    fn the_last_receiver_closes_its_broadcast() {
        let mut all = Broadcasts::default();
        let (one, opened) = all.add(at("a", 5));
        let (two, _) = all.add(at("a", 5));
        assert_eq!(all.remove(one).expect("known").1, None);
        assert_eq!(all.remove(two).expect("known").1, opened);
        assert!(all.remove(two).is_none());
        assert!(all.broadcasts.is_empty() && all.by_range.is_empty());
    }

    #[test]
    fn a_broadcast_that_a_member_ends_takes_its_receivers_along() {
        let mut all = Broadcasts::default();
        let (one, opened) = all.add(at("a", 5));
        let opened = opened.expect("a new broadcast");
        all.deliver(opened, &created(9));
        all.close(opened);
        assert!(all.remove(one).is_none());
        assert!(all.add(at("a", 10)).1.is_some(), "later watchers get a new one");
    }

    #[test]
    fn a_large_broadcast_is_not_merged() {
        let mut all = Broadcasts::default();
        let (_, behind) = all.add(at("a", 1));
        all.deliver(behind.expect("a new broadcast"), &created(9));
        let (_, large) = all.add(at("a", 0));
        let large = large.expect("a new broadcast");
        for _ in 1..MERGED_RECEIVERS_MAX {
            all.add(at("a", 0));
        }
        all.deliver(large, &created(9));
        assert!(!all.merge(large));
    }
}
