//! Asks another member every few seconds whether it is there, how long that takes, and what time it is there: `GET /raft/probing`.
//!
//! Two of these run for each member, as in etcd, which has one for each of its two pools of connections. What they find goes into logs and into one histogram.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use crate::client::CallError;
use crate::contact::Contact;

pub(crate) const PATH: &str = "/raft/probing";

/// How often something is told about a member that is well.
const TELL_INTERVAL: Duration = Duration::from_secs(30);
/// And about one that is not.
const TELL_INTERVAL_SICK: Duration = Duration::from_secs(5);
/// The clocks of members may differ by so much.
const DRIFT_MAX: Duration = Duration::from_secs(1);
/// What is read of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// What a prober goes by in logs.
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

/// What a member says of itself.
#[derive(Deserialize)]
struct Health {
    #[serde(rename = "OK", default)]
    ok: bool,
    #[serde(rename = "Now", default)]
    now: String,
}

impl Health {
    fn now(&self) -> Result<Timestamp, ProbeError> {
        Ok(self.now.parse()?)
    }
}

/// What has been found out.
#[derive(Debug, Default)]
struct Findings {
    is_healthy: bool,
    /// Round trips, smoothed.
    round_trip: Duration,
    drift: Duration,
    error: String,
}

impl Findings {
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

    fn tell(&self, contact: &Contact, probes: Probes) {
        let (name, rtt) = (probes.name(), self.round_trip);
        if !self.is_healthy {
            tracing::warn!(
                round_tripper_name = name, remote_peer_id = %contact.id, rtt = ?rtt,
                error = self.error, "prober detected unhealthy status"
            );
        }
        if self.drift > DRIFT_MAX {
            tracing::warn!(
                round_tripper_name = name, remote_peer_id = %contact.id,
                clock_drift = ?self.drift, rtt = ?rtt, "prober found high clock drift"
            );
        }
        contact.counts.round_trip.observe(rtt.as_secs_f64());
    }
}

/// Asks until it is aborted.
pub(crate) async fn run(contact: Arc<Contact>, probes: Probes) {
    let (period, begun) = (contact.timing.probe(), Instant::now());
    let mut ticks = interval_at(begun + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tell_at = begun + TELL_INTERVAL_SICK;
    let (mut findings, mut url) = (Findings::default(), 0usize);
    loop {
        tokio::select! {
            _ = ticks.tick() => match probe(&contact, url).await {
                Ok((took, theirs)) => findings.record(took, theirs, now()),
                Err(error) => {
                    url = url.wrapping_add(1);
                    findings.record_failure(&error);
                }
            },
            () = sleep_until(tell_at) => {
                findings.tell(&contact, probes);
                tell_at = Instant::now()
                    + if findings.is_healthy { TELL_INTERVAL } else { TELL_INTERVAL_SICK };
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
    Call(#[from] CallError),
    #[error("got unexpected HTTP status code {status} from {url}")]
    Status { status: StatusCode, url: String },
    #[error(transparent)]
    Nonsense(#[from] serde_json::Error),
    #[error(transparent)]
    NoTime(#[from] jiff::Error),
    #[error("<nil>")]
    Sick,
}

async fn probe(contact: &Contact, url: usize) -> Result<(Duration, Timestamp), ProbeError> {
    let url = contact.picker.nth(url).ok_or(CallError::NoUrl)?;
    let begun = Instant::now();
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = http::Uri::from_static(PATH);
    let asked = contact.client.ask(&url, request, ANSWER_BYTES_MAX);
    let reply = timeout(contact.timing.read, asked).await.unwrap_or(Err(CallError::Late))?;
    if reply.status != StatusCode::OK {
        return Err(ProbeError::Status { status: reply.status, url: url.of(PATH) });
    }
    let health: Health = serde_json::from_slice(&reply.body)?;
    if !health.ok {
        return Err(ProbeError::Sick);
    }
    Ok((begun.elapsed(), health.now()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_etcd_is_read() {
        let text = r#"{"OK":true,"Now":"2026-11-16T04:44:39.123456789Z"}"#;
        let health: Health = serde_json::from_str(text).unwrap();
        assert!(health.ok);
        assert_eq!(health.now().unwrap().as_second(), 1_794_804_279);
        let local = r#"{"OK":true,"Now":"2026-11-16T04:44:39.1+01:00"}"#;
        let local: Health = serde_json::from_str(local).unwrap();
        assert_eq!(local.now().unwrap().as_second(), 1_794_800_679);
    }

    #[test]
    fn round_trips_are_smoothed_and_clocks_compared() {
        let (mut findings, second) = (Findings::default(), Timestamp::from_second(1_000).unwrap());
        findings.record_failure(&"no route");
        findings.record(Duration::from_millis(80), second, second);
        assert_eq!((findings.round_trip, findings.is_healthy), (Duration::from_millis(80), true));
        let later = Timestamp::from_second(1_003).unwrap();
        findings.record(Duration::from_millis(160), second, later);
        assert_eq!(findings.round_trip, Duration::from_millis(90));
        assert_eq!(findings.drift, Duration::from_millis(2_955));
        findings.record(Duration::from_millis(90), later, second);
        assert_eq!(
            findings.drift,
            Duration::ZERO,
            "Compat: only a clock that is behind is told of"
        );
    }
}
