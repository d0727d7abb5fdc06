//! A bound on the memory of partially received messages, over all clients.
//!
//! A message must be complete before it can be handled, so its first part is kept. A client that
//! never sends the rest makes the server keep that part, on as many streams and connections as it
//! likes. All partial messages therefore share one budget:
//!
//! ```text
//!   bytes arrive ─► message complete? ─► yes: handled, no longer counted
//!        ▲                └ no: Receiving::poll_wait ─► waits
//!        └────────────────────────────────────────────────┤
//!          budget exceeded, this message oldest: refused ◄─┤
//!                                 time exceeded: refused ◄─┘
//! ```
//!
//! A message that arrives in one piece is never counted, nor is one of which more bytes can be read
//! at once: only waiting messages count. A complete request counts too while its call waits for
//! room for the response ([`ReceiveBudget::count_while`]): its bytes no longer fill the
//! flow-control window of the connection, so that a client that does not read could send any number
//! of them.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use net::{Evicted, EvictingLimit, Permit};
use tokio::time::{Sleep, sleep};

use crate::status::{Code, Status};

/// The budget for all partial messages. Beyond it, the oldest ones are evicted.
pub(crate) const RECEIVE_BYTES_MAX: usize = 256 << 20;
/// The number of messages of the greatest length that the budget has room for, whatever that length
/// is configured to.
const LONGEST_MIN: usize = 4;
/// The longest time from the first byte of a message to its last: as long as etcd allows for
/// headers.
pub(crate) const RECEIVE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// The budget of all partially received messages.
#[derive(Clone, Debug)]
pub struct ReceiveBudget {
    limit: Arc<EvictingLimit>,
    exceeded: &'static str,
}

impl ReceiveBudget {
    /// Creates a budget for messages of at most `bytes_max` bytes each. `exceeded` is the text for
    /// clients whose message is evicted.
    pub(crate) fn new(bytes_max: usize, exceeded: &'static str) -> ReceiveBudget {
        let weight_max = RECEIVE_BYTES_MAX.max(bytes_max.saturating_mul(LONGEST_MIN));
        ReceiveBudget { limit: EvictingLimit::new(weight_max), exceeded }
    }

    /// Awaits `room`, and counts the `bytes` of a request that is kept until then.
    ///
    /// # Errors
    /// The request was evicted, or waited for too long. It has had no effect.
    pub async fn count_while<T>(
        &self,
        bytes: usize,
        room: impl Future<Output = T>,
    ) -> Result<T, ReceiveError> {
        let (mut room, mut receiving) = (pin!(room), Receiving::default());
        poll_fn(|cx| match room.as_mut().poll(cx) {
            Poll::Ready(room) => Poll::Ready(Ok(room)),
            Poll::Pending => receiving.poll_wait(self, bytes, cx).map(Err),
        })
        .await
    }
}

/// The next message of one stream.
#[derive(Debug, Default)]
pub struct Receiving(Option<Partial>);

#[derive(Debug)]
struct Partial {
    permit: Permit,
    evicted: Arc<Evicted>,
    timeout: Pin<Box<Sleep>>,
}

impl Receiving {
    /// Counts `bytes` of a partial message against the budget and waits for the rest. Ready with an
    /// error if the message is evicted or takes too long.
    pub fn poll_wait(
        &mut self,
        budget: &ReceiveBudget,
        bytes: usize,
        cx: &mut Context<'_>,
    ) -> Poll<ReceiveError> {
        if bytes == 0 {
            self.finish();
            return Poll::Pending;
        }
        let partial = self.0.get_or_insert_with(|| Partial::new(budget));
        partial.permit.set_weight(bytes);
        if partial.evicted.poll(cx).is_ready() {
            return Poll::Ready(ReceiveError::BudgetExceeded(budget.exceeded));
        }
        partial.timeout.as_mut().poll(cx).map(|()| ReceiveError::TimedOut)
    }

    /// Returns the bytes of the message to the budget.
    pub fn finish(&mut self) {
        self.0 = None;
    }
}

impl Partial {
    fn new(budget: &ReceiveBudget) -> Partial {
        let evicted = Arc::<Evicted>::default();
        let permit = budget.limit.acquire(0, Arc::clone(&evicted));
        Partial { permit, evicted, timeout: Box::pin(sleep(RECEIVE_TIME_MAX)) }
    }
}

