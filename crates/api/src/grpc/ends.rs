//! Why a stream ends that neither its client nor its handler ends: the member stops, or has had no leader for long.
//!
//! A client that says `hasleader: true` wants no answers from a member that is cut off from the others: new calls are refused at once, and running streams are
//! ended after three election timeouts without a leader, since it costs much to set them up again.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use server::Server;
use tokio::sync::watch;

use super::errors::Canonical;
use super::status::Status;

/// Election timeouts without a leader before streams are ended that need one.
const LEADERLESS_TIMEOUTS: u32 = 3;

/// Ends streams.
#[derive(Debug)]
pub(crate) struct Ends {
    signal: watch::Sender<Signal>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Signal {
    closing: bool,
    /// How often the leader has been missed for too long.
    leaderless: u64,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { signal: watch::Sender::new(Signal::default()) }
    }
}

impl Ends {
    /// Returns when a stream that begins now has to end, and with which status.
    pub(crate) fn wait(&self, needs_leader: bool) -> impl Future<Output = Status> + Send + 'static {
        let mut signal = self.signal.subscribe();
        let before = signal.borrow().leaderless;
        async move {
            let over = |now: &Signal| now.closing || needs_leader && now.leaderless != before;
            match signal.wait_for(over).await {
                Ok(now) if !now.closing => Canonical::NoLeader.into(),
                // Either it is said so, or nobody is left who could.
                _ => Canonical::Stopped.into(),
            }
        }
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        self.signal.send_modify(|signal| signal.closing = true);
    }

    /// Ends streams when it is time to, until the member stops.
    pub(crate) async fn run(&self, server: &Server) {
        let mut stopped = pin!(server.stopped());
        let mut looked = pin!(self.look(server));
        std::future::poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => looked.as_mut().poll(cx),
        })
        .await;
        self.close();
    }

    async fn look(&self, server: &Server) {
        let timeout = server.config().election_timeout();
        loop {
            let (pause, lost) = next_look(timeout, server.leaderless_for());
            if lost {
                self.signal.send_modify(|signal| signal.leaderless += 1);
            }
            if server.sleep(pause).await.is_err() {
                return;
            }
        }
    }
}

/// When to look again, and whether the leader has been missed for too long.
fn next_look(timeout: Duration, leaderless_for: Option<Duration>) -> (Duration, bool) {
    let bound = timeout * LEADERLESS_TIMEOUTS;
    match leaderless_for {
        None => (timeout, false),
        Some(time) if time < bound => ((bound - time).min(timeout), false),
        Some(_) => (timeout, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_missed_after_three_timeouts() {
        let second = Duration::from_secs(1);
        assert_eq!(next_look(second, None), (second, false));
        assert_eq!(next_look(second, Some(second)), (second, false));
        assert_eq!(next_look(second, Some(second * 5 / 2)), (second / 2, false));
        assert_eq!(next_look(second, Some(3 * second)), (second, true));
    }

    #[tokio::test]
    async fn streams_end_for_their_reasons() {
        let ends = Ends::default();
        let (needs, does_not) = (ends.wait(true), ends.wait(false));
        ends.signal.send_modify(|signal| signal.leaderless += 1);
        assert_eq!(needs.await, Canonical::NoLeader.into());
        let later = ends.wait(true);
        ends.close();
        assert_eq!(later.await, Canonical::Stopped.into(), "what was before it began is over");
        assert_eq!(does_not.await, Canonical::Stopped.into());
    }
}
