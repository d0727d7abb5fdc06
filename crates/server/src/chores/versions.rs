//! The leader sees to the version that the cluster speaks, and to the end of a downgrade.
//!
//! ```text
//!   members run      cluster speaks   the leader proposes
//!   3.7              none             3.7                   as soon as it leads
//!   3.7 3.7 ?        none             3.0                   one is not heard of
//!   3.7 3.7 3.7      3.0              3.7                   within four seconds
//!   3.6 3.6 3.6      3.6, downgrade   the downgrade's end   within --downgrade-check-time
//! ```
//!
//! What is decided is in [`membership::version`]; here it is asked, proposed and told.

use std::time::Duration;

use backend::schema::version::{CURRENT, Version};
use membership::version::{decide, is_downgraded, short};
use proto::etcdserverpb::InternalRaftRequest;
use proto::membershippb::{ClusterVersionSetRequest, DowngradeInfoSetRequest};
use types::MemberId;

use super::errand::{Errand, Every, POLL, carry_out};
use super::{Chore, MONITOR_VERSION_INTERVAL};
use crate::apply::Reply;
use crate::error::Error;
use crate::server::Server;

/// How long is waited for a leader, while the cluster has not decided on a version.
const UNDECIDED: Duration = Duration::from_millis(20);

/// What each member runs. None for one that is not heard of.
///
/// Members cannot be asked yet, other than by consensus: so this one is the only one that is heard of.
fn servers(server: &Server) -> Vec<(MemberId, Option<Version>)> {
    let local = server.local();
    let members = server.state().cluster.now();
    members.ids().map(|id| (id, (id == local).then_some(CURRENT))).collect()
}

/// Raises, or lowers, the version that the cluster speaks.
#[derive(Debug)]
pub(super) struct ClusterVersion {
    server: Server,
    every: Every,
    proposed: Errand<(Version, Result<Reply, Error>)>,
}

impl ClusterVersion {
    pub(super) fn new(server: Server) -> ClusterVersion {
        let every = Every::after(MONITOR_VERSION_INTERVAL, server.now());
        ClusterVersion { server, every, proposed: Errand::default() }
    }

    /// Nobody has said yet what the cluster speaks.
    fn is_undecided(&self) -> bool {
        self.server.state().cluster.now().version().is_none()
    }

    /// A leader that has applied all that was there before it: so it knows what was decided.
    fn may_decide_at_once(&self) -> bool {
        self.is_undecided() && self.server.state().lessor.is_primary()
    }

    fn decide(&mut self) {
        if !self.server.is_leader() {
            return;
        }
        let cluster = self.server.state().cluster.now();
        let running = servers(&self.server).into_iter().map(|(_, version)| version);
        match decide(cluster.version(), cluster.downgrade(), running) {
            Ok(Some(version)) => self.propose(cluster.version(), version),
            Ok(None) => {}
            Err(error) => tracing::error!(
                downgrade_target = cluster.downgrade().target_version,
                cluster_version = cluster.version().map(|version| version.to_string()),
                %error,
                "Failed to monitor cluster version"
            ),
        }
    }

    fn propose(&mut self, from: Option<Version>, to: Version) {
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
        let ver = to.to_string();
        let request = InternalRaftRequest {
            cluster_version_set: Some(ClusterVersionSetRequest { ver }),
            ..InternalRaftRequest::default()
        };
        let server = self.server.clone();
        self.proposed.begin(async move { (to, carry_out(server, request).await) });
    }
}

impl Chore for ClusterVersion {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.proposed.is_under_way() {
            let is_due = self.every.is_due(now);
            if is_due || self.may_decide_at_once() {
                self.decide();
            }
        }
        if let Some((version, outcome)) = self.proposed.poll() {
            tell(version, outcome);
            self.every.begin_anew(now);
        }
        if self.proposed.is_under_way() {
            now + POLL
        } else if self.is_undecided() {
            now + UNDECIDED
        } else {
            self.every.next()
        }
    }
}

fn tell(version: Version, outcome: Result<Reply, Error>) {
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
    every: Every,
    ended: Errand<Result<Reply, Error>>,
}

impl DowngradeEnd {
    /// None if the flags say that nobody looks.
    pub(super) fn new(server: Server) -> Option<DowngradeEnd> {
        let interval = server.config().downgrade_check_time;
        let every = Every::after(interval, server.now());
        (!interval.is_zero()).then(|| DowngradeEnd { server, every, ended: Errand::default() })
    }

    fn look(&mut self) {
        let cluster = self.server.state().cluster.now();
        let downgrade = cluster.downgrade();
        if !self.server.is_leader() || !downgrade.enabled {
            return;
        }
        let running = servers(&self.server);
        if !is_downgraded(downgrade, running.iter().map(|(_, version)| *version)) {
            warn_of_others(&running, &downgrade.target_version);
            return;
        }
        tracing::info!(
            cluster_version = downgrade.target_version,
            "the cluster has been downgraded"
        );
        let over = DowngradeInfoSetRequest { enabled: false, ver: String::new() };
        let request = InternalRaftRequest {
            downgrade_info_set: Some(over),
            ..InternalRaftRequest::default()
        };
        self.ended.begin(carry_out(self.server.clone(), request));
    }
}

/// Tells of a member that does not run the older release yet. One is enough.
fn warn_of_others(running: &[(MemberId, Option<Version>)], target: &str) {
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

impl Chore for DowngradeEnd {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.ended.is_under_way() && self.every.is_due(now) {
            self.look();
        }
        if let Some(Err(error)) = self.ended.poll() {
            tracing::warn!(%error, "failed to cancel downgrade");
        }
        if self.ended.is_under_way() { now + POLL } else { self.every.next() }
    }
}
