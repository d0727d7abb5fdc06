//! What other members ask of this one, beside consensus. There are no users here: whoever may speak to the peer port may ask.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use backend::check_snapshot_database;
use failpoint::failpoint;
use lease::RenewError;
use membership::Member;
use proto::etcdserverpb as pb;
use raft::MessageType;
use types::{Index, LeaseId, MemberId, Term};
use wal::snap::{ReceivedDb, SnapError};

use super::Credentials;
use crate::error::Error;
use crate::metrics::seconds;
use crate::pipeline::raft_loop::Event;
use crate::server::{Server, StopReason};
use crate::transport::PeerHash;

/// Why a message of another member is not taken. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreceived {
    /// Its sender is no member any more.
    #[error("cannot process message from removed member")]
    Removed,
    /// It is for somebody else.
    #[error("cannot process message to mismatch member")]
    Mismatch,
    /// It is of a kind that members do not send each other.
    #[error("cannot process a message that members keep to themselves")]
    Local,
    /// It is a snapshot, and comes without its database.
    #[error("cannot process a snapshot without its database")]
    NoDatabase,
    /// Too many wait already. Consensus sends it again.
    #[error("receiving buffer is full")]
    Full,
    /// The member stops.
    #[error("etcdserver: server stopped")]
    Stopped,
}

