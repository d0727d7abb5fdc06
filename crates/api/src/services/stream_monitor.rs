//! Ends streams that neither client nor handler ends: the member stops, or has no leader for long.
//!
//! A client that sends `hasleader: true` requires a leader. Without one, the interceptor refuses
//! its new calls at once. Running streams end after three election timeouts without a leader,
//! because setting them up again is expensive.

use std::time::Duration;

use grpc::StreamRegistry;
use server::Server;

use crate::errors::Canonical;

/// The election timeouts without a leader after which streams that need one end.
const LEADERLESS_TIMEOUTS: u32 = 3;

/// Ends streams when their time has come, until the member stops.
pub(super) async fn run(server: &Server, streams: &StreamRegistry) {
    tokio::select! {
        biased;
        _ = server.stopped() => {}
        () = watch_leader(server, streams) => {}
    }
    streams.close();
}

async fn watch_leader(server: &Server, streams: &StreamRegistry) {
    let timeout = server.config().election_timeout();
    loop {
        let (pause, is_leaderless) = next_check(timeout, server.leaderless_for());
        if is_leaderless {
            streams.end_conditional(&Canonical::NoLeader.into());
        }
        if server.sleep(pause).await.is_err() {
            return;
        }
    }
}

/// Returns the time until the next check, and whether there was no leader for too long.
fn next_check(timeout: Duration, leaderless_for: Option<Duration>) -> (Duration, bool) {
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
    fn streams_end_after_three_election_timeouts_without_a_leader() {
        let second = Duration::from_secs(1);
        assert_eq!(next_check(second, None), (second, false));
        assert_eq!(next_check(second, Some(second)), (second, false));
        assert_eq!(next_check(second, Some(second * 5 / 2)), (second / 2, false));
        assert_eq!(next_check(second, Some(3 * second)), (second, true));
    }
}
