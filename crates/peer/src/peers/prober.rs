//! Measures a peer's latency and clock difference every few seconds: `GET /raft/probing`.
//!
//! Two probers run for each peer, as in etcd, which has one per connection pool. Their findings go
//! into logs and one histogram.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use crate::client::RequestError;
use crate::peers::context::PeerContext;
use crate::peers::health::{self, HealthError};

pub(crate) const PATH: &str = "/raft/probing";

/// The interval of reports about a healthy peer.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// The interval of reports about an unhealthy peer.
const REPORT_INTERVAL_UNHEALTHY: Duration = Duration::from_secs(5);
/// The largest clock difference that is not logged.
const DRIFT_MAX: Duration = Duration::from_secs(1);
/// The size limit of a response.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// The name of a prober in logs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probes {
    Snapshots,
    Messages,
}

impl Probes {
    pub(crate) const ALL: [Probes; 2] = [Probes::Snapshots, Probes::Messages];

    fn name(self) -> &'static str {
        match self {
            Probes::Snapshots => "ROUND_TRIPPER_SNAPSHOT",
            Probes::Messages => "ROUND_TRIPPER_RAFT_MESSAGE",
        }
    }
}

/// The results of past probes.
#[derive(Debug, Default)]
struct ProbeHistory {
    is_healthy: bool,
    /// The smoothed round-trip time.
    round_trip: Duration,
    drift: Duration,
    error: String,
}

impl ProbeHistory {
    fn record(&mut self, took: Duration, theirs: Timestamp, ours: Timestamp) {
        let before = if self.round_trip.is_zero() { took } else { self.round_trip };
        self.round_trip = before.mul_f64(0.875) + took.mul_f64(0.125);
        let ahead = ours.duration_since(theirs);
        let drift = Duration::try_from(ahead).unwrap_or_default();
        self.drift = drift.saturating_sub(self.round_trip / 2);
        self.is_healthy = true;
        self.error.clear();
    }

    fn record_failure(&mut self, error: &dyn std::fmt::Display) {
        self.is_healthy = false;
        self.error = error.to_string();
    }

    fn report(&self, context: &PeerContext, probes: Probes) {
        let (name, rtt) = (probes.name(), self.round_trip);
        if !self.is_healthy {
            tracing::warn!(
                round_tripper_name = name, remote_peer_id = %context.id, rtt = ?rtt,
                error = self.error, "prober detected unhealthy status"
            );
        }
        if self.drift > DRIFT_MAX {
            tracing::warn!(
                round_tripper_name = name, remote_peer_id = %context.id,
                clock_drift = ?self.drift, rtt = ?rtt, "prober found high clock drift"
            );
        }
        context.metrics.round_trip.observe(rtt.as_secs_f64());
    }
}

/// Probes until the task is aborted.
pub(crate) async fn run(context: Arc<PeerContext>, probes: Probes) {
    let (period, started) = (context.timing.probe(), Instant::now());
    let mut ticks = interval_at(started + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut report_at = started + REPORT_INTERVAL_UNHEALTHY;
    let (mut history, mut url) = (ProbeHistory::default(), 0usize);
    loop {
        tokio::select! {
            _ = ticks.tick() => match probe(&context, url).await {
                Ok((took, theirs)) => history.record(took, theirs, now()),
                Err(error) => {
                    url = url.wrapping_add(1);
                    history.record_failure(&error);
                }
            },
            () = sleep_until(report_at) => {
                history.report(&context, probes);
                report_at = Instant::now()
                    + if history.is_healthy { REPORT_INTERVAL } else { REPORT_INTERVAL_UNHEALTHY };
            }
        }
    }
}

fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error(transparent)]
    Call(#[from] RequestError),
    #[error("got unexpected HTTP status code {status} from {url}")]
    Status { status: StatusCode, url: String },
    #[error(transparent)]
    Health(#[from] HealthError),
}

async fn probe(context: &PeerContext, url: usize) -> Result<(Duration, Timestamp), ProbeError> {
    let url = context.picker.nth(url).ok_or(RequestError::NoUrl)?;
    let started = Instant::now();
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = http::Uri::from_static(PATH);
    let response = context.client.request(&url, request, ANSWER_BYTES_MAX);
    let reply =
        timeout(context.timing.read, response).await.unwrap_or(Err(RequestError::Timeout))?;
    if reply.status != StatusCode::OK {
        return Err(ProbeError::Status { status: reply.status, url: url.of(PATH) });
    }
    Ok((started.elapsed(), health::peer_time(&reply.body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_smoothed_and_clock_drift_is_computed() {
        let (mut history, second) =
            (ProbeHistory::default(), Timestamp::from_second(1_000).unwrap());
        history.record_failure(&"no route");
        history.record(Duration::from_millis(80), second, second);
        assert_eq!((history.round_trip, history.is_healthy), (Duration::from_millis(80), true));
        let later = Timestamp::from_second(1_003).unwrap();
        history.record(Duration::from_millis(160), second, later);
        assert_eq!(history.round_trip, Duration::from_millis(90));
        assert_eq!(history.drift, Duration::from_millis(2_955));
        history.record(Duration::from_millis(90), later, second);
        assert_eq!(
            history.drift,
            Duration::ZERO,
            "Compat: only a peer clock that is behind counts as drift"
        );
    }
}
