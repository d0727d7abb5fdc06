//! Decides the cluster version, and ends a completed downgrade. Only the leader does.
//!
//! ```text
//!   members run      cluster version  the leader proposes
//!   3.7              none             3.7                   as soon as it leads
//!   3.7 3.7 ?        none             3.0                   one member does not answer
//!   3.7 3.7 3.7      3.0              3.7                   within 4 s
//!   3.6 3.6 3.6      3.6, downgrade   the downgrade's end   within --downgrade-check-time
//! ```
//!
//! The rules are in [`membership::version`]; this module asks members for their versions, proposes
//! the result and logs it.

use std::time::Duration;

use backend::schema::version::{CURRENT, Version};
use membership::version::{decide, is_downgraded, short};
use proto::membershippb::{ClusterVersionSetRequest, DowngradeInfoSetRequest};
use types::MemberId;

use super::pending_task::{Interval, POLL, PendingTask, propose_and_wait};
use super::{BackgroundTask, MONITOR_VERSION_INTERVAL};
use crate::error::Error;
use crate::server::Server;
use crate::transport::{PeerRequestError, PeerVersions};

/// The turn interval while the cluster version is not decided.
const UNDECIDED: Duration = Duration::from_millis(20);

/// Returns the release that each member runs, `None` for a member that does not answer. All members
/// are queried at once.
async fn servers(server: &Server) -> Vec<(MemberId, Option<Version>)> {
    let (local, members) = (server.local(), server.state().cluster.now());
    let (transport, within) = (server.transport(), server.config().request_timeout());
    let requests: Vec<_> = members
        .members()
        .map(|member| {
            (member.id, (member.id != local).then(|| transport.request_versions(member, within)))
        })
        .collect();
    let mut running = Vec::with_capacity(requests.len());
    for (id, requests) in requests {
        let version = match requests {
            None => Some(CURRENT),
            Some(requests) => version_of(id, requests.await),
        };
        running.push((id, version));
    }
    running
}

/// Returns the release of a peer, without its patch version.
fn version_of(id: MemberId, answer: Result<PeerVersions, PeerRequestError>) -> Option<Version> {
    match answer {
        Ok(versions) => {
            let version = Version::parse(versions.server.as_bytes());
            if version.is_none() {
                tracing::warn!(remote_member_id = %id, remote_member_version = versions.server, "failed to parse server version of remote member");
            }
            version
        }
        Err(error) => {
            tracing::warn!(remote_member_id = %id, %error, "failed to get version");
            None
        }
    }
}

/// Raises or lowers the cluster version.
#[derive(Debug)]
pub(super) struct ClusterVersion {
    server: Server,
    every: Interval,
    deciding: PendingTask<()>,
}

impl ClusterVersion {
    pub(super) fn new(server: Server) -> ClusterVersion {
        let every = Interval::after(MONITOR_VERSION_INTERVAL, server.now());
        ClusterVersion { server, every, deciding: PendingTask::default() }
    }

    /// Returns whether the cluster has no version yet.
    fn is_undecided(&self) -> bool {
        self.server.state().cluster.now().version().is_none()
    }

    /// Returns whether this member may decide without waiting for the interval: a leader whose
    /// lessor is primary has applied all entries of previous terms, so it knows every decision.
    fn may_decide_at_once(&self) -> bool {
        self.is_undecided() && self.server.state().lessor.is_primary()
    }

    fn begin(&mut self) {
        if self.server.is_leader() {
            self.deciding.begin(update_cluster_version(self.server.clone()));
        }
    }
}

/// Asks members for their versions and proposes the resulting cluster version.
async fn update_cluster_version(server: Server) {
    let running = servers(&server).await;
    // The answers may have taken long.
    if !server.is_leader() {
        return;
    }
    let cluster = server.state().cluster.now();
    match decide(cluster.version(), cluster.downgrade(), running.into_iter().map(|(_, runs)| runs))
    {
        Ok(Some(version)) => {
            log_change(cluster.version(), version);
            log_outcome(version, propose_and_wait(server, request(version)).await);
        }
        Ok(None) => {}
        Err(error) => tracing::error!(
            downgrade_target = cluster.downgrade().target_version,
            cluster_version = cluster.version().map(|version| version.to_string()),
            %error,
            "Failed to monitor cluster version"
        ),
    }
}

