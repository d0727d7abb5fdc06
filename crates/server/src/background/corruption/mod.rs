//! Corruption checks: members compare hashes of their keys.
//!
//! ```text
//!   when                         runs on  compares                          on a mismatch
//!   at a start, if enabled       each     all keys, at its own revision     stops before voting
//!   every --corrupt-check-time   leader   all keys, twice, and with peers   alarm for one member
//!   every minute, if enabled     leader   hashes of the last compactions,   alarm for the minority
//!                                         newest first                      or the whole cluster
//! ```
//!
//! A `CORRUPT` alarm refuses all writes until an operator clears it. A hash belongs to a revision
//! and a compaction, so members with different compactions are not compared, nor are hashes of
//! compactions that other members need not have: [`mvcc::WatchableStore::compaction_hashes`]. Peers
//! are queried through the trait [`PeerHashes`], which tests replace.

mod rules;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mvcc::KeyValueHash;
use proto::etcdserverpb::AlarmType;
use types::MemberId;

use super::BackgroundTask;
use super::pending_task::{Interval, POLL, PendingTask};
use crate::error::Error;
use crate::server::Server;
use crate::transport::{PeerHash as PeerHashResponse, PeerRequestError};
use rules::{Compared, LocalHashes, compare, corrupt_member, differs_at_start};

/// Requests key hashes from peers.
pub(crate) trait PeerHashes: Send + Sync + Debug {
    /// Requests the hash up to `revision` from every peer. The result has one item per peer, also
    /// for a failed request; each request has a timeout.
    fn at(&self, revision: i64) -> Pin<Box<dyn Future<Output = Vec<PeerHash>> + Send + '_>>;
}

/// The answer of one peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerHash {
    pub(crate) member: MemberId,
    pub(crate) answer: Result<PeerHashResponse, PeerRequestError>,
}

/// The peers according to the membership at the time of the request.
#[derive(Clone, Debug)]
pub(crate) struct ClusterPeers(pub(crate) Server);

impl PeerHashes for ClusterPeers {
    fn at(&self, revision: i64) -> Pin<Box<dyn Future<Output = Vec<PeerHash>> + Send + '_>> {
        Box::pin(self.request_all(revision))
    }
}

impl ClusterPeers {
    /// Sends all requests at once and then awaits the answers.
    async fn request_all(&self, revision: i64) -> Vec<PeerHash> {
        let ClusterPeers(server) = self;
        let (transport, within) = (server.transport(), server.config().request_timeout());
        let members = server.state().cluster.now();
        let others = members.members().filter(|member| member.id != server.local());
        let requests: Vec<_> = others
            .map(|member| (member.id, transport.request_hash(member, revision, within)))
            .collect();
        let mut answers = Vec::with_capacity(requests.len());
        for (member, answer) in requests {
            answers.push(PeerHash { member, answer: answer.await });
        }
        self.warn_of_failures(revision, &answers);
        answers
    }

    fn warn_of_failures(&self, revision: i64, answers: &[PeerHash]) {
        for PeerHash { member, answer } in answers {
            if let Err(error) = answer {
                tracing::warn!(
                    local_member_id = %self.0.local(),
                    requested_revision = revision,
                    remote_member_id = %member,
                    %error,
                    "failed hash kv request"
                );
            }
        }
    }
}

/// The reason why the initial check refuses to start a member.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Inconsistent {
    /// Peers have a different hash at the same revision.
    #[error("{0} found data inconsistency with peers")]
    Differs(MemberId),
    /// The member cannot compute its own hash.
    #[error("{0} failed to fetch hash ({1})")]
    NoHash(MemberId, Error),
}

/// Compares hashes with peers before the member serves clients or votes.
pub(super) async fn initial_check(
    server: Server,
    peers: Arc<dyn PeerHashes>,
) -> Result<(), Inconsistent> {
    let local = server.local();
    let timeout = server.config().request_timeout();
    tracing::info!(local_member_id = %local, ?timeout, "starting initial corruption check");
    let hashes = both_hashes(&server).await.map_err(|error| Inconsistent::NoHash(local, error))?;
    let (own, compacted) = hashes;
    let mut peer_hashes = peers.at(own.revision).await;
    leave_out_compacted(&mut peer_hashes, compacted);
    if differs_at_start(local, &own, &peer_hashes) {
        return Err(Inconsistent::Differs(local));
    }
    tracing::info!(local_member_id = %local, "initial corruption checking passed; no corruption");
    Ok(())
}

/// Leaves out peers that have compacted to the revision of the comparison: they report the hash of
/// the compaction.
fn leave_out_compacted(peers: &mut Vec<PeerHash>, compacted: Option<KeyValueHash>) {
    peers.retain(|peer| !peer.answer.as_ref().is_ok_and(|it| Some(it.hash) == compacted));
}

/// Returns the hash of all keys and the revision of the store.
async fn hash_now(server: &Server) -> Result<(KeyValueHash, i64), Error> {
    server.hash_of_keys(0).await
}

/// Returns the hash of this member, and the hash that a compaction to the current revision would
/// leave if it differs. Repeats if a compaction runs between the two.
async fn both_hashes(server: &Server) -> Result<(KeyValueHash, Option<KeyValueHash>), Error> {
    loop {
        let worker = server.clone();
        let both = move || -> Result<_, Error> {
            let (state, began) = (worker.state(), worker.now());
            let own = state.store.hash_kv(0)?.0;
            let took = worker.now().saturating_sub(began);
            worker.metrics().hash_rev_duration.observe(took.as_secs_f64());
            Ok((own, state.store.hash_as_compacted(own.revision)?))
        };
        let both = server.inner.pools.long.run(both).await.map_err(|_| Error::TooManyRequests)?;
        let (own, compacted) = both?;
        if compacted.is_none_or(|it| it.compact_revision == own.compact_revision) {
            return Ok((own, compacted));
        }
    }
}

