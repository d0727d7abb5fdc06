//! Leases: granted and revoked through the log, renewed and read on the leader.
//!
//! ```text
//!   renew ─► leader confirmed ─► lease known ─► permissions ─► lessor ─┬─► renewed, 10 s
//!                                  has a checkpoint: clear it through the log, retry ◄┤
//!                                  has expired: wait until it is revoked, retry      ◄┤
//!                                  not primary yet: find the leader again            ◄┘
//! ```

use std::time::Duration;

use failpoint::failpoint_async;
use lease::{RenewError, Renewal};
use membership::Member;
use proto::etcdserverpb as pb;
use types::LeaseId;

use super::Credentials;
use super::leader::Leader;
use crate::error::Error;
use crate::server::Server;
use crate::state::LessorAdapter;
use crate::transport::PeerRequestError;

/// The wait before the leader is looked up again.
const RETRY: Duration = Duration::from_millis(50);

/// The TTL that etcd reports for an unknown lease.
const NO_TTL: i64 = -1;

impl Server {
    /// Grants a lease. For id zero the member chooses one.
    pub async fn lease_grant(
        &self,
        credentials: &Credentials,
        mut r: pb::LeaseGrantRequest,
    ) -> Result<pb::LeaseGrantResponse, Error> {
        while r.id == 0 {
            // Without the sign bit, so that the id is positive.
            r.id = i64::try_from(self.next_id() & u64::MAX >> 1).unwrap_or_default();
        }
        self.check_any_user(credentials).await?;
        self.response_for(credentials, r).await
    }

    /// Revokes a lease and deletes its keys.
    pub async fn lease_revoke(
        &self,
        credentials: &Credentials,
        r: pb::LeaseRevokeRequest,
    ) -> Result<pb::LeaseRevokeResponse, Error> {
        self.check_any_user(credentials).await?;
        self.response_for(credentials, r).await
    }

    /// Renews a lease. Returns its TTL in seconds, zero for an unknown lease.
    ///
    /// # Errors
    /// The user has no permission, or no leader was found in time.
    pub async fn lease_renew(&self, credentials: &Credentials, id: i64) -> Result<i64, Error> {
        let (id, deadline) = (LeaseId(id), self.deadline());
        loop {
            match self.find_leader(deadline).await? {
                Leader::Local => match self.renew_here(credentials, id).await? {
                    Some(ttl) => return Ok(ttl),
                    None => self.pause(RETRY, deadline).await?,
                },
                Leader::Peer(leader) => {
                    self.check_renew(credentials, id).await?;
                    match self
                        .transport()
                        .request_lease_renewal(&leader, id, self.time_left(deadline))
                        .await
                    {
                        Ok(ttl) => return Ok(ttl),
                        Err(PeerRequestError::LeaseNotFound) => return Ok(0),
                        Err(error) => log_unanswered(&leader, &error),
                    }
                    self.pause(RETRY, deadline).await?;
                }
            }
        }
    }