fn request(version: Version) -> ClusterVersionSetRequest {
    ClusterVersionSetRequest { ver: version.to_string() }
}

fn log_change(from: Option<Version>, to: Version) {
    match from {
        None => tracing::info!(
            cluster_version = short(to),
            "setting up initial cluster version using v3 API"
        ),
        Some(from) => tracing::info!(
            from = short(from),
            to = short(to),
            "updating cluster version using v3 API"
        ),
    }
}

impl BackgroundTask for ClusterVersion {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.deciding.is_pending() {
            let is_due = self.every.is_due(now);
            if is_due || self.may_decide_at_once() {
                self.begin();
            }
        }
        if self.deciding.poll().is_some() {
            self.every.restart(now);
        }
        if self.deciding.is_pending() {
            now + POLL
        } else if self.is_undecided() {
            now + UNDECIDED
        } else {
            self.every.next()
        }
    }
}

fn log_outcome(version: Version, outcome: Result<(), Error>) {
    match outcome {
        Ok(_) => {
            tracing::info!(cluster_version = short(version), "cluster version is updated");
        }
        Err(error @ Error::Stopped) => {
            tracing::warn!(%error, "aborting cluster version update; server is stopped");
        }
        Err(error) => tracing::warn!(%error, "failed to update cluster version"),
    }
}

/// Ends a downgrade once every member runs the older release.
#[derive(Debug)]
pub(super) struct DowngradeEnd {
    server: Server,
    every: Interval,
    ended: PendingTask<Result<(), Error>>,
}

impl DowngradeEnd {
    /// Returns `None` if the interval is zero, which disables the check.
    pub(super) fn new(server: Server) -> Option<DowngradeEnd> {
        let interval = server.config().downgrade_check_time;
        let every = Interval::after(interval, server.now());
        (!interval.is_zero()).then(|| DowngradeEnd { server, every, ended: PendingTask::default() })
    }

    fn begin_check(&mut self) {
        let is_going_on = self.server.state().cluster.now().downgrade().enabled;
        if self.server.is_leader() && is_going_on {
            self.ended.begin(end_downgrade(self.server.clone()));
        }
    }
}

/// Ends the downgrade if every member runs the target version.
async fn end_downgrade(server: Server) -> Result<(), Error> {
    let running = servers(&server).await;
    let cluster = server.state().cluster.now();
    let downgrade = cluster.downgrade();
    if !is_downgraded(downgrade, running.iter().map(|(_, version)| *version)) {
        warn_of_mismatch(&running, &downgrade.target_version);
        return Ok(());
    }
    tracing::info!(cluster_version = downgrade.target_version, "the cluster has been downgraded");
    let over = DowngradeInfoSetRequest { enabled: false, ver: String::new() };
    propose_and_wait(server, over).await
}

/// Logs the first member that does not run the target version yet.
fn warn_of_mismatch(running: &[(MemberId, Option<Version>)], target: &str) {
    let wanted = Version::parse(target.as_bytes());
    let other =
        running.iter().find_map(|(id, runs)| Some((id, runs.filter(|it| Some(*it) != wanted)?)));
    if let Some((id, runs)) = other {
        tracing::warn!(
            remote_member_id = %id,
            current_server_version = %runs,
            target_version = target,
            "remotes server has mismatching etcd version"
        );
    }
}

impl BackgroundTask for DowngradeEnd {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.ended.is_pending() && self.every.is_due(now) {
            self.begin_check();
        }
        if let Some(Err(error)) = self.ended.poll() {
            tracing::warn!(%error, "failed to cancel downgrade");
        }
        if self.ended.is_pending() { now + POLL } else { self.every.next() }
    }
}
