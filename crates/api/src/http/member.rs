//! What the paths need to know of a member.

use std::fmt::Display;

use backend::schema::version;
use proto::etcdserverpb::{AlarmMember, AlarmType, RangeRequest};
use server::Server;

/// A member, as far as health, version and state go. A trait, so that tests can have members that are not well.
pub trait Member: Send + Sync {
    /// The alarms that are raised, anywhere in the cluster.
    fn alarms(&self) -> Vec<AlarmMember>;

    /// Whether somebody leads.
    fn has_leader(&self) -> bool;

    /// Whether the member has no vote.
    fn is_learner(&self) -> bool;

    /// Reads something, as the root user would, to see whether that can be done.
    fn probe(
        &self,
        linearizable: bool,
    ) -> impl Future<Output = Result<(), impl Display + Send>> + Send;

    /// The version that the cluster speaks, if it has been decided: `3.7.0`.
    fn cluster_version(&self) -> Option<String>;

    /// The version of the database, if it is known.
    fn storage_version(&self) -> Option<String>;

    /// The state of consensus as JSON; none if the member stops.
    fn raft_status(&self) -> impl Future<Output = Option<String>> + Send;
}

impl Member for Server {
    fn alarms(&self) -> Vec<AlarmMember> {
        self.state().alarms.get(AlarmType::None.into())
    }

    fn has_leader(&self) -> bool {
        self.leader().is_some()
    }

    fn is_learner(&self) -> bool {
        Server::is_learner(self)
    }

    /// Looks for the key without a name, which nobody can have put. A member whose disk hangs could still be read, but not written to: clients that want the newest
    /// are better off elsewhere.
    async fn probe(&self, linearizable: bool) -> Result<(), impl Display + Send> {
        if linearizable && let Some(time) = self.stalled_for() {
            let stalled = format!("the log has been waiting for the disk for {time:.1?}");
            return Err(server::Error::Fault(stalled));
        }
        let reading = self.read_as_root(linearizable).await?;
        let nothing = RangeRequest { keys_only: true, limit: 1, ..RangeRequest::default() };
        reading.range(&nothing).map(drop)
    }

    fn cluster_version(&self) -> Option<String> {
        self.state().cluster.now().version().map(|version| version.to_string())
    }

    fn storage_version(&self) -> Option<String> {
        version::detect(&self.state().backend.view()).ok().map(|version| version.to_string())
    }

    async fn raft_status(&self) -> Option<String> {
        Server::raft_status(self).await.ok().map(|status| status.to_string())
    }
}
