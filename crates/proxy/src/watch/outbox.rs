//! Responses to a client stream that its connection has not taken yet.
//!
//! An outbox holds [`RESPONSES_MAX`] responses, as etcd's, and [`BYTES_MAX`] bytes. A burst may
//! exceed the number for [`GRACE`], in which a client that reads catches up. One that does not has
//! its stream ended: its watches can be resumed from the last revision that it has received.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message as _;
use proto::etcdserverpb::WatchResponse;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The most responses, except for a burst. As in etcd.
const RESPONSES_MAX: usize = 1024;
/// The most bytes, whatever the number of responses. A single response may be larger.
const BYTES_MAX: usize = 64 << 20;
/// The time for which there may be more responses. As in etcd.
const GRACE: Duration = Duration::from_millis(50);

/// Responses to a client stream.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
    pushed: Notify,
}

#[derive(Debug, Default)]
struct OutboxState {
    responses: VecDeque<WatchResponse>,
    bytes: usize,
    /// The time since which there are too many responses.
    full_since: Option<Instant>,
    overflown: bool,
}

impl Outbox {
    /// Adds a response. If there are too many for too long, they are dropped, and the stream ends.
    pub(crate) fn push(&self, response: WatchResponse) {
        let mut state = self.state.lock();
        if state.overflown {
            return;
        }
        state.bytes += response.encoded_len();
        state.responses.push_back(response);
        if state.is_overflown() {
            *state = OutboxState { overflown: true, ..OutboxState::default() };
            tracing::error!(
                "failed to put a watch response on the watcher's proxy stream channel,err is timeout"
            );
        }
        drop(state);
        self.pushed.notify_one();
    }

    /// Takes the oldest response.
    pub(crate) fn pop(&self) -> Option<WatchResponse> {
        let mut state = self.state.lock();
        let response = state.responses.pop_front()?;
        state.bytes -= response.encoded_len();
        if state.responses.len() <= RESPONSES_MAX {
            state.full_since = None;
        }
        Some(response)
    }

    /// Returns whether the stream has to end.
    pub(crate) fn is_overflown(&self) -> bool {
        self.state.lock().overflown
    }

    /// Waits for a response, or for the overflow. One waiter at a time.
    pub(crate) async fn pushed(&self) {
        self.pushed.notified().await;
    }
}

impl OutboxState {
    fn is_overflown(&mut self) -> bool {
        if self.responses.len() > 1 && self.bytes > BYTES_MAX {
            return true;
        }
        if self.responses.len() <= RESPONSES_MAX {
            return false;
        }
        let now = Instant::now();
        now - *self.full_since.get_or_insert(now) > GRACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_overflows_after_a_while() {
        let outbox = Outbox::default();
        for _ in 0..2 * RESPONSES_MAX {
            outbox.push(WatchResponse::default());
        }
        assert!(!outbox.is_overflown(), "a burst");
        tokio::time::advance(2 * GRACE).await;
        outbox.push(WatchResponse::default());
        assert!(outbox.is_overflown());
        assert_eq!(outbox.pop(), None, "the memory is freed at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_catches_up_does_not_overflow() {
        let outbox = Outbox::default();
        for _ in 0..RESPONSES_MAX + 1 {
            outbox.push(WatchResponse::default());
        }
        assert!(outbox.pop().is_some());
        tokio::time::advance(2 * GRACE).await;
        outbox.push(WatchResponse::default());
        assert!(!outbox.is_overflown(), "the time begins anew");
        outbox.pushed().await;
    }

    #[test]
    fn bytes_are_bounded() {
        let outbox = Outbox::default();
        let large =
            || WatchResponse { cancel_reason: "x".repeat(BYTES_MAX), ..WatchResponse::default() };
        outbox.push(large());
        assert!(!outbox.is_overflown(), "a single response is always accepted");
        outbox.push(large());
        assert!(outbox.is_overflown());
    }
}
