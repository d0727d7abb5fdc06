//! Maintenance: alarms go through the log; everything else concerns the local member only.

use std::time::Duration;

use crate::quota;
use backend::schema::{ignored_by_hash, version};
use backend::{Backend, DefragmentError};
use mvcc::KeyValueHash;
use proto::etcdserverpb as pb;

use super::Credentials;
use crate::error::Error;
use crate::metrics::seconds;
use crate::server::Server;
use crate::units::signed;

/// The version that this server reports.
pub const SERVER_VERSION: &str = types::ETCD_VERSION;

/// The pause before a defragmentation is retried on a database that has replaced another.
const REPLACED_RETRY: Duration = Duration::from_millis(50);

impl Server {
    /// Raises, clears or lists alarms.
    pub async fn alarm(
        &self,
        credentials: &Credentials,
        r: pb::AlarmRequest,
    ) -> Result<pb::AlarmResponse, Error> {
        let caller = self.auth_info(credentials).await?;
        self.state().auth.check_alarm(caller.as_ref(), &r)?;
        let response = self.reply_for(credentials, r).await?;
        Ok(pb::AlarmResponse { header: Some(self.header_now()), ..response })
    }

    /// Returns the status of this member.
    pub async fn status(&self, credentials: &Credentials) -> Result<pb::StatusResponse, Error> {
        self.check_any_user(credentials).await?;
        let state = self.state();
        let cluster = state.cluster.now();
        let downgrade = cluster.downgrade();
        Ok(pb::StatusResponse {
            header: Some(self.header_now()),
            version: SERVER_VERSION.to_owned(),
            db_size: signed(state.backend.size()),
            leader: self.leader().map_or(0, |leader| leader.0),
            raft_index: self.committed().0,
            raft_term: self.term().0,
            raft_applied_index: self.applied().0,
            errors: self.errors(),
            db_size_in_use: signed(state.backend.size_in_use()),
            is_learner: self.is_learner(),
            storage_version: self.storage_version(),
            db_size_quota: reported_quota(self.config().quota_backend_bytes),
            downgrade_info: Some(pb::DowngradeInfo {
                enabled: downgrade.enabled,
                target_version: downgrade.target_version.clone(),
            }),
        })
    }

    /// Returns the errors of the status: a missing leader, and alarms.
    fn errors(&self) -> Vec<String> {
        let leaderless = self.leader().is_none().then(|| Error::NoLeader.to_string());
        let alarms = self.state().alarms.get(pb::AlarmType::None.into());
        leaderless.into_iter().chain(alarms.iter().map(alarm_text)).collect()
    }

    /// Returns the storage version, `3.7.0`; empty if it is unknown.
    fn storage_version(&self) -> String {
        let detected = version::detect(&self.state().backend.view());
        detected.map(|version| version.to_string()).unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to detect schema version");
            String::new()
        })
    }

    /// Returns the hash of all keys up to a revision; zero stands for the current one.
    pub async fn hash_kv(
        &self,
        credentials: &Credentials,
        revision: i64,
    ) -> Result<pb::HashKvResponse, Error> {
        self.check_admin(credentials).await?;
        let (hash, current) = self.hash_of_keys(revision).await?;
        Ok(pb::HashKvResponse {
            header: Some(self.header(current)),
            hash: hash.hash,
            compact_revision: hash.compact_revision,
            hash_revision: hash.revision,
        })
    }

    /// Returns the hash and the revision of the store. Runs on a pool, because it reads all keys.
    pub(crate) async fn hash_of_keys(&self, revision: i64) -> Result<(KeyValueHash, i64), Error> {
        let (state, server) = (self.state(), self.clone());
        let hashed = self.run_blocking(&self.inner.pools.long, move || {
            let began = server.now();
            // Refused requests are not measured.
            state.store.hash_kv(revision).inspect(|_| {
                server.metrics().hash_rev_duration.observe(seconds(began, server.now()));
            })
        });
        Ok(hashed.await??)
    }

    /// Returns the hash of the whole database.
    pub async fn hash(&self, credentials: &Credentials) -> Result<pb::HashResponse, Error> {
        self.check_admin(credentials).await?;
        let (state, server) = (self.state(), self.clone());
        let hashed = self.run_blocking(&self.inner.pools.long, move || {
            let began = server.now();
            let hash = state.backend.hash(&ignored_by_hash);
            server.metrics().hash_duration.observe(seconds(began, server.now()));
            // Compat: as in etcd, the revision after the hash. The hash may lack the last writes.
            hash.map(|hash| (hash, state.store.current()))
        });
        let hashed = hashed.await?;
        let (hash, revision) = hashed.map_err(|error| Error::Fault(error.to_string()))?;
        Ok(pb::HashResponse { header: Some(self.header(revision)), hash })
    }

    /// Rewrites the database without its free pages, while requests are served.
    pub async fn defragment(&self, credentials: &Credentials) -> Result<(), Error> {
        self.check_admin(credentials).await?;
        tracing::info!("starting defragment");
        while let Err(error) = self.defragment_now().await? {
            if !error.is_replaced() {
                tracing::warn!(%error, "failed to defragment");
                return Err(Error::Fault(error.to_string()));
            }
            // Compat: as in etcd, the request waits for the database that a leader sent.
            self.sleep(REPLACED_RETRY).await?;
        }
        tracing::info!("finished defragment");
        Ok(())
    }

    async fn defragment_now(&self) -> Result<Result<(), DefragmentError>, Error> {
        let (state, server) = (self.state(), self.clone());
        let defragment = move || server.measured_defragment(&state.backend);
        self.run_blocking(&self.inner.pools.long, defragment).await
    }

    fn measured_defragment(&self, backend: &Backend) -> Result<(), DefragmentError> {
        let (metrics, began) = (self.metrics(), self.now());
        metrics.defrag_inflight.set(1);
        let defragmented = backend.defragment();
        metrics.defrag_inflight.set(0);
        defragmented?;
        metrics.backend_defrag_duration.observe(seconds(began, self.now()));
        Ok(())
    }
}

/// Returns the configured quota, or the default for zero.
fn reported_quota(configured: i64) -> i64 {
    if configured == 0 { signed(quota::BYTES_DEFAULT) } else { configured }
}

/// Formats an alarm in protobuf's text form: `memberID:5 alarm:NOSPACE`, without zero fields. etcd
/// writes one or two spaces in between, at random.
fn alarm_text(alarm: &pb::AlarmMember) -> String {
    let member = (alarm.member_id != 0).then(|| format!("memberID:{}", alarm.member_id));
    let kind = match pb::AlarmType::try_from(alarm.alarm) {
        Ok(pb::AlarmType::None) => None,
        Ok(known) => Some(format!("alarm:{}", known.as_str_name())),
        Err(_) => Some(format!("alarm:{}", alarm.alarm)),
    };
    member.into_iter().chain(kind).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_formatted_as_in_etcd() {
        let text = |member_id, alarm| alarm_text(&pb::AlarmMember { member_id, alarm });
        assert_eq!(text(5, 1), "memberID:5 alarm:NOSPACE");
        assert_eq!(text(0, 2), "alarm:CORRUPT");
        assert_eq!(text(6, 7), "memberID:6 alarm:7");
        assert_eq!(text(0, 0), "");
    }

    #[test]
    fn a_zero_quota_is_reported_as_the_default() {
        assert_eq!([0, -1, 5].map(reported_quota), [2_147_483_648, -1, 5]);
    }
}
