//! A member writes itself to a list, and waits until it is full.
//!
//! ```text
//!   size?  ──► members?  ──► full: the end   ──► write oneself ──► members? ──► watch until there are enough ──► their URLs
//!     └ none, or none that is a number: the end
//! ```
//!
//! Whoever cannot be reached is asked again, for ever: after 2, 4, 8 .. 256 seconds, and every 256 from then on. Waiting for the others has no end
//! either; a signal ends the process.

use std::time::Duration;

use tonic::Status;

use crate::client::Client;
use crate::error::JoinError;
use crate::keys::{Keys, end_of};
use crate::roster::{Entry, Roster};
use crate::settings::Settings;

/// The pause grows until there were as many.
const RETRIES_GROWING: u32 = 8;
/// The pause before a watch is begun again.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// What a list is kept in.
pub(crate) trait Registry {
    /// What is stored under a key.
    async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Status>;
    /// What is stored under all keys from `key` to `end`, and the revision at which it is.
    async fn list(&mut self, key: &str, end: Vec<u8>) -> Result<(Vec<Entry>, i64), Status>;
    /// Stores something.
    async fn put(&mut self, key: &str, value: &str) -> Result<(), Status>;
    /// Begins to hand out what is stored from a revision on.
    async fn watch(&mut self, key: &str, end: Vec<u8>, revision: i64) -> Result<(), Status>;
    /// What was stored since; an error if no more can be learnt from this watch.
    async fn next(&mut self) -> Result<Vec<Entry>, Status>;
}

