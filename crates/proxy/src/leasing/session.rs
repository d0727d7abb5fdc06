//! The session of a proxy: the lease of its leasing keys, and the tasks that depend on it.
//!
//! ```text
//!   watch l/… ─► grant a lease ─┬─► renew it, three times per TTL ───────┐
//!                               ├─► follow events of leasing keys ───────┤ the first that ends
//!                               └─► release keys                         │ ends the session
//!        ▲                                                               ▼
//!        └────────── after a pause ── revoke the lease ◄── forget all keys
//! ```
//!
//! The lease lives for a TTL from the time at which the leader renews it, which is not before the
//! renewal was sent. Keys are therefore answered from memory for a TTL from *sending* the last
//! renewal that was answered, less a margin for clocks of different speed. (etcd's client counts
//! from the answer, and checks twice a second.)
//!
//! The watch is open before the lease exists, so that no event of the session is missed. When it
//! cannot be resumed, the session ends too: a proxy that misses the revocation of a key
//! would block its writers.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, FuturesUnordered};
use grpc::Status;
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, RangeRequest, WatchResponse,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::LeasingState;
use super::keys::{LeasingEvent, Release};
use super::requests::REVOKE;
use super::watching::Watching;
use crate::context::own_metadata;
use crate::keep_alive::is_renewal_retryable;
use crate::upstream::{Upstream, from_tonic, is_unreachable};

/// The TTL of the lease, in seconds. As in etcd.
const TTL_SECONDS: i64 = 60;
/// Renewals per TTL.
const RENEWALS: u32 = 3;
/// The part of the TTL that is not relied on: a sixth.
const MARGIN: u32 = 6;
/// The time for a renewal, after which it is sent to the next endpoint.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before something that has failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The most releases in flight.
const RELEASES_MAX: usize = 32;

/// Keeps a session, forever.
pub(super) async fn keep(shared: Arc<LeasingState>) {
    loop {
        let Err(reason) = shared.hold_session().await;
        tracing::debug!(reason, "no leasing session");
        sleep(RETRY_PAUSE).await;
    }
}

impl LeasingState {
    /// Opens a session, and holds it until it is lost. Returns the reason.
    async fn hold_session(&self) -> Result<Infallible, String> {
        let all = self.leasing_keys.all().clone();
        let watching = Watching::start(&self.watches, all, 0, &own_metadata());
        // The first response confirms the watcher.
        watching.next().await?;
        let upstream = &self.members.upstream;
        let sent = Instant::now();
        let (lease, ttl) = grant(upstream).await.map_err(|status| status.to_string())?;
        let valid_until = valid_until(sent, ttl);
        self.keys.start_session(lease, valid_until);
        tracing::info!(lease, ttl, "leasing session started");
        let reason = tokio::select! {
            reason = self.renew(lease, valid_until) => reason,
            reason = self.follow(&watching) => reason,
            () = self.keys.session_end() => "it was ended".to_owned(),
            () = self.release_queued() => "releases have ended".to_owned(),
        };
        self.keys.end_session();
        tracing::warn!(lease, reason, "leasing session lost; its keys are forgotten");
        tokio::spawn(revoke(upstream.clone(), lease, Instant::now() + seconds(ttl)));
        Err(reason)
    }

    /// Renews the lease until that fails. Returns the reason.
    async fn renew(&self, lease: i64, mut valid_until: Instant) -> String {
        let mut pause = seconds(TTL_SECONDS) / RENEWALS;
        loop {
            sleep(pause).await;
            let sent = Instant::now();
            let until = valid_until.min(sent + RENEWAL_TIMEOUT);
            let answer = timeout_at(until, renew_once(&self.members.upstream, lease)).await;
            pause = match answer {
                Ok(Ok(ttl)) if ttl > 0 => {
                    valid_until = self::valid_until(sent, ttl);
                    self.keys.extend_session(valid_until);
                    seconds(ttl) / RENEWALS
                }
                Ok(Ok(_)) => return "the lease has expired".to_owned(),
                Ok(Err(status)) if !is_renewal_retryable(&status) => return status.to_string(),
                _ if Instant::now() >= valid_until => return "no member is reachable".to_owned(),
                _ => RETRY_PAUSE,
            };
        }
    }

