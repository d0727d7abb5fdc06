//! Health of the member: `/health` as one result, `/livez` and `/readyz` check by check.
//!
//! | path | checks |
//! | --- | --- |
//! | `/health` | no alarm except in `exclude`, a leader, a linearizable read |
//! | `/health?serializable=true` | no alarm except in `exclude`, a serializable read |
//! | `/livez` | `serializable_read` |
//! | `/readyz` | `data_corruption`, `serializable_read`, `linearizable_read`, `non_learner` |
//!
//! `/livez` fails when a restart could help, `/readyz` when clients should use another member. Each
//! check has a path of its own below them. `exclude` skips checks, and `verbose` lists passed ones.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};
use proto::etcdserverpb::{AlarmMember, AlarmType};

use super::member::Member;
use super::path;
use super::response::{self, only_get};

/// A health check.
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

    /// Runs the check. Returns the reason of a failure.
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

/// The paths with checks below them.
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

/// The checks of a path.
#[derive(Debug)]
pub(super) struct PathChecks {
    kind: &'static str,
    checks: Vec<Check>,
    /// Whether this is the path of all checks, from which some can be excluded.
    root: bool,
}

/// Runs health checks and counts the results.
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

    /// Answers `/health`.
    pub(super) async fn health(&self, member: &impl Member, head: &Parts) -> Response<Bytes> {
        if let Some(refused) = refuse(head, "/health error", None) {
            return refused;
        }
        let Some(reason) = unhealthy_reason(member, head).await else {
            self.success.inc();
            return response::body(response::TEXT, r#"{"health":"true","reason":""}"#);
        };
        self.failures.inc();
        let output = format!(r#"{{"health":"false","reason":{}}}"#, serde_json::json!(reason));
        let status = StatusCode::SERVICE_UNAVAILABLE;
        tracing::warn!(output, status_code = status.as_u16(), "/health error");
        response::error(status, output)
    }

    /// Finds the checks of a path.
    pub(super) fn find(&self, path: &str) -> Option<PathChecks> {
        let mut parts = path.strip_prefix('/')?.splitn(2, '/');
        let kind = parts.next()?;
        let (kind, checks) = KINDS.into_iter().find(|(name, _)| *name == kind)?;
        let Some(name) = parts.next() else {
            return Some(PathChecks { kind, checks: checks.to_vec(), root: true });
        };
        let check = checks.iter().find(|check| check.name() == name)?;
        Some(PathChecks { kind, checks: vec![*check], root: false })
    }

    /// Answers `/livez`, `/readyz` and the paths below them.
    pub(super) async fn respond(
        &self,
        member: &impl Member,
        found: &PathChecks,
        head: &Parts,
    ) -> Response<Bytes> {
        let path = head.uri.path();
        if let Some(refused) = refuse(head, "Health request error", Some(path)) {
            return refused;
        }
        let (passed, reason) = self.run(member, found.kind, &not_excluded(found, head)).await;
        if !passed {
            let status_code = StatusCode::SERVICE_UNAVAILABLE.as_u16();
            tracing::error!(path, reason, status_code, "Health check error");
            return response::error(StatusCode::SERVICE_UNAVAILABLE, reason);
        }
        let verbose = path::query(head).any(|(name, _)| name == "verbose");
        response::plain(if verbose { format!("{reason}ok\n") } else { "ok\n".to_owned() })
    }

    /// Runs checks. Returns whether all passed, and a line for each.
    async fn run(&self, member: &impl Member, kind: &str, checks: &[Check]) -> (bool, String) {
        let (mut passed, mut lines) = (true, String::new());
        for check in checks {
            let name = check.name();
            let failure = check.failure(member).await;
            self.count(kind, name, failure.is_none());
            passed &= failure.is_none();
            // Writing to a string never fails.
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

fn refuse(head: &Parts, message: &str, path: Option<&str>) -> Option<Response<Bytes>> {
    let refused = only_get(head)?;
    tracing::warn!(path, status_code = refused.status().as_u16(), "{message}");
    Some(refused)
}

/// Returns the checks that are not excluded. Unknown names are only logged: they may belong to
/// another version.
fn not_excluded(found: &PathChecks, head: &Parts) -> Vec<Check> {
    if !found.root {
        return found.checks.clone();
    }
    let mut excluded = path::values(head, "exclude");
    let mut checks = found.checks.clone();
    checks.retain(|check| !excluded.remove(check.name()));
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let missing_health_checks = names.join(",");
        tracing::warn!(missing_health_checks, "some health checks cannot be excluded");
    }
    checks
}

/// Returns the reason why the member is unhealthy, with the texts of etcd's `/health`.
async fn unhealthy_reason(member: &impl Member, head: &Parts) -> Option<String> {
    let excluded = path::values(head, "exclude");
    let serializable = path::query(head)
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

/// Returns the name of an alarm, if this version knows it.
fn alarm_name(alarm: &AlarmMember) -> Option<&'static str> {
    AlarmType::try_from(alarm.alarm).ok().map(|kind| kind.as_str_name())
}

/// Reports whether an alarm is excluded, by name or, if it is unknown, by number.
fn is_excluded(alarm: &AlarmMember, excluded: &BTreeSet<String>) -> bool {
    match alarm_name(alarm) {
        Some(name) => excluded.contains(name),
        None => excluded.contains(&alarm.alarm.to_string()),
    }
}
