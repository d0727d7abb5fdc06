//! Registers a member with a discovery service, and waits for the others.
//!
//! ```text
//!   get size ──► list members ──► register ──► list members ──► watch until complete ──► URLs
//!      └ missing or invalid: error   └ full: error
//! ```
//!
//! An unreachable service is retried forever, after 2, 4, 8 .. 256 seconds and then every 256. The
//! wait for other members is not bounded either; a signal ends the process.

use std::time::Duration;

use tonic::Status;

use crate::client::Client;
use crate::error::JoinError;
use crate::member_list::{MemberList, RegistryEntry, parse_size};
use crate::registry_keys::{RegistryKeys, prefix_end};
use crate::settings::Settings;

/// The number of retries after which the delay no longer doubles.
const BACKOFF_DOUBLINGS_MAX: u32 = 8;
/// The delay before a lost watch is started again.
const WATCH_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The key-value store of a discovery service.
pub(crate) trait Registry {
    /// Returns the value of a key.
    async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Status>;
    /// Returns the entries from `key` to `end`, and the current revision.
    async fn list(&mut self, key: &str, end: Vec<u8>) -> Result<(Vec<RegistryEntry>, i64), Status>;
    /// Stores a value.
    async fn put(&mut self, key: &str, value: &str) -> Result<(), Status>;
    /// Starts a watch from a revision.
    async fn watch(&mut self, key: &str, end: Vec<u8>, revision: i64) -> Result<(), Status>;
    /// Returns the next entries of the watch. After an error it has ended.
    async fn next(&mut self) -> Result<Vec<RegistryEntry>, Status>;
}