/// The reason why the rest of a message is not awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The budget was exceeded, and this message was the oldest.
    #[error("{0}")]
    BudgetExceeded(&'static str),
    /// The message took too long.
    #[error("context deadline exceeded")]
    TimedOut,
}

impl From<ReceiveError> for Status {
    fn from(error: ReceiveError) -> Status {
        match error {
            ReceiveError::BudgetExceeded(text) => Status::new(Code::ResourceExhausted, text),
            ReceiveError::TimedOut => Status::DEADLINE_EXCEEDED,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const EXCEEDED: &str = "too many requests";

    fn budget(bytes_max: usize) -> ReceiveBudget {
        ReceiveBudget::new(bytes_max, EXCEEDED)
    }

    #[tokio::test]
    async fn the_oldest_partial_message_is_evicted_first() {
        let (budget, mut cx) = (budget(1), Context::from_waker(Waker::noop()));
        let [mut old, mut new] = std::array::from_fn(|_| Receiving::default());
        assert_eq!(old.poll_wait(&budget, RECEIVE_BYTES_MAX, &mut cx), Poll::Pending);
        assert_eq!(new.poll_wait(&budget, 1, &mut cx), Poll::Pending);
        let evicted = old.poll_wait(&budget, RECEIVE_BYTES_MAX, &mut cx);
        assert_eq!(evicted, Poll::Ready(ReceiveError::BudgetExceeded(EXCEEDED)));
        assert_eq!(new.poll_wait(&budget, 2, &mut cx), Poll::Pending);
    }

    #[tokio::test]
    async fn a_complete_message_is_not_counted() {
        let (budget, mut cx) = (budget(1), Context::from_waker(Waker::noop()));
        let [mut first, mut second] = std::array::from_fn(|_| Receiving::default());
        assert_eq!(first.poll_wait(&budget, RECEIVE_BYTES_MAX, &mut cx), Poll::Pending);
        first.finish();
        assert_eq!(second.poll_wait(&budget, RECEIVE_BYTES_MAX, &mut cx), Poll::Pending);
        assert_eq!(first.poll_wait(&budget, 0, &mut cx), Poll::Pending);
        assert_eq!(second.poll_wait(&budget, RECEIVE_BYTES_MAX, &mut cx), Poll::Pending);
    }

    #[tokio::test]
    async fn a_request_that_waits_for_room_is_counted_until_there_is() {
        let (budget, mut cx) = (budget(1), Context::from_waker(Waker::noop()));
        let (has_room, room) = tokio::sync::oneshot::channel();
        let mut waiting = pin!(budget.count_while(RECEIVE_BYTES_MAX, room));
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        assert!(budget.limit.is_full());
        has_room.send(7).unwrap();
        assert_eq!(waiting.as_mut().await, Ok(Ok(7)));
        assert_eq!(budget.count_while(RECEIVE_BYTES_MAX, async { 8 }).await, Ok(8));
        assert!(!budget.limit.is_full(), "a call that need not wait is not counted");
    }

    #[tokio::test]
    async fn the_request_that_has_waited_the_longest_for_room_is_evicted_first() {
        let (budget, mut cx) = (budget(1), Context::from_waker(Waker::noop()));
        let [mut old, mut new] = std::array::from_fn(|_| {
            Box::pin(budget.count_while(RECEIVE_BYTES_MAX, std::future::pending::<()>()))
        });
        assert!(old.as_mut().poll(&mut cx).is_pending());
        assert!(new.as_mut().poll(&mut cx).is_pending());
        assert_eq!(old.await, Err(ReceiveError::BudgetExceeded(EXCEEDED)));
        assert!(new.as_mut().poll(&mut cx).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_takes_too_long_is_refused() {
        let (budget, mut receiving) = (budget(1), Receiving::default());
        let mut wait = |cx: &mut Context<'_>| receiving.poll_wait(&budget, 1, cx);
        assert_eq!(std::future::poll_fn(&mut wait).await, ReceiveError::TimedOut);
    }

    #[test]
    fn the_budget_has_room_for_messages_of_any_configured_length() {
        assert!(!budget(RECEIVE_BYTES_MAX).limit.is_full());
        let status = Status::from(ReceiveError::BudgetExceeded(EXCEEDED));
        assert_eq!(status.code, Code::ResourceExhausted);
        assert_eq!(status.message, EXCEEDED);
    }
}
