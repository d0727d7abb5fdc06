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
//! Each connection is counted by itself: who does not read holds up its own answers, and nobody else's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;

/// No further answer is begun for a connection while so many bytes are unsent. Those that are under way then come on top.
pub const UNSENT_BYTES_MAX: usize = 64 << 20;
/// Answers that are shorter are not counted: there are as many as there are streams, which cost something like that themselves.
pub const COUNTED_BYTES_MIN: usize = 64 << 10;

/// The long answers of a connection that are not sent yet.
#[derive(Debug, Default)]
pub struct Unsent {
    bytes: AtomicUsize,
    freed: Notify,
}

impl Unsent {
    /// Whether another answer may be made.
    pub fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Acquire) < UNSENT_BYTES_MAX
    }

    /// Returns when another answer may be made.
    pub async fn room(&self) {
        loop {
            // Before it is looked: what is freed from now on is heard of.
            let freed = self.freed.notified();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// Counts an answer until the last of it is dropped.
    #[must_use]
    pub fn hold(self: &Arc<Self>, answer: Bytes) -> Bytes {
        if answer.len() < COUNTED_BYTES_MIN {
            return answer;
        }
        self.bytes.fetch_add(answer.len(), Ordering::AcqRel);
        Bytes::from_owner(Held { answer, unsent: Arc::clone(self) })
    }
}

/// An answer that is counted.
struct Held {
    answer: Bytes,
    unsent: Arc<Unsent>,
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

    #[test]
    fn who_does_not_take_its_answers_gets_no_more_of_them() {
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