/// Raises the alarm without waiting for it. If the proposal is lost, the next check finds the
/// mismatch again.
fn raise(server: &Server, member: MemberId) {
    server.inner.alarms.maybe_raise(AlarmType::Corrupt, member, || ());
}

/// Compares the hash of all keys periodically.
#[derive(Debug)]
pub(super) struct AllKeys {
    server: Server,
    peers: Arc<dyn PeerHashes>,
    every: Interval,
    checking: PendingTask<Result<(), Error>>,
}

impl AllKeys {
    /// Returns `None` if the interval is zero, which disables the check.
    pub(super) fn new(server: Server, peers: Arc<dyn PeerHashes>) -> Option<AllKeys> {
        let interval = server.config().corrupt_check_time;
        if interval.is_zero() {
            return None;
        }
        tracing::info!(local_member_id = %server.local(), ?interval, "enabled corruption checking");
        let every = Interval::after(interval, server.now());
        Some(AllKeys { server, peers, every, checking: PendingTask::default() })
    }
}

impl BackgroundTask for AllKeys {
    fn turn(&mut self, now: Duration) -> Duration {
        let may_begin = !self.checking.is_pending();
        if may_begin && self.every.is_due(now) && self.server.is_leader() {
            self.checking.begin(check_all_keys(self.server.clone(), Arc::clone(&self.peers)));
        }
        if let Some(Err(error)) = self.checking.poll() {
            tracing::warn!(%error, "failed to check hash KV");
        }
        if self.checking.is_pending() { now + POLL } else { self.every.next() }
    }
}

async fn check_all_keys(server: Server, peers: Arc<dyn PeerHashes>) -> Result<(), Error> {
    let (before, compacted) = both_hashes(&server).await?;
    let mut hashes = peers.at(before.revision).await;
    leave_out_compacted(&mut hashes, compacted);
    // After this linearizable read, this member has applied everything that each peer had applied
    // when it answered.
    server.linearizable().await?;
    let (after, revision) = hash_now(&server).await?;
    let own = LocalHashes { local: server.local(), before, after, revision };
    if let Some(member) = corrupt_member(&own, &hashes) {
        raise(&server, member);
    }
    let checked = hashes.iter().filter(|peer| peer.answer.is_ok()).count();
    tracing::info!(number_of_peers_checked = checked, "finished peer corruption check");
    Ok(())
}

/// Compares the hashes that compactions left.
#[derive(Debug)]
pub(super) struct Compactions {
    server: Server,
    peers: Arc<dyn PeerHashes>,
    every: Interval,
    /// The last revision on which all members agree.
    checked: i64,
    checking: PendingTask<i64>,
}

impl Compactions {
    /// Returns `None` unless the feature is enabled.
    pub(super) fn new(server: Server, peers: Arc<dyn PeerHashes>) -> Option<Compactions> {
        let every = Interval::after(server.config().compact_hash_check_time, server.now());
        server.config().features.compact_hash_check.then(|| Compactions {
            server,
            peers,
            every,
            checked: 0,
            checking: PendingTask::default(),
        })
    }
}

impl BackgroundTask for Compactions {
    fn turn(&mut self, now: Duration) -> Duration {
        let may_begin = !self.checking.is_pending();
        if may_begin && self.every.is_due(now) && self.server.is_leader() {
            let (server, peers) = (self.server.clone(), Arc::clone(&self.peers));
            self.checking.begin(check_compactions(server, peers, self.checked));
        }
        if let Some(checked) = self.checking.poll() {
            self.checked = checked.max(self.checked);
            self.every.restart(now);
        }
        if self.checking.is_pending() { now + POLL } else { self.every.next() }
    }
}

/// Checks compactions from the newest to the oldest, until one is confirmed by all members or
/// differs. Returns the last revision on which all members agree.
async fn check_compactions(server: Server, peers: Arc<dyn PeerHashes>, checked: i64) -> i64 {
    let local = server.local();
    let timeout = server.config().request_timeout();
    tracing::info!(local_member_id = %local, ?timeout, "starting compact hash check");
    let hashes = server.state().store.compaction_hashes();
    let unchecked = hashes.iter().rev().take_while(|hash| hash.revision > checked);
    let mut count = 0;
    let mut agreed = checked;
    for own in unchecked {
        count += 1;
        let peers = peers.at(own.revision).await;
        if !peers.is_empty() && !should_check_older(&server, own, &peers, &mut agreed) {
            break;
        }
    }
    tracing::info!(number_of_hashes_checked = count, "finished compaction hash check");
    agreed
}

/// Returns whether to check the next older compaction.
fn should_check_older(
    server: &Server,
    own: &KeyValueHash,
    peers: &[PeerHash],
    agreed: &mut i64,
) -> bool {
    let (revision, compact_revision) = (own.revision, own.compact_revision);
    match compare(server.local(), own, peers) {
        Compared::Same => {
            tracing::info!(
                number_of_peers_checked = peers.len(),
                revision,
                compact_revision,
                "successfully checked hash on whole cluster"
            );
            *agreed = revision;
            false
        }
        Compared::Incomplete => {
            tracing::warn!(
                number_of_peers = peers.len(),
                revision,
                compact_revision,
                "skipped revision in compaction hash check; was not able to check all peers"
            );
            true
        }
        Compared::Differ(members) => {
            members.into_iter().for_each(|member| raise(server, member));
            false
        }
    }
}

#[cfg(test)]
mod tests;
