//! The answer of a peer to a probe: `{"OK":true,"Now":"2026-11-16T04:44:39Z"}`.

use jiff::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
struct Health {
    #[serde(rename = "OK", default)]
    ok: bool,
    #[serde(rename = "Now", default)]
    now: String,
}

/// The reason a peer counts as unhealthy, despite its answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum HealthError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Timestamp(#[from] jiff::Error),
    #[error("<nil>")]
    Unhealthy,
}

/// Returns the time of a healthy peer.
pub(super) fn peer_time(answer: &[u8]) -> Result<Timestamp, HealthError> {
    let health: Health = serde_json::from_slice(answer)?;
    match health.ok {
        true => Ok(health.now.parse()?),
        false => Err(HealthError::Unhealthy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcds_response_is_decoded() {
        let second = |text: &str| peer_time(text.as_bytes()).map(Timestamp::as_second);
        let utc = r#"{"OK":true,"Now":"2026-11-16T04:44:39.123456789Z"}"#;
        assert_eq!(second(utc).unwrap(), 1_794_804_279);
        let local = r#"{"OK":true,"Now":"2026-11-16T04:44:39.1+01:00"}"#;
        assert_eq!(second(local).unwrap(), 1_794_800_679);
        let unhealthy = second(r#"{"OK":false,"Now":"2026-11-16T04:44:39Z"}"#).unwrap_err();
        assert_eq!(unhealthy.to_string(), "<nil>");
        assert!(matches!(second(r#"{"OK":true}"#), Err(HealthError::Timestamp(_))));
    }
}
