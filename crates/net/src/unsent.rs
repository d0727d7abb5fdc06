//! What a connection was answered, and has not been sent yet.
//!
//! An answer of one piece is handed over whole, and kept until its client has taken the last byte of it, however slowly. A client that asks and does not read
//! would have the member keep as many answers as it likes. So the long ones are counted, and whoever makes one asks first:
//!
//! ```text
//!   room ─► make an answer ─► hold ─► handed over ─► sent, or nobody wants it any more: dropped, and not counted any longer
//!     ▲                                                                            │
//!     └──────────────────────────── waits while too much is unsent ◄───────────────┘
//! ```
//!
//! Each connection is counted by itself: who does not read holds up its own answers, and nobody else's. But there may be many such connections. When they have too
//! much together, those that let their answers lie for the longest are cut ([`Crowd`]), and no connection that has not read its last answer gets another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::crowd::{Crowd, Exit, Guest};

/// No further answer is begun for a connection while so many bytes are unsent. Those that are under way then come on top.
pub const UNSENT_BYTES_MAX: usize = 64 << 20;
/// What all connections of a listener may have unsent before some are cut, or wait.
pub const UNSENT_TOTAL_BYTES_MAX: usize = 512 << 20;
/// How long an answer may lie before its connection is cut for it.
pub const UNSENT_TIME_MIN: Duration = Duration::from_secs(5);
/// How soon a connection that waits for others looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Answers that are shorter are not counted: there are as many as there are streams, which cost something like that themselves.
pub const COUNTED_BYTES_MIN: usize = 64 << 10;

/// The long answers of a connection that are not sent yet.
#[derive(Debug)]
pub struct Unsent {
    bytes: AtomicUsize,
    freed: Notify,
    total: Arc<Crowd>,
    exit: Arc<Exit>,
}

/// A connection that is alone.
impl Default for Unsent {
    fn default() -> Self {
        Self::among(&total())
    }
}

/// What all connections of a listener have unsent.
pub(crate) fn total() -> Arc<Crowd> {
    Crowd::sparing(UNSENT_TOTAL_BYTES_MAX, UNSENT_TIME_MIN)
}

impl Unsent {
    /// One of many connections.
    pub(crate) fn among(total: &Arc<Crowd>) -> Self {
        Self {
            bytes: AtomicUsize::default(),
            freed: Notify::default(),
            total: Arc::clone(total),
            exit: Arc::default(),
        }
    }

    /// Whether another answer may be made.
    pub fn has_room(&self) -> bool {
        match self.bytes.load(Ordering::Acquire) {
            0 => true,
            bytes => bytes < UNSENT_BYTES_MAX && !self.total.is_full(),
        }
    }

    /// Returns when another answer may be made.
    pub async fn room(&self) {
        loop {
            // Before it is looked: what is freed from now on is heard of.
            let freed = self.freed.notified();
            if self.has_room() {
                return;
            }
            // What others free is not heard of.
            let _ = timeout(LOOK_AGAIN, freed).await;
        }
    }

    /// Has the connection cut.
    pub(crate) fn give_up(&self) {
        self.exit.show();
    }

    /// Whether the connection has to be cut.
    pub(crate) fn is_given_up(&self) -> bool {
        self.exit.is_shown()
    }

    /// Returns when the connection has to be cut.
    pub(crate) async fn given_up(&self) {
        self.exit.shown().await;
    }

    /// Counts an answer until the last of it is dropped.
    #[must_use]
    pub fn hold(self: &Arc<Self>, answer: Bytes) -> Bytes {
        if answer.len() < COUNTED_BYTES_MIN {
            return answer;
        }
        self.bytes.fetch_add(answer.len(), Ordering::AcqRel);
        let guest = self.total.join(answer.len(), Arc::clone(&self.exit));
        Bytes::from_owner(Held { answer, unsent: Arc::clone(self), _guest: guest })
    }
}

/// An answer that is counted.
struct Held {
    answer: Bytes,
    unsent: Arc<Unsent>,
    _guest: Guest,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.unsent.bytes.fetch_sub(self.answer.len(), Ordering::AcqRel);
        self.unsent.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_lets_answers_lie_is_cut_when_all_have_too_much() {
        let total = total();
        let [old, new, third] = std::array::from_fn(|_| Arc::new(Unsent::among(&total)));
        // Zeros are not in memory before somebody looks at them.
        let half = || Bytes::from(vec![0; UNSENT_TOTAL_BYTES_MAX / 2]);
        let kept = (old.hold(half()), new.hold(half()));
        assert!(!old.has_room() && third.has_room(), "who has read everything is served");

        tokio::time::advance(UNSENT_TIME_MIN).await;
        let more = third.hold(Bytes::from(vec![7; COUNTED_BYTES_MIN]));
        old.given_up().await;
        let mut cx = Context::from_waker(Waker::noop());
        assert!(new.exit.poll(&mut cx).is_pending());
        drop((kept, more));
        assert!(!total.is_full());
    }

    #[tokio::test]
    async fn who_does_not_take_its_answers_gets_no_more_of_them() {
        let unsent = Arc::new(Unsent::default());
        let large = unsent.hold(Bytes::from(vec![7; UNSENT_BYTES_MAX]));
        assert!(!unsent.has_room());
        let mut cx = Context::from_waker(Waker::noop());
        let mut room = pin!(unsent.room());
        assert!(room.as_mut().poll(&mut cx).is_pending());

        // As long as any part of it is somewhere, it is there.
        let part = large.slice(..1);
        drop(large);
        assert!(room.as_mut().poll(&mut cx).is_pending());
        assert_eq!(part, [7][..]);
        drop(part);
        assert!(room.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn short_answers_are_not_counted_and_not_touched() {
        let unsent = Arc::new(Unsent::default());
        let answer = Bytes::from(vec![7; COUNTED_BYTES_MIN - 1]);
        assert_eq!(unsent.hold(answer.clone()).as_ptr(), answer.as_ptr());
        assert_eq!(unsent.bytes.load(Ordering::Relaxed), 0);
    }
}