/// Why a snapshot of another member is not taken.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotRefused {
    /// Its message is not.
    #[error(transparent)]
    Message(#[from] Unreceived),
    /// Its message is none.
    #[error("wrong raft message type")]
    NoSnapshot,
    /// Its database could not be kept.
    #[error("failed to save KV snapshot ({0})")]
    File(#[from] SnapError),
    /// Its database is none, or another.
    #[error("the database makes no sense: {0}")]
    Database(String),
}

impl Server {
    /// Another member says something.
    ///
    /// # Errors
    /// It is not heard.
    pub fn receive(&self, message: raft::Message) -> Result<(), Unreceived> {
        self.check_sender(&message)?;
        if message.kind == MessageType::MsgSnap {
            return Err(Unreceived::NoDatabase);
        }
        self.hand_on(message)
    }

    fn check_sender(&self, message: &raft::Message) -> Result<(), Unreceived> {
        if self.state().cluster.now().is_removed(message.from) {
            tracing::warn!(local_member_id = %self.local(), from = %message.from, "rejected Raft message from removed member");
            return Err(Unreceived::Removed);
        }
        if message.to != self.local() {
            tracing::warn!(local_member_id = %self.local(), from = %message.from, to = %message.to, "rejected Raft message to mismatch member");
            return Err(Unreceived::Mismatch);
        }
        if message.kind.is_local() { Err(Unreceived::Local) } else { Ok(()) }
    }

    fn hand_on(&self, message: raft::Message) -> Result<(), Unreceived> {
        let place = self.shared.received.take_place(&message).ok_or(Unreceived::Full)?;
        let is_taken = self.shared.raft.push(Event::Peer { message: Box::new(message), place });
        if is_taken { Ok(()) } else { Err(Unreceived::Stopped) }
    }

    /// Another member sends a snapshot, with the database behind it. That is kept, durably, and then consensus hears of it. Waits for the disk, and for whoever the
    /// database is read from. Returns how many bytes that were.
    ///
    /// # Errors
    /// It could not be read to its end, or not be written, or is not what the message says, or consensus does not hear of it. Nothing is kept then.
    pub fn receive_snapshot(
        &self,
        message: raft::Message,
        database: &mut dyn Read,
    ) -> Result<u64, SnapshotRefused> {
        self.check_sender(&message)?;
        let snapshot = message.snapshot.as_ref().filter(|_| message.kind == MessageType::MsgSnap);
        let metadata = &snapshot.ok_or(SnapshotRefused::NoSnapshot)?.metadata;
        let applied = (metadata.index, metadata.term);
        let began = self.now();
        let received = self.receive_database(database)?;
        self.check_database(received.path(), applied)?;
        let bytes = received.bytes();
        self.keep(received, applied, message)?;
        let took = seconds(began, self.now());
        self.metrics().snap_db_save_total_duration.observe(took);
        Ok(bytes)
    }

    fn receive_database(&self, database: &mut dyn Read) -> Result<ReceivedDb<'_>, SnapError> {
        let copied = self.shared.files.receive_db(database)?;
        let began = self.now();
        let synced = copied.sync();
        self.metrics().snap_db_fsync_duration.observe(seconds(began, self.now()));
        synced
    }

    /// Gives a database its name, and tells consensus. If it does not hear of it, the database is not kept: nobody would ever come for it.
    ///
    /// If there is one of that name, consensus may have heard of that already: it stays, whatever comes.
    fn keep(
        &self,
        received: ReceivedDb<'_>,
        applied: (Index, Term),
        message: raft::Message,
    ) -> Result<(), SnapshotRefused> {
        let (files, index) = (&self.shared.files, applied.0.0);
        let _naming = self.shared.naming.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = files.find_durable_db(index)? {
            self.check_database(&path, applied)?;
            return Ok(self.hand_on(message)?);
        }
        received.keep(index)?;
        Ok(self.hand_on(message).inspect_err(|_| files.remove_db(index))?)
    }

    /// Whether a file is a whole database, and has everything up to an entry.
    fn check_database(
        &self,
        path: &Path,
        (index, term): (Index, Term),
    ) -> Result<(), SnapshotRefused> {
        let (disk, clock) = (Arc::clone(&self.shared.disk), &*self.shared.clock);
        match check_snapshot_database(disk, clock, path, &self.config().backend) {
            Ok(applied) if applied == (index, term) => Ok(()),
            Ok((has, at)) => Err(SnapshotRefused::Database(format!(
                "it has entry {has} of term {at} applied, not {index} of term {term}"
            ))),
            Err(error) => Err(SnapshotRefused::Database(error.to_string())),
        }
    }

    /// A message to another member could not be delivered.
    pub fn report_unreachable(&self, member: MemberId) {
        self.shared.raft.push(Event::Unreachable(member));
    }

    /// A snapshot reached another member, or did not.
    pub fn report_snapshot(&self, to: MemberId, arrived: bool) {
        self.shared.raft.push(Event::SnapshotSent { to, arrived });
    }

    /// Others say that this member was removed. It may never hear so by itself, since nobody sends it anything any more.
    pub fn removed_by_others(&self) {
        self.shared.end(StopReason::Removed);
    }

    /// Renews a lease, on the leader. Returns its time to live in seconds.
    ///
    /// # Errors
    /// There is no such lease, this member does not lead, or is behind.
    pub async fn renew_for_peer(&self, id: LeaseId) -> Result<i64, Error> {
        if !(self.is_leader() && self.is_still_leader().await) {
            return Err(RenewError::NotPrimary.into());
        }
        self.catch_up().await?;
        failpoint!("beforeServeHTTPLeaseRenew");
        self.renew(id).await
    }

    /// How long a lease has to live, as the leader knows.
    ///
    /// # Errors
    /// As for [`Server::renew_for_peer`].
    pub async fn lease_for_peer(
        &self,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        self.catch_up().await?;
        failpoint!("beforeLookupWhenForwardLeaseTimeToLive");
        let (state, id) = (self.state(), LeaseId(r.id));
        let time = state.lessor.time_to_live(id, self.now()).ok_or(RenewError::NotFound)?;
        let ttl = time.remaining.ok_or(RenewError::NotPrimary)?;
        let keys = if r.keys { state.lessor.keys_of(id).unwrap_or_default() } else { Vec::new() };
        let header = Some(pb::ResponseHeader::default());
        Ok(pb::LeaseTimeToLiveResponse { header, id: r.id, ttl, granted_ttl: time.granted, keys })
    }

    /// Makes a voter of a learner, for whoever has a token. Returns all members.
    ///
    /// # Errors
    /// They may not, or it is no learner, or lags.
    pub async fn promote_for_peer(
        &self,
        token: Option<String>,
        id: MemberId,
    ) -> Result<Vec<Member>, Error> {
        let who = Credentials { token, ..Credentials::default() };
        self.check_admin(&who).await?;
        self.promote(&who, id).await
    }

    /// What this member holds up to a revision.
    ///
    /// # Errors
    /// The revision is not there any more, or not yet.
    pub async fn hash_for_peer(&self, revision: i64) -> Result<PeerHash, Error> {
        let (hash, revision) = self.hash_of_keys(revision).await?;
        Ok(PeerHash { revision, hash })
    }

    /// Whether the cluster is being downgraded, as of now.
    ///
    /// # Errors
    /// It could not be made sure of.
    pub async fn is_downgrading(&self) -> Result<bool, Error> {
        self.linearizable().await?;
        Ok(self.state().cluster.now().downgrade().enabled)
    }
}

#[cfg(test)]
mod tests;
