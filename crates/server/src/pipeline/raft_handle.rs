//! The access of other threads to the raft loop: its queue, and the progress it publishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sync::Queue;

use crate::pipeline::peer_inbox::PeerInbox;
use crate::pipeline::progress::RaftProgress;
use crate::pipeline::raft_loop::Event;

/// The queue of the raft loop and the state that it publishes.
#[derive(Debug)]
pub(crate) struct RaftHandle {
    pub(crate) queue: Queue<Event>,
    pub(crate) progress: RaftProgress,
    /// Bounds the messages of peers in the queue.
    pub(crate) peer_inbox: Arc<PeerInbox>,
    /// Whether the member takes part in consensus. False during an initial corruption check.
    participates: AtomicBool,
}

impl RaftHandle {
    pub(crate) fn new(participates: bool) -> RaftHandle {
        RaftHandle {
            queue: Queue::default(),
            progress: RaftProgress::default(),
            peer_inbox: Arc::default(),
            participates: AtomicBool::new(participates),
        }
    }

    /// Queues an event that wakes the loop. Returns false if the loop is over.
    pub(crate) fn push(&self, event: Event) -> bool {
        self.queue.push(event)
    }

    /// Queues an event that can wait for the acknowledgement of an append in flight. Returns false
    /// if the loop is over.
    pub(crate) fn push_deferred(&self, event: Event) -> bool {
        self.queue.push_deferred(event)
    }

    /// Returns whether the local member votes and processes messages of peers.
    pub(crate) fn participates(&self) -> bool {
        self.participates.load(Ordering::Acquire)
    }

    /// Starts to take part in consensus: the local data equals that of the peers.
    pub(crate) fn participate(&self) {
        self.participates.store(true, Ordering::Release);
    }
}
