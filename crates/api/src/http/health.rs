//! Whether the member is well: `/health` in one word, `/livez` and `/readyz` check by check.
//!
//! | asks | checks |
//! | --- | --- |
//! | `/health` | no alarm but those in `exclude`, a leader, a linearizable read; with `serializable=true` no leader, and a local read |
//! | `/livez` | `serializable_read` |
//! | `/readyz` | `data_corruption`, `serializable_read`, `linearizable_read`, `non_learner` |
//!
//! `/livez` fails when a restart could help, `/readyz` when clients should go elsewhere. Each check has a path of its own below them. `exclude` leaves
//! checks out, and `verbose` also names those that passed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};
use proto::etcdserverpb::{AlarmMember, AlarmType};

use super::answer::{self, only_get};
use super::member::Member;
use super::path;

/// A question about a member that it passes or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
    NonLearner,
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Check::DataCorruption => "data_corruption",
            Check::SerializableRead => "serializable_read",
            Check::LinearizableRead => "linearizable_read",
            Check::NonLearner => "non_learner",
        }
    }

    /// Why it is not passed.
    async fn failure(self, member: &impl Member) -> Option<String> {
        match self {
            Check::DataCorruption => {
                let corrupt = i32::from(AlarmType::Corrupt);
                let raised = member.alarms().iter().any(|alarm| alarm.alarm == corrupt);
                raised.then(|| "alarm activated: CORRUPT".to_owned())
            }
            Check::SerializableRead => read(member, false).await,
            Check::LinearizableRead => read(member, true).await,
            Check::NonLearner => {
                member.is_learner().then(|| "not supported for learner".to_owned())
            }
        }
    }
}

async fn read(member: &impl Member, linearizable: bool) -> Option<String> {
    member.probe(linearizable).await.err().map(|error| error.to_string())
}

/// The two paths that have checks below them.
const KINDS: [(&str, &[Check]); 2] = [
    ("livez", &[Check::SerializableRead]),
    (
        "readyz",
        &[
            Check::DataCorruption,
            Check::SerializableRead,
            Check::LinearizableRead,
            Check::NonLearner,
        ],
    ),
];

/// Checks that a path asks for.
#[derive(Debug)]
pub(super) struct Found {
    kind: &'static str,
    checks: Vec<Check>,
    /// Whether it is the path of all checks, from which some can be excluded.
    root: bool,
}

/// Answers questions about health, and counts the answers.
#[derive(Debug)]
pub(super) struct Checks {
    success: IntCounter,
    failures: IntCounter,
    latest: IntGaugeVec,
    total: IntCounterVec,
}

impl Checks {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Checks> {
        let latest =
            Opts::new("etcd_server_healthcheck", "The result of each kind of healthcheck.");
        let total = Opts::new(
            "etcd_server_healthchecks_total",
            "The total number of each kind of healthcheck.",
        );
        let checks = Checks {
            success: IntCounter::new(
                "etcd_server_health_success",
                "The total number of successful health checks",
            )?,
            failures: IntCounter::new(
                "etcd_server_health_failures",
                "The total number of failed health checks",
            )?,
            latest: IntGaugeVec::new(latest, &["type", "name"])?,
            total: IntCounterVec::new(total, &["type", "name", "status"])?,
        };
        registry.register(Box::new(checks.success.clone()))?;
        registry.register(Box::new(checks.failures.clone()))?;
        registry.register(Box::new(checks.latest.clone()))?;
        registry.register(Box::new(checks.total.clone()))?;
        Ok(checks)
    }

