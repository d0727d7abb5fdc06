//! The part of a member that the HTTP endpoints use.

use std::fmt::Display;

use proto::etcdserverpb::{AlarmMember, RangeRequest};
use server::Server;

/// Health, version and state of a member. A trait, so that tests can have unhealthy members.
pub trait Member: Send + Sync {
    /// Returns the active alarms of the cluster.
    fn alarms(&self) -> Vec<AlarmMember>;

    /// Reports whether there is a leader.
    fn has_leader(&self) -> bool;

    /// Reports whether the member is a learner.
    fn is_learner(&self) -> bool;

    /// Reads as the root user, to check that reads work.
    fn probe(
        &self,
        linearizable: bool,
    ) -> impl Future<Output = Result<(), impl Display + Send>> + Send;

    /// Returns the cluster version, if it is decided: `3.7.0`.
    fn cluster_version(&self) -> Option<String>;

    /// Returns the storage version, if it is known.
    fn storage_version(&self) -> Option<String>;

    /// Returns the Raft status as JSON; none if the member stops.
    fn raft_status(&self) -> impl Future<Output = Option<String>> + Send;
}

impl Member for Server {
    fn alarms(&self) -> Vec<AlarmMember> {
        self.active_alarms()
    }

    fn has_leader(&self) -> bool {
        self.leader().is_some()
    }

    fn is_learner(&self) -> bool {
        Server::is_learner(self)
    }

    /// Reads the empty key, which cannot exist. A linearizable probe also fails while the raft loop
    /// or the disk stalls: reads may still work, but writes do not, so clients should use another
    /// member. So it waits for the loop, and for the write to the log that is in progress.
    async fn probe(&self, linearizable: bool) -> Result<(), impl Display + Send> {
        if linearizable {
            self.raft_loop_responds().await?;
            self.log_write_completed().await?;
        }
        let reading = self.read_as_root(linearizable).await?;
        let nothing = RangeRequest { keys_only: true, limit: 1, ..RangeRequest::default() };
        reading.range(&nothing).map(drop)
    }

    fn cluster_version(&self) -> Option<String> {
        self.decided_cluster_version()
    }

    fn storage_version(&self) -> Option<String> {
        self.detected_storage_version()
    }

    async fn raft_status(&self) -> Option<String> {
        Server::raft_status(self).await.ok().map(|status| status.to_string())
    }
}