/// Registers the member `id` with `info` (`name=url`, comma-separated), waits until the cluster is
/// complete, and returns all members as the text of an `--initial-cluster`. `is_valid` checks that
/// text; `metrics` count reloads of TLS files.
///
/// # Errors
/// The reason for a failure. An unreachable service is not one: it is retried.
pub async fn join(
    settings: &Settings,
    metrics: &tls::Metrics,
    id: u64,
    info: &str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<String, JoinError> {
    let joined = match Client::new(settings, metrics).await {
        Ok(client) => Registration::new(client, &settings.token, id).run(info, is_valid).await,
        Err(error) => Err(error),
    };
    match &joined {
        Ok(cluster) => tracing::info!(
            discovery_token = settings.token,
            cluster,
            "discovery joined cluster successfully"
        ),
        Err(error) => tracing::error!(
            discovery_token = settings.token,
            %error,
            "discovery failed to join cluster"
        ),
    }
    joined
}

/// Like [`join`], but blocks the calling thread and needs no runtime.
///
/// # Errors
/// The reason for a failure.
pub fn join_blocking(
    settings: &Settings,
    metrics: &tls::Metrics,
    id: u64,
    info: &str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<String, JoinError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(JoinError::Runtime)?.block_on(join(settings, metrics, id, info, is_valid))
}

/// A registration in progress.
struct Registration<R> {
    registry: R,
    keys: RegistryKeys,
    own_key: String,
    /// Retries since the last answer.
    retries: u32,
}

/// The members, the cluster size and the revision of both.
struct RegistryState {
    members: MemberList,
    size: usize,
    revision: i64,
}

impl<R: Registry> Registration<R> {
    fn new(registry: R, token: &str, id: u64) -> Registration<R> {
        let keys = RegistryKeys::of(token);
        let own_key = keys.member(id);
        Registration { registry, keys, own_key, retries: 0 }
    }

    async fn run(
        mut self,
        info: &str,
        is_valid: impl Fn(&str) -> bool,
    ) -> Result<String, JoinError> {
        self.read_state().await?;
        self.register(info).await;
        let mut state = self.read_state().await?;
        while state.members.len() < state.size {
            self.wait_for_members(&mut state).await;
        }
        let cluster = state.members.initial_cluster(state.size);
        if is_valid(&cluster) { Ok(cluster) } else { Err(JoinError::InvalidUrl) }
    }

    /// Reads the size and the members, and retries until the service answers.
    async fn read_state(&mut self) -> Result<RegistryState, JoinError> {
        loop {
            match self.try_read_state().await {
                Ok(state) => {
                    self.retries = 0;
                    let state = state?;
                    return match state.members.is_full_without(&self.own_key, state.size) {
                        true => Err(JoinError::Full),
                        false => Ok(state),
                    };
                }
                Err(NoAnswer) => self.back_off("cluster status check").await,
            }
        }
    }

    async fn try_read_state(&mut self) -> Result<Result<RegistryState, JoinError>, NoAnswer> {
        let key = self.keys.size();
        let size = self.registry.get(&key).await.map_err(|error| {
            let error = rpc_error_text(&error);
            tracing::warn!(
                clusterSizeKey = key,
                error,
                "failed to get cluster size from discovery service"
            );
            NoAnswer
        })?;
        let Some(size) = size else { return Ok(Err(JoinError::SizeNotFound)) };
        let Some(size) = parse_size(&size) else { return Ok(Err(JoinError::BadSize)) };
        let (members, revision) = self.list().await?;
        Ok(Ok(RegistryState { members, size, revision }))
    }

    async fn list(&mut self) -> Result<(MemberList, i64), NoAnswer> {
        let prefix = self.keys.members();
        let listed = self.registry.list(&prefix, prefix_end(&prefix)).await;
        let (entries, revision) = listed.map_err(|error| {
            let error = rpc_error_text(&error);
            tracing::warn!(
                membersKeyPrefix = prefix,
                error,
                "failed to get cluster members from discovery service"
            );
            NoAnswer
        })?;
        let mut members = MemberList::new(self.keys.clone());
        entries.into_iter().for_each(|entry| members.add(entry));
        Ok((members, revision))
    }

    /// Registers this member, and retries until the service answers.
    async fn register(&mut self, info: &str) {
        while let Err(error) = self.registry.put(&self.own_key, info).await {
            let error = rpc_error_text(&error);
            tracing::warn!(
                memberKey = self.own_key,
                error,
                "failed to register members itself to the discovery service"
            );
            self.back_off("register member itself").await;
        }
        self.retries = 0;
        tracing::info!(
            memberKey = self.own_key,
            memberInfo = info,
            "register member itself successfully"
        );
    }

    /// Waits until the cluster is complete or the watch is lost. After a loss, reads the members
    /// again.
    async fn wait_for_members(&mut self, state: &mut RegistryState) {
        tracing::info!(
            clusterSize = state.size,
            found_peers = state.members.len(),
            "waiting for peers from discovery service"
        );
        if let Err(error) = self.try_wait_for_members(state).await {
            tracing::warn!(
                error = rpc_error_text(&error),
                "lost the watch on the discovery service"
            );
            tokio::time::sleep(WATCH_RETRY_DELAY).await;
            if let Ok((members, revision)) = self.list().await {
                (state.members, state.revision) = (members, revision);
            }
            return;
        }
        tracing::info!(
            clusterSize = state.size,
            found_peers = state.members.len(),
            "found all needed peers from discovery service"
        );
    }

    async fn try_wait_for_members(&mut self, state: &mut RegistryState) -> Result<(), Status> {
        let prefix = self.keys.members();
        // The revision comes from the service.
        let next = state.revision.saturating_add(1);
        self.registry.watch(&prefix, prefix_end(&prefix), next).await?;
        while state.members.len() < state.size {
            let entries = self.registry.next().await?;
            entries.into_iter().for_each(|entry| state.members.add(entry));
        }
        Ok(())
    }

    async fn back_off(&mut self, reason: &str) {
        self.retries = self.retries.saturating_add(1);
        let backoff = Duration::from_secs(1 << self.retries.min(BACKOFF_DOUBLINGS_MAX));
        tracing::warn!(reason, ?backoff, "retry connecting to discovery service");
        tokio::time::sleep(backoff).await;
    }
}

/// The service did not answer, which was logged.
struct NoAnswer;

fn rpc_error_text(status: &Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}

#[cfg(test)]
mod tests;
