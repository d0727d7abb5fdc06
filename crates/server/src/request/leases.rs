//! Leases: granted and revoked through the log, renewed and looked at where the leader is.
//!
//! ```text
//!   renew ─► here: still the leader? ─► there at all? ─► may they? ─► lessor ─► renewed, 10 s
//!                                                                        ├────► has a checkpoint: clear it through the log, and again
//!                                                                        ├────► has expired: wait until it is revoked, and again
//!                                                                        └────► not primary (yet): look for the leader again
//! ```

use std::time::Duration;

use failpoint::failpoint;
use lease::{RenewError, Renewal};
use membership::Member;
use proto::etcdserverpb as pb;
use types::LeaseId;

use super::Credentials;
use super::leader::Leader;
use crate::error::Error;
use crate::server::Server;
use crate::state::Attached;
use crate::transport::AskError;

/// How long to wait before the leader is looked for again.
const RETRY: Duration = Duration::from_millis(50);

/// The time to live of a lease that is not there.
const NO_TTL: i64 = -1;

impl Server {
    /// Grants a lease. Id zero lets the member choose one.
    pub async fn lease_grant(
        &self,
        who: &Credentials,
        mut r: pb::LeaseGrantRequest,
    ) -> Result<pb::LeaseGrantResponse, Error> {
        while r.id == 0 {
            // The sign is left out, so that it is a positive number.
            r.id = i64::try_from(self.next_id() & u64::MAX >> 1).unwrap_or_default();
        }
        self.check_any_user(who).await?;
        self.log_for_response(who, r).await
    }

    /// Revokes a lease, and deletes its keys.
    pub async fn lease_revoke(
        &self,
        who: &Credentials,
        r: pb::LeaseRevokeRequest,
    ) -> Result<pb::LeaseRevokeResponse, Error> {
        self.check_any_user(who).await?;
        self.log_for_response(who, r).await
    }

    /// Renews a lease. Returns its time to live in seconds, zero if there is no such lease.
    ///
    /// # Errors
    /// The caller may not, or there is no leader to be found.
    pub async fn lease_renew(&self, who: &Credentials, id: i64) -> Result<i64, Error> {
        let (id, deadline) = (LeaseId(id), self.deadline());
        loop {
            match self.find_leader(deadline).await? {
                Leader::Here => match self.renew_here(who, id).await? {
                    Some(ttl) => return Ok(ttl),
                    None => self.pause(RETRY, deadline).await?,
                },
                Leader::Elsewhere(leader) => {
                    self.check_renew(who, id).await?;
                    match self.transport().ask_to_renew(&leader, id, self.left(deadline)).await {
                        Ok(ttl) => return Ok(ttl),
                        Err(AskError::LeaseNotFound) => return Ok(0),
                        Err(error) => note_unanswered(&leader, &error),
                    }
                    self.pause(RETRY, deadline).await?;
                }
            }
        }
    }