/// Joins the cluster of a token: writes to its list that the member `id` is `info`, which is `name=url`s, and returns what all have written, as the text of an
/// `--initial-cluster`. `is_sound` says whether that is one; `metrics` count changes of TLS files.
///
/// # Errors
/// Why it cannot. That nobody answers is none: then it is asked again.
pub async fn join(
    settings: &Settings,
    metrics: &tls::Metrics,
    id: u64,
    info: &str,
    is_sound: impl Fn(&str) -> bool,
) -> Result<String, JoinError> {
    let joined = match Client::new(settings, metrics).await {
        Ok(client) => Joining::new(client, &settings.token, id).run(info, is_sound).await,
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

/// The same, for whoever has no runtime: the thread of the caller waits.
///
/// # Errors
/// Why it cannot.
pub fn join_blocking(
    settings: &Settings,
    metrics: &tls::Metrics,
    id: u64,
    info: &str,
    is_sound: impl Fn(&str) -> bool,
) -> Result<String, JoinError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(JoinError::Runtime)?.block_on(join(settings, metrics, id, info, is_sound))
}

/// A member that joins.
struct Joining<R> {
    registry: R,
    keys: Keys,
    own: String,
    /// Since somebody answered last.
    retries: u32,
}

/// Who is there, of how many, at which revision.
struct Found {
    roster: Roster,
    size: usize,
    revision: i64,
}

impl<R: Registry> Joining<R> {
    fn new(registry: R, token: &str, id: u64) -> Joining<R> {
        let keys = Keys::of(token);
        let own = keys.member(id);
        Joining { registry, keys, own, retries: 0 }
    }

    async fn run(
        mut self,
        info: &str,
        is_sound: impl Fn(&str) -> bool,
    ) -> Result<String, JoinError> {
        self.look().await?;
        self.register(info).await;
        let mut found = self.look().await?;
        while found.roster.len() < found.size {
            self.wait(&mut found).await;
        }
        let cluster = found.roster.initial_cluster(found.size);
        if is_sound(&cluster) { Ok(cluster) } else { Err(JoinError::InvalidUrl) }
    }

    /// Who is there, whenever somebody answers.
    async fn look(&mut self) -> Result<Found, JoinError> {
        loop {
            match self.try_look().await {
                Ok(found) => {
                    self.retries = 0;
                    let found = found?;
                    return match found.roster.is_full_without(&self.own, found.size) {
                        true => Err(JoinError::Full),
                        false => Ok(found),
                    };
                }
                Err(Unanswered) => self.pause("cluster status check").await,
            }
        }
    }

    async fn try_look(&mut self) -> Result<Result<Found, JoinError>, Unanswered> {
        let key = self.keys.size();
        let size = self.registry.get(&key).await.map_err(|error| {
            let error = told(&error);
            tracing::warn!(
                clusterSizeKey = key,
                error,
                "failed to get cluster size from discovery service"
            );
            Unanswered
        })?;
        let size = match parse_size(size) {
            Ok(size) => size,
            Err(error) => return Ok(Err(error)),
        };
        let (roster, revision) = self.list().await?;
        Ok(Ok(Found { roster, size, revision }))
    }

    async fn list(&mut self) -> Result<(Roster, i64), Unanswered> {
        let prefix = self.keys.members();
        let listed = self.registry.list(&prefix, end_of(&prefix)).await;
        let (entries, revision) = listed.map_err(|error| {
            let error = told(&error);
            tracing::warn!(
                membersKeyPrefix = prefix,
                error,
                "failed to get cluster members from discovery service"
            );
            Unanswered
        })?;
        let mut roster = Roster::new(self.keys.clone());
        entries.into_iter().for_each(|entry| roster.add(entry));
        Ok((roster, revision))
    }

    /// Writes this member to the list, whenever somebody answers.
    async fn register(&mut self, info: &str) {
        while let Err(error) = self.registry.put(&self.own, info).await {
            let error = told(&error);
            tracing::warn!(
                memberKey = self.own,
                error,
                "failed to register members itself to the discovery service"
            );
            self.pause("register member itself").await;
        }
        self.retries = 0;
        tracing::info!(
            memberKey = self.own,
            memberInfo = info,
            "register member itself successfully"
        );
    }

    /// Waits until there are enough, or until nothing more can be learnt; then the list is read anew.
    async fn wait(&mut self, found: &mut Found) {
        tracing::info!(
            clusterSize = found.size,
            found_peers = found.roster.len(),
            "waiting for peers from discovery service"
        );
        if let Err(error) = self.try_wait(found).await {
            tracing::warn!(error = told(&error), "lost the watch on the discovery service");
            tokio::time::sleep(WATCH_PAUSE).await;
            if let Ok((roster, revision)) = self.list().await {
                (found.roster, found.revision) = (roster, revision);
            }
            return;
        }
        tracing::info!(
            clusterSize = found.size,
            found_peers = found.roster.len(),
            "found all needed peers from discovery service"
        );
    }

    async fn try_wait(&mut self, found: &mut Found) -> Result<(), Status> {
        let prefix = self.keys.members();
        self.registry.watch(&prefix, end_of(&prefix), found.revision + 1).await?;
        while found.roster.len() < found.size {
            let entries = self.registry.next().await?;
            entries.into_iter().for_each(|entry| found.roster.add(entry));
        }
        Ok(())
    }

    async fn pause(&mut self, reason: &str) {
        self.retries = self.retries.saturating_add(1);
        let backoff = Duration::from_secs(1 << self.retries.min(RETRIES_GROWING));
        tracing::warn!(reason, ?backoff, "retry connecting to discovery service");
        tokio::time::sleep(backoff).await;
    }
}

/// Nobody answered, which was told.
struct Unanswered;

fn told(status: &Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}

fn parse_size(value: Option<Vec<u8>>) -> Result<usize, JoinError> {
    let value = value.ok_or(JoinError::SizeNotFound)?;
    let text = str::from_utf8(&value).map_err(|_| JoinError::BadSize)?;
    let size = text.parse::<i64>().ok().and_then(|size| usize::try_from(size).ok());
    size.filter(|size| *size > 0).ok_or(JoinError::BadSize)
}

#[cfg(test)]
mod tests;
