//! What is being received: messages of which something is still missing.
//!
//! A message must be whole before anything can be done with it, so what has come of it is kept. A client that never sends the rest has the member keep that, on as many
//! streams and connections as it likes. So whatever is unfinished is counted, over all of them:
//!
//! ```text
//!   bytes come ─► a whole message? ─► yes: handled, and no longer counted
//!        ▲               └ no: Receiving::poll_wait ─► waits
//!        └──────────────────────────────────────────────┘ └ too much is unfinished, and this came first: refused
//!                                                         └ too long: refused
//! ```
//!
//! Nothing is counted of a message that came in one piece, nor as long as there is more to read at once: only who waits is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use net::{Evicted, EvictingLimit, Permit};
use tokio::time::{Sleep, sleep};

use crate::grpc::{Code, Status};

/// What all unfinished messages may take. When there is more, those that were begun first are given up.
pub(crate) const RECEIVING_BYTES_MAX: usize = 256 << 20;
/// How many messages of the greatest length there is room for in any case, whatever that length was set to.
const LONGEST_MIN: usize = 4;
/// How long a message may take from when something of it has come until it is whole. As long as etcd lets headers take.
pub(crate) const RECEIVING_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// All unfinished messages. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Intake(Arc<EvictingLimit>);

impl Intake {
    /// For messages of so many bytes at most.
    pub(crate) fn new(bytes_max: usize) -> Intake {
        Intake(EvictingLimit::new(RECEIVING_BYTES_MAX.max(bytes_max.saturating_mul(LONGEST_MIN))))
    }
}

/// The message that is next on a stream.
#[derive(Debug, Default)]
pub(crate) struct Receiving(Option<Unfinished>);

#[derive(Debug)]
struct Unfinished {
    guest: Permit,
    exit: Arc<Evicted>,
    late: Pin<Box<Sleep>>,
}

impl Receiving {
    /// The rest of the message has to be waited for, while so many bytes of it are kept. Ready if it is given up.
    pub(crate) fn poll_wait(
        &mut self,
        intake: &Intake,
        bytes: usize,
        cx: &mut Context<'_>,
    ) -> Poll<GivenUp> {
        if bytes == 0 {
            self.finished();
            return Poll::Pending;
        }
        let unfinished = self.0.get_or_insert_with(|| Unfinished::begin(intake));
        unfinished.guest.set_weight(bytes);
        if unfinished.exit.poll(cx).is_ready() {
            return Poll::Ready(GivenUp::Crowded);
        }
        unfinished.late.as_mut().poll(cx).map(|()| GivenUp::Late)
    }

    /// Nothing is kept any longer.
    pub(crate) fn finished(&mut self) {
        self.0 = None;
    }
}

impl Unfinished {
    fn begin(intake: &Intake) -> Unfinished {
        let exit = Arc::<Evicted>::default();
        let guest = intake.0.acquire(0, Arc::clone(&exit));
        Unfinished { guest, exit, late: Box::pin(sleep(RECEIVING_TIME_MAX)) }
    }
}

/// Why a message is not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GivenUp {
    /// Too much was unfinished.
    #[error("etcdserver: too many requests")]
    Crowded,
    /// It took too long.
    #[error("context deadline exceeded")]
    Late,
}

impl From<GivenUp> for Status {
    fn from(given_up: GivenUp) -> Status {
        match given_up {
            GivenUp::Crowded => Status::new(Code::ResourceExhausted, given_up.to_string()),
            GivenUp::Late => Status::DEADLINE_EXCEEDED,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[tokio::test]
    async fn what_was_begun_first_is_given_up_first() {
        let (intake, mut cx) = (Intake::new(1), Context::from_waker(Waker::noop()));
        let [mut old, mut new] = std::array::from_fn(|_| Receiving::default());
        assert_eq!(old.poll_wait(&intake, RECEIVING_BYTES_MAX, &mut cx), Poll::Pending);
        assert_eq!(new.poll_wait(&intake, 1, &mut cx), Poll::Pending);
        let given_up = old.poll_wait(&intake, RECEIVING_BYTES_MAX, &mut cx);
        assert_eq!(given_up, Poll::Ready(GivenUp::Crowded));
        assert_eq!(new.poll_wait(&intake, 2, &mut cx), Poll::Pending);
    }

    #[tokio::test]
    async fn what_is_finished_is_not_counted() {
        let (intake, mut cx) = (Intake::new(1), Context::from_waker(Waker::noop()));
        let [mut first, mut second] = std::array::from_fn(|_| Receiving::default());
        assert_eq!(first.poll_wait(&intake, RECEIVING_BYTES_MAX, &mut cx), Poll::Pending);
        first.finished();
        assert_eq!(second.poll_wait(&intake, RECEIVING_BYTES_MAX, &mut cx), Poll::Pending);
        assert_eq!(first.poll_wait(&intake, 0, &mut cx), Poll::Pending);
        assert_eq!(second.poll_wait(&intake, RECEIVING_BYTES_MAX, &mut cx), Poll::Pending);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_given_up() {
        let (intake, mut receiving) = (Intake::new(1), Receiving::default());
        let mut wait = |cx: &mut Context<'_>| receiving.poll_wait(&intake, 1, cx);
        let given_up = std::future::poll_fn(&mut wait).await;
        assert_eq!(given_up, GivenUp::Late);
    }

    #[test]
    fn there_is_room_for_messages_of_any_length_that_was_set() {
        assert!(!Intake::new(RECEIVING_BYTES_MAX).0.is_full());
        let status = Status::from(GivenUp::Crowded);
        assert_eq!(status.code, Code::ResourceExhausted);
        assert_eq!(status.message, "etcdserver: too many requests");
    }
}