    /// None if this member turns out not to be who renews.
    async fn renew_here(&self, who: &Credentials, id: LeaseId) -> Result<Option<i64>, Error> {
        // The client turns to another member then, rather than to wait for this one to come round.
        if !self.is_still_leader().await {
            return Err(RenewError::NotPrimary.into());
        }
        // One that is not there may be about to be: what grants it is committed, and not applied yet.
        let is_known = || self.state().lessor.contains(id);
        if !(self.config().features.fast_lease_keep_alive && is_known()) {
            self.catch_up().await?;
        }
        self.check_renew(who, id).await?;
        match self.renew(id).await {
            Ok(ttl) => Ok(Some(ttl)),
            Err(Error::Renew(RenewError::NotFound)) => Ok(Some(0)),
            Err(Error::Renew(RenewError::NotPrimary)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn check_renew(&self, who: &Credentials, id: LeaseId) -> Result<(), Error> {
        let caller = self.auth_info(who).await?;
        let state = self.state();
        Ok(state.auth.check_lease_renew(caller.as_ref(), id, &Attached(&state.lessor))?)
    }

    /// Renews what may be renewed, however often that takes.
    pub(super) async fn renew(&self, id: LeaseId) -> Result<i64, Error> {
        loop {
            match self.state().lessor.renew(id, self.now())? {
                Renewal::Renewed { ttl } => return Ok(ttl),
                Renewal::ClearCheckpoint => self.clear_checkpoint(id).await?,
                // However long it takes: the client must not hear of it before it is so.
                Renewal::AwaitRevoke => self.pause(RETRY, Duration::MAX).await?,
            }
        }
    }

    async fn clear_checkpoint(&self, id: LeaseId) -> Result<(), Error> {
        failpoint!("beforeCheckpointInLeaseRenew");
        let checkpoints = vec![pb::LeaseCheckpoint { id: id.0, remaining_ttl: 0 }];
        self.propose(pb::LeaseCheckpointRequest { checkpoints })?.await?.into_reply()
    }

    /// How long a lease has to live, and which keys it has. One that is not there has minus one seconds.
    pub async fn lease_time_to_live(
        &self,
        who: &Credentials,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        let caller = self.auth_info(who).await?;
        let state = self.state();
        let leases = Attached(&state.lessor);
        let rights = state.auth.check_lease_time_to_live(caller.as_ref(), &r, &leases)?;
        drop(state);
        let mut response = self.look_at_lease(r).await?;
        if r.keys {
            self.state().auth.check_revision(rights)?;
        }
        response.header = Some(self.header_now());
        Ok(response)
    }

    async fn look_at_lease(
        &self,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        let deadline = self.deadline();
        while let Leader::Elsewhere(leader) = self.find_leader(deadline).await? {
            match self.transport().ask_for_lease(&leader, r, self.left(deadline)).await {
                Ok(response) => return Ok(response),
                Err(AskError::LeaseNotFound) => return Ok(no_lease(r)),
                Err(error) => note_unanswered(&leader, &error),
            }
            self.pause(RETRY, deadline).await?;
        }
        self.catch_up().await?;
        failpoint!("beforeLookupWhenLeaseTimeToLive");
        self.look_at_lease_here(r)
    }

    fn look_at_lease_here(
        &self,
        r: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Error> {
        let (state, id) = (self.state(), LeaseId(r.id));
        let Some(time) = state.lessor.time_to_live(id, self.now()) else {
            return Ok(no_lease(r));
        };
        let keys = if r.keys { state.lessor.keys_of(id).unwrap_or_default() } else { Vec::new() };
        // Only the primary knows how much is left. Clients try again if the leader has changed.
        let ttl = time.remaining.ok_or(Error::LeaderChanged)?;
        let header = None;
        Ok(pb::LeaseTimeToLiveResponse { header, id: r.id, ttl, granted_ttl: time.granted, keys })
    }

    /// All leases that this member knows.
    pub async fn lease_leases(
        &self,
        who: &Credentials,
        _: pb::LeaseLeasesRequest,
    ) -> Result<pb::LeaseLeasesResponse, Error> {
        let caller = self.auth_info(who).await?;
        let state = self.state();
        let ids = state.lessor.leases();
        let leases = Attached(&state.lessor);
        state.auth.check_lease_leases(caller.as_ref(), ids.iter().copied(), &leases)?;
        let leases = ids.into_iter().map(|id| pb::LeaseStatus { id: id.0 }).collect();
        Ok(pb::LeaseLeasesResponse { header: Some(self.header_now()), leases })
    }
}

/// What is told of a lease that is not there.
fn no_lease(r: pb::LeaseTimeToLiveRequest) -> pb::LeaseTimeToLiveResponse {
    pb::LeaseTimeToLiveResponse { id: r.id, ttl: NO_TTL, ..Default::default() }
}

/// The leader is asked again, or whoever leads by then.
fn note_unanswered(leader: &Member, error: &AskError) {
    tracing::debug!(leader = %leader.id, %error, "the leader did not answer about a lease");
}
