//! A bound on the messages of peers that are queued for the raft loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of queued messages.
pub const PEER_MESSAGES_MAX: usize = 4096;
/// The maximum size of all queued messages together.
pub const PEER_MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The number and size of the queued messages of peers.
#[derive(Debug, Default)]
pub(crate) struct PeerInbox {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

/// The permit of one queued message, returned on drop.
#[derive(Debug)]
pub(crate) struct PeerInboxPermit {
    inbox: Arc<PeerInbox>,
    bytes: usize,
}

impl PeerInbox {
    /// Returns a permit for a message, or none if the inbox is full. An empty inbox takes a message
    /// of any size.
    pub(crate) fn try_acquire(
        self: &Arc<PeerInbox>,
        message: &raft::Message,
    ) -> Option<PeerInboxPermit> {
        let bytes = size_of_message(message);
        let queued = self.messages.fetch_add(1, Ordering::Relaxed);
        let queued_bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let permit = PeerInboxPermit { inbox: Arc::clone(self), bytes };
        let fits = queued < PEER_MESSAGES_MAX
            && (queued_bytes == 0 || queued_bytes.saturating_add(bytes) <= PEER_MESSAGE_BYTES_MAX);
        fits.then_some(permit)
    }
}

impl Drop for PeerInboxPermit {
    fn drop(&mut self) {
        self.inbox.messages.fetch_sub(1, Ordering::Relaxed);
        self.inbox.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn size_of_message(message: &raft::Message) -> usize {
    let entries = message.entries.iter().map(|entry| size_of_val(entry) + entry.data.len());
    let snapshot = message.snapshot.as_ref().map_or(0, |snapshot| snapshot.data.len());
    size_of_val(message) + entries.sum::<usize>() + snapshot + message.context.len()
}

#[cfg(test)]
mod tests {
    use raft::{Entry, Message};

    use super::*;

    #[test]
    fn the_number_of_queued_messages_and_their_bytes_are_bounded() {
        let inbox = Arc::new(PeerInbox::default());
        let mut permits: Vec<_> = (0..PEER_MESSAGES_MAX)
            .map(|_| inbox.try_acquire(&Message::default()).expect("the inbox has room"))
            .collect();
        assert!(inbox.try_acquire(&Message::default()).is_none());
        permits.pop();
        permits.push(inbox.try_acquire(&Message::default()).expect("a permit was returned"));
        drop(permits);

        let data = vec![0; PEER_MESSAGE_BYTES_MAX / 2].into();
        let large =
            Message { entries: vec![Entry { data, ..Entry::default() }], ..Message::default() };
        let first = inbox.try_acquire(&large).expect("the inbox is empty");
        assert!(inbox.try_acquire(&large).is_none(), "two exceed the bound");
        drop(first);
        assert!(inbox.try_acquire(&large).is_some());
    }
}