    /// Returns `None` if the lessor of this member is not primary.
    async fn renew_here(
        &self,
        credentials: &Credentials,
        id: LeaseId,
    ) -> Result<Option<i64>, Error> {
        // The client then retries with another member.
        if !self.is_still_leader().await {
            return Err(RenewError::NotPrimary.into());
        }
        // An unknown lease may have been granted by an entry that is not applied yet.
        let is_known = || self.state().lessor.contains(id);
        if !(self.config().features.fast_lease_keep_alive && is_known()) {
            self.catch_up().await?;
        }
        self.check_renew(credentials, id).await?;
        match self.renew(id).await {
            Ok(ttl) => Ok(Some(ttl)),
            Err(Error::Renew(RenewError::NotFound)) => Ok(Some(0)),
            Err(Error::Renew(RenewError::NotPrimary)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn check_renew(&self, credentials: &Credentials, id: LeaseId) -> Result<(), Error> {
        let caller = self.auth_info(credentials).await?;
        let state = self.state();
        Ok(state.auth.check_lease_renew(caller.as_ref(), id, &LessorAdapter(&state.lessor))?)
    }

    /// Renews a lease after its checkpoint is cleared, or waits until it is revoked.
    pub(super) async fn renew(&self, id: LeaseId) -> Result<i64, Error> {
        if self.state().lessor.contains(id) {
            failpoint_async!("beforeCheckpointInLeaseRenew");
        }
        loop {
            match self.state().lessor.renew(id, self.now())? {
                Renewal::Renewed { ttl } => return Ok(ttl),
                Renewal::ClearCheckpoint => self.clear_checkpoint(id).await?,
                // Without a deadline: the client must not learn of the expiry before it is applied.
                Renewal::AwaitRevoke => self.pause(RETRY, Duration::MAX).await?,
            }
        }
    }

    async fn clear_checkpoint(&self, id: LeaseId) -> Result<(), Error> {
        let checkpoints = vec![pb::LeaseCheckpoint { id: id.0, remaining_ttl: 0 }];
        self.propose(pb::LeaseCheckpointRequest { checkpoints })?.await?.into_reply()
    }

    /// Returns the TTL and the keys of a lease. An unknown lease has the TTL -1.
    pub async fn lease_time_to_live(
        &self,
        credentials: &Credentials,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        let caller = self.auth_info(credentials).await?;
        let state = self.state();
        let leases = LessorAdapter(&state.lessor);
        let rights = state.auth.check_lease_time_to_live(caller.as_ref(), &r, &leases)?;
        drop(state);
        let mut response = self.lease_details(r).await?;
        if r.keys {
            self.state().auth.check_revision(rights)?;
        }
        response.header = Some(self.header_now());
        Ok(response)
    }

    async fn lease_details(
        &self,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        let deadline = self.deadline();
        while let Leader::Peer(leader) = self.find_leader(deadline).await? {
            match self.transport().request_lease_ttl(&leader, r, self.time_left(deadline)).await {
                Ok(response) => return Ok(response),
                Err(PeerRequestError::LeaseNotFound) => return Ok(no_lease(r)),
                Err(error) => log_unanswered(&leader, &error),
            }
            self.pause(RETRY, deadline).await?;
        }
        self.catch_up().await?;
        failpoint_async!("beforeLookupWhenLeaseTimeToLive");
        self.local_lease_details(r)
    }

    fn local_lease_details(
        &self,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        let (state, id) = (self.state(), LeaseId(r.id));
        let Some(time) = state.lessor.time_to_live(id, self.now()) else {
            return Ok(no_lease(r));
        };
        let keys = if r.keys { state.lessor.keys_of(id).unwrap_or_default() } else { Vec::new() };
        // Only the primary knows the remaining TTL. Clients retry after a leader change.
        let ttl = time.remaining.ok_or(Error::LeaderChanged)?;
        let header = None;
        Ok(pb::LeaseTimeToLiveResponse { header, id: r.id, ttl, granted_ttl: time.granted, keys })
    }

    /// Lists the leases that this member knows.
    pub async fn lease_leases(
        &self,
        credentials: &Credentials,
        _: pb::LeaseLeasesRequest,
    ) -> Result<pb::LeaseLeasesResponse, Error> {
        let caller = self.auth_info(credentials).await?;
        let state = self.state();
        let ids = state.lessor.leases();
        let leases = LessorAdapter(&state.lessor);
        state.auth.check_lease_leases(caller.as_ref(), ids.iter().copied(), &leases)?;
        let leases = ids.into_iter().map(|id| pb::LeaseStatus { id: id.0 }).collect();
        Ok(pb::LeaseLeasesResponse { header: Some(self.header_now()), leases })
    }
}

/// Returns the response for an unknown lease.
fn no_lease(r: pb::LeaseTimeToLiveRequest) -> pb::LeaseTimeToLiveResponse {
    pb::LeaseTimeToLiveResponse { id: r.id, ttl: NO_TTL, ..Default::default() }
}

/// Logs a failed query, which is retried with the current leader.
fn log_unanswered(leader: &Member, error: &PeerRequestError) {
    tracing::debug!(leader = %leader.id, %error, "the leader did not answer about a lease");
}
