//! The interface to the local member. A trait, so that tests can use a fake.

use std::fmt::Debug;
use std::io::Read;
use std::pin::Pin;
use std::time::Duration;

use membership::{ClusterId, Member};
use proto::etcdserverpb as pb;
use server::{Error, PeerHash, ReceiveError, ReceiveSnapshotError, Server};
use types::{LeaseId, MemberId};

/// The pending result of a call to the local member.
pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The member whose messages are sent and received.
pub(crate) trait LocalMember: Send + Sync + Debug {
    fn id(&self) -> MemberId;
    fn cluster_id(&self) -> ClusterId;
    /// Returns the time of the member's monotonic clock.
    fn now(&self) -> Duration;
    /// Returns all members, in order.
    fn members(&self) -> Vec<Member>;
    fn is_removed(&self, member: MemberId) -> bool;

    fn receive(&self, message: raft::Message) -> Result<(), ReceiveError>;
    /// Blocks on the disk and on the sender of the database.
    fn receive_snapshot(
        &self,
        message: raft::Message,
        database: &mut dyn Read,
    ) -> Result<u64, ReceiveSnapshotError>;
    fn report_unreachable(&self, member: MemberId);
    fn report_snapshot(&self, to: MemberId, arrived: bool);
    fn removed_by_others(&self);

    fn renew(&self, id: LeaseId) -> LocalFuture<'_, i64>;
    fn lease(&self, r: pb::LeaseTimeToLiveRequest) -> LocalFuture<'_, pb::LeaseTimeToLiveResponse>;
    fn promote(&self, token: Option<String>, id: MemberId) -> LocalFuture<'_, Vec<Member>>;
    fn hash(&self, revision: i64) -> LocalFuture<'_, PeerHash>;
    fn is_downgrading(&self) -> LocalFuture<'_, bool>;
}

impl LocalMember for Server {
    fn id(&self) -> MemberId {
        self.local()
    }

    fn cluster_id(&self) -> ClusterId {
        Server::cluster_id(self)
    }

    fn now(&self) -> Duration {
        Server::now(self)
    }

    fn members(&self) -> Vec<Member> {
        self.membership().members().cloned().collect()
    }

    fn is_removed(&self, member: MemberId) -> bool {
        self.membership().is_removed(member)
    }

    fn receive(&self, message: raft::Message) -> Result<(), ReceiveError> {
        Server::receive(self, message)
    }

    fn receive_snapshot(
        &self,
        message: raft::Message,
        database: &mut dyn Read,
    ) -> Result<u64, ReceiveSnapshotError> {
        Server::receive_snapshot(self, message, database)
    }

    fn report_unreachable(&self, member: MemberId) {
        Server::report_unreachable(self, member);
    }

    fn report_snapshot(&self, to: MemberId, arrived: bool) {
        Server::report_snapshot(self, to, arrived);
    }

    fn removed_by_others(&self) {
        Server::removed_by_others(self);
    }

    fn renew(&self, id: LeaseId) -> LocalFuture<'_, i64> {
        Box::pin(self.renew_for_peer(id))
    }

    fn lease(&self, r: pb::LeaseTimeToLiveRequest) -> LocalFuture<'_, pb::LeaseTimeToLiveResponse> {
        Box::pin(self.lease_for_peer(r))
    }

    fn promote(&self, token: Option<String>, id: MemberId) -> LocalFuture<'_, Vec<Member>> {
        Box::pin(self.promote_for_peer(token, id))
    }

    fn hash(&self, revision: i64) -> LocalFuture<'_, PeerHash> {
        Box::pin(self.hash_for_peer(revision))
    }

    fn is_downgrading(&self) -> LocalFuture<'_, bool> {
        Box::pin(Server::is_downgrading(self))
    }
}
