//! Requests of peers. They have no user: access to the peer port is the only permission.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use backend::check_snapshot_database;
use failpoint::failpoint_async;
use lease::RenewError;
use membership::Member;
use proto::etcdserverpb as pb;
use raft::MessageType;
use types::{Index, LeaseId, MemberId, Term};
use wal::snap::{ReceivedDb, SnapError};

use super::Credentials;
use crate::error::Error;
use crate::lifecycle::StopReason;
use crate::metrics::seconds;
use crate::pipeline::raft_loop::Event;
use crate::server::Server;
use crate::transport::PeerHash;

/// The reason why a message of a peer is rejected. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The sender was removed.
    #[error("cannot process message from removed member")]
    Removed,
    /// The message is for another member.
    #[error("cannot process message to mismatch member")]
    Mismatch,
    /// Messages of this kind do not leave a member.
    #[error("cannot process a message of a local type")]
    Local,
    /// A snapshot message without its database.
    #[error("cannot process a snapshot without its database")]
    NoDatabase,
    /// The inbox is full. Raft sends the message again.
    #[error("receiving buffer is full")]
    Full,
    /// The member is stopping.
    #[error("etcdserver: server stopped")]
    Stopped,
}

/// The reason why a snapshot of a peer is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveSnapshotError {
    /// The message is rejected.
    #[error(transparent)]
    Message(#[from] ReceiveError),
    /// The message is not a snapshot.
    #[error("wrong raft message type")]
    NoSnapshot,
    /// The database could not be stored.
    #[error("failed to save KV snapshot ({0})")]
    File(#[from] SnapError),
    /// The database is damaged, or not at the index of the snapshot.
    #[error("invalid snapshot database: {0}")]
    Database(String),
}

impl Server {
    /// Receives a Raft message of a peer.
    ///
    /// # Errors
    /// The message is rejected.
    pub fn receive(&self, message: raft::Message) -> Result<(), ReceiveError> {
        self.check_sender(&message)?;
        if message.kind == MessageType::MsgSnap {
            return Err(ReceiveError::NoDatabase);
        }
        self.deliver(message)
    }

    fn check_sender(&self, message: &raft::Message) -> Result<(), ReceiveError> {
        if self.state().cluster.now().is_removed(message.from) {
            tracing::warn!(local_member_id = %self.local(), from = %message.from, "rejected Raft message from removed member");
            return Err(ReceiveError::Removed);
        }
        if message.to != self.local() {
            tracing::warn!(local_member_id = %self.local(), from = %message.from, to = %message.to, "rejected Raft message to mismatch member");
            return Err(ReceiveError::Mismatch);
        }
        if message.kind.is_local() { Err(ReceiveError::Local) } else { Ok(()) }
    }

    fn deliver(&self, message: raft::Message) -> Result<(), ReceiveError> {
        let permit = self.inner.raft.peer_inbox.try_acquire(&message).ok_or(ReceiveError::Full)?;
        let is_taken =
            self.inner.raft.push(Event::PeerMessage { message: Box::new(message), permit });
        if is_taken { Ok(()) } else { Err(ReceiveError::Stopped) }
    }

    /// Receives a snapshot message of a peer with its database. Stores the database durably, then
    /// hands the message to Raft. Blocks on the disk and on the reader. Returns the size of the
    /// database in bytes.
    ///
    /// # Errors
    /// The database could not be read, written or validated, or Raft does not take the message.
    /// Then nothing is stored.
    pub fn receive_snapshot(
        &self,
        message: raft::Message,
        database: &mut dyn Read,
    ) -> Result<u64, ReceiveSnapshotError> {
        self.check_sender(&message)?;
        let snapshot = message.snapshot.as_ref().filter(|_| message.kind == MessageType::MsgSnap);
        let metadata = &snapshot.ok_or(ReceiveSnapshotError::NoSnapshot)?.metadata;
        let applied = (metadata.index, metadata.term);
        let began = self.now();
        let received = self.receive_database(database)?;
        self.check_database(received.path(), applied)?;
        let bytes = received.bytes();
        self.store_and_deliver(received, applied, message)?;
        let took = seconds(began, self.now());
        self.metrics().snap_db_save_total_duration.observe(took);
        Ok(bytes)
    }

    fn receive_database(&self, database: &mut dyn Read) -> Result<ReceivedDb<'_>, SnapError> {
        let copied = self.inner.snapshot_files.snapshotter.receive_db(database)?;
        let began = self.now();
        let synced = copied.sync();
        self.metrics().snap_db_fsync_duration.observe(seconds(began, self.now()));
        synced
    }

    /// Gives a database its final name and hands the message to Raft. If Raft does not take it, the
    /// database is deleted.
    ///
    /// An existing database of that name stays, because the raft loop may already have a message
    /// that refers to it.
    fn store_and_deliver(
        &self,
        received: ReceivedDb<'_>,
        applied: (Index, Term),
        message: raft::Message,
    ) -> Result<(), ReceiveSnapshotError> {
        let (files, index) = (&self.inner.snapshot_files.snapshotter, applied.0.0);
        let _naming = self.inner.snapshot_files.naming.lock();
        if let Some(path) = files.find_durable_db(index)? {
            self.check_database(&path, applied)?;
            return Ok(self.deliver(message)?);
        }
        received.keep(index)?;
        Ok(self.deliver(message).inspect_err(|_| files.remove_db(index))?)
    }

    /// Checks that a file is a sound database with the applied index and term of a snapshot.
    fn check_database(
        &self,
        path: &Path,
        (index, term): (Index, Term),
    ) -> Result<(), ReceiveSnapshotError> {
        let (disk, clock) = (Arc::clone(&self.inner.context.disk), &*self.inner.context.clock);
        match check_snapshot_database(disk, clock, path, &self.config().backend) {
            Ok(applied) if applied == (index, term) => Ok(()),
            Ok((has, at)) => Err(ReceiveSnapshotError::Database(format!(
                "applied index is {has} of term {at}, expected {index} of term {term}"
            ))),
            Err(error) => Err(ReceiveSnapshotError::Database(error.to_string())),
        }
    }

    /// Reports that a message to a member could not be delivered.
    pub fn report_unreachable(&self, member: MemberId) {
        self.inner.raft.push(Event::PeerUnreachable(member));
    }

    /// Reports whether a snapshot reached a member.
    pub fn report_snapshot(&self, to: MemberId, arrived: bool) {
        self.inner.raft.push(Event::SnapshotSent { to, arrived });
    }

    /// Stops this member because its peers report that it was removed. It may never apply that
    /// entry, since removed members receive no messages.
    pub fn removed_by_others(&self) {
        self.inner.lifecycle.stop(StopReason::Removed);
    }

    /// Renews a lease on the leader. Returns its TTL in seconds.
    ///
    /// # Errors
    /// The lease is unknown, or this member does not lead or is behind.
    pub async fn renew_for_peer(&self, id: LeaseId) -> Result<i64, Error> {
        if !(self.is_leader() && self.is_still_leader().await) {
            return Err(RenewError::NotPrimary.into());
        }
        self.catch_up().await?;
        failpoint_async!("beforeServeHTTPLeaseRenew");
        self.renew(id).await
    }

    /// Returns the TTL and keys of a lease, on the leader.
    ///
    /// # Errors
    /// As for [`Server::renew_for_peer`].
    pub async fn lease_for_peer(
        &self,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        self.catch_up().await?;
        failpoint_async!("beforeLookupWhenForwardLeaseTimeToLive");
        let (state, id) = (self.state(), LeaseId(r.id));
        let time = state.lessor.time_to_live(id, self.now()).ok_or(RenewError::NotFound)?;
        let ttl = time.remaining.ok_or(RenewError::NotPrimary)?;
        let keys = if r.keys { state.lessor.keys_of(id).unwrap_or_default() } else { Vec::new() };
        let header = Some(pb::ResponseHeader::default());
        Ok(pb::LeaseTimeToLiveResponse { header, id: r.id, ttl, granted_ttl: time.granted, keys })
    }

    /// Promotes a learner in the name of the token's user. Returns all members.
    ///
    /// # Errors
    /// The user has no permission, or the member is not a learner or is behind.
    pub async fn promote_for_peer(
        &self,
        token: Option<String>,
        id: MemberId,
    ) -> Result<Vec<Member>, Error> {
        let credentials = Credentials { token, ..Credentials::default() };
        self.check_admin(&credentials).await?;
        self.promote(&credentials, id).await
    }

    /// Returns the hash of the keys up to a revision.
    ///
    /// # Errors
    /// The revision is compacted or in the future.
    pub async fn hash_for_peer(&self, revision: i64) -> Result<PeerHash, Error> {
        let (hash, revision) = self.hash_of_keys(revision).await?;
        Ok(PeerHash { revision, hash })
    }

    /// Returns whether a downgrade is in progress, linearizably.
    ///
    /// # Errors
    /// The read index could not be confirmed.
    pub async fn is_downgrading(&self) -> Result<bool, Error> {
        self.linearizable().await?;
        Ok(self.state().cluster.now().downgrade().enabled)
    }
}

#[cfg(test)]
mod tests;