    /// Applies the events of leasing keys until the watcher ends. Returns the reason.
    async fn follow(&self, watching: &Watching) -> String {
        loop {
            match watching.next().await {
                Ok(response) => self.apply(&response),
                Err(reason) => return reason,
            }
        }
    }

    fn apply(&self, response: &WatchResponse) {
        for event in &response.events {
            let leasing_key = event.kv.as_ref().map(|kv| &kv.key);
            let key = leasing_key.and_then(|key| self.leasing_keys.owned_by(key));
            if let (Some(key), Some(event)) = (key, LeasingEvent::parse(event, REVOKE)) {
                self.keys.apply(&key, event);
            }
        }
    }

    /// Releases keys that are queued, forever.
    async fn release_queued(&self) {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < RELEASES_MAX
                && let Some(next) = self.keys.next_release()
            {
                running.push(self.release(next));
            }
            tokio::select! {
                Some(()) = running.next() => {}
                () = self.keys.release_queued(), if running.len() < RELEASES_MAX => {}
            }
        }
    }

    /// Releases a key, in as many attempts as it takes. The end of the session ends them.
    async fn release(&self, release: Release) {
        while let Err(status) = self.try_release(&release).await {
            tracing::debug!(%status, "failed to release a leasing key");
            sleep(RETRY_PAUSE).await;
        }
        self.keys.released(&release);
    }

    async fn try_release(&self, release: &Release) -> Result<(), Status> {
        let owned_since = match release.owned_since {
            Some(known) => Some(known),
            None => self.find_own(release).await?,
        };
        if let Some(owned_since) = owned_since {
            let txn = self.leasing_keys.release(&release.key, owned_since);
            self.members.txn(&own_metadata(), txn).await?;
        }
        Ok(())
    }

    /// Returns the creation revision of a leasing key, if it belongs to this session.
    async fn find_own(&self, release: &Release) -> Result<Option<i64>, Status> {
        let key = self.leasing_keys.of(&release.key);
        let request = RangeRequest { key, ..RangeRequest::default() };
        let found = self.members.range(&own_metadata(), request).await?;
        let own = found.kvs.iter().find(|kv| kv.lease == release.lease);
        Ok(own.map(|kv| kv.create_revision))
    }
}

/// Grants a lease. Returns its id and TTL.
async fn grant(upstream: &Upstream) -> Result<(i64, i64), Status> {
    let grant = LeaseGrantRequest { ttl: TTL_SECONDS, id: 0 };
    let grant = upstream.request(grant, &own_metadata()).map_err(from_tonic)?;
    let granted = upstream.lease().lease_grant(grant).await.map_err(from_tonic)?.into_inner();
    Ok((granted.id, granted.ttl))
}

/// Renews a lease. Returns its TTL, which is not positive if it has expired. A stream of its own
/// makes sure that the answer is not that to an earlier request.
async fn renew_once(upstream: &Upstream, id: i64) -> Result<i64, tonic::Status> {
    let mut request = tonic::Request::new(stream::once(ready(LeaseKeepAliveRequest { id })));
    *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(own_metadata());
    let mut answers = upstream.lease().lease_keep_alive(request).await?.into_inner();
    match answers.message().await? {
        Some(answer) => Ok(answer.ttl),
        None => Err(tonic::Status::unavailable("the stream has ended")),
    }
}

/// Revokes the lease of a session that has ended, so that writers need not wait for its end.
async fn revoke(upstream: Upstream, id: i64, until: Instant) {
    while Instant::now() < until {
        let request = upstream.request(LeaseRevokeRequest { id }, &own_metadata());
        let Ok(request) = request else { return };
        match upstream.lease().lease_revoke(request).await {
            Err(status) if is_unreachable(&status) => sleep(RETRY_PAUSE).await,
            _ => return,
        }
    }
}

/// Returns the time until which a lease that was renewed then exists in any case.
fn valid_until(sent: Instant, ttl: i64) -> Instant {
    let ttl = seconds(ttl);
    sent + ttl - ttl / MARGIN
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_relied_on_for_less_than_its_ttl_from_the_request() {
        let sent = Instant::now();
        assert_eq!(valid_until(sent, 60), sent + Duration::from_secs(50));
        assert_eq!(valid_until(sent, 0), sent);
        assert_eq!(valid_until(sent, -1), sent);
    }
}
