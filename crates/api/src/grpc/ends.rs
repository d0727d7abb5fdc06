//! Why a stream ends that neither its client nor its handler ends: the member stops, or has had no leader for long.
//!
//! A client that says `hasleader: true` wants no answers from a member that is cut off from the others: new calls are refused at once, and running streams are
//! ended after three election timeouts without a leader, since it costs much to set them up again.
//!
//! All streams are listed here, and are ended from here: most of them wait for their client, and some for a client that takes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use server::Server;
use tokio::sync::watch;

use super::errors::Canonical;
use super::running::Running;
use super::status::Status;

/// Election timeouts without a leader before streams are ended that need one.
const LEADERLESS_TIMEOUTS: u32 = 3;

/// Ends streams.
#[derive(Debug)]
pub(crate) struct Ends {
    streams: Mutex<Streams>,
    /// For those who wait and are no stream.
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Streams {
    /// Whether all are ended, and those that begin.
    closed: bool,
    /// The number of the last that began.
    last: u64,
    listed: BTreeMap<u64, Listed>,
}

#[derive(Debug)]
struct Listed {
    running: Weak<Running>,
    needs_leader: bool,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { streams: Mutex::default(), closed: watch::Sender::new(false) }
    }
}

impl Ends {
    /// Lists a stream for as long as what is returned is held.
    pub(crate) fn list(self: &Arc<Self>, running: Weak<Running>, needs_leader: bool) -> Place {
        let mut streams = self.streams();
        streams.last += 1;
        let number = streams.last;
        streams.listed.insert(number, Listed { running, needs_leader });
        Place { ends: Arc::clone(self), number }
    }

    /// Returns when the member is about to stop, with what to say then.
    pub(crate) fn wait(&self) -> impl Future<Output = Status> + Send + 'static {
        let mut closed = self.closed.subscribe();
        async move {
            // An error says that nobody is left who could say so.
            let _ = closed.wait_for(|closed| *closed).await;
            Canonical::Stopped.into()
        }
    }

    /// Whether the member is about to stop.
    pub(crate) fn is_closed(&self) -> bool {
        self.streams().closed
    }

    /// Ends all streams, and those that begin from now on.
    pub(crate) fn close(&self) {
        self.streams().closed = true;
        self.end(|_| true, Canonical::Stopped);
        // Last: what a stream waits for must not end it in its own way.
        self.closed.send_replace(true);
    }

    fn end(&self, which: impl Fn(&Listed) -> bool, why: Canonical) {
        let listed: Vec<_> = self
            .streams()
            .listed
            .values()
            .filter(|stream| which(stream))
            .map(|stream| Weak::clone(&stream.running))
            .collect();
        // Not under the lock: a stream that is dropped here leaves its place.
        for running in listed.iter().filter_map(Weak::upgrade) {
            running.end(why.into());
        }
    }

    /// Ends streams when it is time to, until the member stops.
    pub(crate) async fn run(&self, server: &Server) {
        tokio::select! {
            biased;
            _ = server.stopped() => {}
            () = self.look(server) => {}
        }
        self.close();
    }

    async fn look(&self, server: &Server) {
        let timeout = server.config().election_timeout();
        loop {
            let (pause, lost) = next_look(timeout, server.leaderless_for());
            if lost {
                self.end(|stream| stream.needs_leader, Canonical::NoLeader);
            }
            if server.sleep(pause).await.is_err() {
                return;
            }
        }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a stream among those that can be ended.
#[derive(Debug)]
pub(crate) struct Place {
    ends: Arc<Ends>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ends.streams().listed.remove(&self.number);
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
    async fn who_waits_for_the_end_is_told() {
        let ends = Ends::default();
        let before = ends.wait();
        ends.close();
        assert_eq!(before.await, Canonical::Stopped.into());
        assert_eq!(ends.wait().await, Canonical::Stopped.into(), "also who comes later");
    }
}