    /// `/health`.
    pub(super) async fn health(&self, member: &impl Member, asked: &Parts) -> Response<Bytes> {
        if let Some(refused) = refuse(asked, "/health error", None) {
            return refused;
        }
        let Some(reason) = sickness(member, asked).await else {
            self.success.inc();
            return answer::body(answer::TEXT, r#"{"health":"true","reason":""}"#);
        };
        self.failures.inc();
        let output = format!(r#"{{"health":"false","reason":{}}}"#, serde_json::json!(reason));
        let status = StatusCode::SERVICE_UNAVAILABLE;
        tracing::warn!(output, status_code = status.as_u16(), "/health error");
        answer::error(status, output)
    }

    /// The checks that a path asks for, if it asks for any.
    pub(super) fn find(&self, path: &str) -> Option<Found> {
        let mut parts = path.strip_prefix('/')?.splitn(2, '/');
        let kind = parts.next()?;
        let (kind, checks) = KINDS.into_iter().find(|(name, _)| *name == kind)?;
        let Some(name) = parts.next() else {
            return Some(Found { kind, checks: checks.to_vec(), root: true });
        };
        let check = checks.iter().find(|check| check.name() == name)?;
        Some(Found { kind, checks: vec![*check], root: false })
    }

    /// `/livez`, `/readyz` and what is below them.
    pub(super) async fn answer(
        &self,
        member: &impl Member,
        found: &Found,
        asked: &Parts,
    ) -> Response<Bytes> {
        let path = asked.uri.path();
        if let Some(refused) = refuse(asked, "Health request error", Some(path)) {
            return refused;
        }
        let (passed, reason) = self.run(member, found.kind, &chosen(found, asked)).await;
        if !passed {
            let status_code = StatusCode::SERVICE_UNAVAILABLE.as_u16();
            tracing::error!(path, reason, status_code, "Health check error");
            return answer::error(StatusCode::SERVICE_UNAVAILABLE, reason);
        }
        let verbose = path::query(asked).any(|(name, _)| name == "verbose");
        answer::plain(if verbose { format!("{reason}ok\n") } else { "ok\n".to_owned() })
    }

    /// Whether all checks are passed, and a line for each.
    async fn run(&self, member: &impl Member, kind: &str, checks: &[Check]) -> (bool, String) {
        let (mut passed, mut lines) = (true, String::new());
        for check in checks {
            let name = check.name();
            let failure = check.failure(member).await;
            self.count(kind, name, failure.is_none());
            passed &= failure.is_none();
            // Writing to a string does not fail.
            let _ = match failure {
                Some(why) => writeln!(lines, "[-]{name} failed: {why}"),
                None => writeln!(lines, "[+]{name} ok"),
            };
        }
        (passed, lines)
    }

    fn count(&self, kind: &str, name: &str, passed: bool) {
        let status = if passed { "success" } else { "error" };
        self.latest.with_label_values(&[kind, name]).set(passed.into());
        self.total.with_label_values(&[kind, name, status]).inc();
    }
}

fn refuse(asked: &Parts, message: &str, path: Option<&str>) -> Option<Response<Bytes>> {
    let refused = only_get(asked)?;
    tracing::warn!(path, status_code = refused.status().as_u16(), "{message}");
    Some(refused)
}

/// Without those that are excluded. Names of no check are no reason to fail: they may be those of another version.
fn chosen(found: &Found, asked: &Parts) -> Vec<Check> {
    if !found.root {
        return found.checks.clone();
    }
    let mut excluded = path::values(asked, "exclude");
    let mut chosen = found.checks.clone();
    chosen.retain(|check| !excluded.remove(check.name()));
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let missing_health_checks = names.join(",");
        tracing::warn!(missing_health_checks, "some health checks cannot be excluded");
    }
    chosen
}

/// Why the member is not well, in the words of `/health`.
async fn sickness(member: &impl Member, asked: &Parts) -> Option<String> {
    let excluded = path::values(asked, "exclude");
    let serializable = path::query(asked)
        .find(|(name, _)| name == "serializable")
        .is_some_and(|(_, value)| value == "true");
    let alarms = member.alarms();
    if let Some(alarm) = alarms.iter().find(|alarm| !is_excluded(alarm, &excluded)) {
        tracing::warn!(?alarm, "serving /health false due to an alarm");
        return Some(format!("ALARM {}", alarm_name(alarm).unwrap_or("UNKNOWN")));
    }
    if !serializable && !member.has_leader() {
        tracing::warn!("serving /health false; no leader");
        return Some("RAFT NO LEADER".to_owned());
    }
    let error = member.probe(!serializable).await.err()?;
    tracing::warn!(%error, "serving /health false; Range fails");
    Some(format!("RANGE ERROR:{error}"))
}

/// The name of an alarm, if this version has one for it.
fn alarm_name(alarm: &AlarmMember) -> Option<&'static str> {
    AlarmType::try_from(alarm.alarm).ok().map(|kind| kind.as_str_name())
}

/// Alarms without a name are excluded by their number.
fn is_excluded(alarm: &AlarmMember, excluded: &BTreeSet<String>) -> bool {
    match alarm_name(alarm) {
        Some(name) => excluded.contains(name),
        None => excluded.contains(&alarm.alarm.to_string()),
    }
}
