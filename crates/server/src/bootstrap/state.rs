//! Opens the database of a member, and the state machine in it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::quota::Quota;
use auth::{AuthStore, Cost, Tokens};
use backend::schema::{meta, version};
use backend::{Backend, OpenError};
use env::Kind;
use membership::Cluster;
use proto::walpb::Snapshot;
use types::Index;
use wal::snap::{SnapError, Snapshotter};

use super::{StartError, close};
use crate::config::ServerConfig;
use crate::member::Platform;
use crate::state::{Config, StateMachine};
use sync::Notify;

/// The time to wait for a database that another process holds before logging a warning.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The size that a message may have in addition to the largest request.
const MESSAGE_OVERHEAD_BYTES: usize = 512 << 10;

/// Opens or creates the database. If the log was truncated before a snapshot, the database must
/// contain that snapshot: see [`check_database`].
pub(super) fn open_backend(
    config: &ServerConfig,
    platform: &Platform,
    start: Option<&Snapshot>,
) -> Result<Backend, StartError> {
    let path = config.snap_path().join("db");
    let existed = exists(platform, &path);
    let mut backend = open_file(config, platform, &path)?;
    if let Some(start) = start {
        backend = recover(config, platform, backend, Index(start.index()))?;
    }
    if existed {
        let (size, in_use) = (backend.size(), backend.size_in_use());
        tracing::info!(
            backend_size_bytes = size,
            backend_size_in_use_bytes = in_use,
            "recovered v3 backend"
        );
        version::validate(&backend.view())?;
    }
    maybe_defragment(config, &backend)?;
    Ok(backend)
}

/// Checks that the database contains the snapshot that the log starts from, or that a leader has
/// sent one that does. Changes nothing, so that the next start fails alike.
pub(super) fn check_database(
    config: &ServerConfig,
    platform: &Platform,
    start: Index,
    applied: PeekedIndex,
) -> Result<(), StartError> {
    let applied = match applied {
        PeekedIndex::Applied(applied) => applied,
        PeekedIndex::NoDatabase => Index::ZERO,
        // Opening it reports the error.
        PeekedIndex::Unreadable => return Ok(()),
    };
    if applied >= start {
        return Ok(());
    }
    let files = Snapshotter::new(Arc::clone(&platform.disk), config.snap_path());
    match files.find_db(start.0) {
        Err(SnapError::NoDatabase { file }) => Err(missing_database(config, &file, applied, start)),
        found => Ok(found.map(drop)?),
    }
}

/// The applied index of a database that is not open yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeekedIndex {
    Applied(Index),
    NoDatabase,
    Unreadable,
}

impl PeekedIndex {
    /// Returns the index, or zero if there is none.
    pub(super) fn or_zero(self) -> Index {
        match self {
            PeekedIndex::Applied(applied) => applied,
            PeekedIndex::NoDatabase | PeekedIndex::Unreadable => Index::ZERO,
        }
    }
}

/// Returns the applied index of the database without changing it.
pub(super) fn peek_applied(config: &ServerConfig, platform: &Platform) -> PeekedIndex {
    let path = config.snap_path().join("db");
    if !exists(platform, &path) {
        return PeekedIndex::NoDatabase;
    }
    let mut read_only = config.backend.clone();
    read_only.bolt.read_only = true;
    read_only.bolt.lock_timeout = Some(Duration::ZERO);
    read_only.bolt.mlock = false;
    let (disk, clock) = (Arc::clone(&platform.disk), Arc::clone(&platform.clock));
    let opened = Backend::open(disk, clock, &path, read_only).ok();
    let applied = opened.and_then(|backend| meta::applied(&backend.view()).ok());
    applied.map_or(PeekedIndex::Unreadable, |(index, _)| PeekedIndex::Applied(index))
}

fn exists(platform: &Platform, path: &Path) -> bool {
    platform.disk.kind(path).ok().flatten() == Some(Kind::File)
}

/// Waits until no other process holds the database. A process that holds it also holds the log.
pub(super) fn wait_for_database(
    config: &ServerConfig,
    platform: &Platform,
) -> Result<(), StartError> {
    close(open_file(config, platform, &config.snap_path().join("db"))?)
}

fn open_file(
    config: &ServerConfig,
    platform: &Platform,
    path: &Path,
) -> Result<Backend, StartError> {
    let open = |lock_timeout| {
        let (disk, clock) = (Arc::clone(&platform.disk), Arc::clone(&platform.clock));
        let mut config = config.backend.clone();
        config.bolt.lock_timeout = lock_timeout;
        Backend::open(disk, clock, path, config)
    };
    match open(Some(LOCK_TIMEOUT)) {
        Err(OpenError::Open(backend::FileError::Locked { .. })) => {
            tracing::warn!(
                path = %path.display(),
                "db file is flocked by another process; waiting for it to end"
            );
            Ok(open(None)?)
        }
        opened => Ok(opened?),
    }
}

/// Replaces the database with one that a leader sent, if the snapshot record is newer than the
/// database.
fn recover(
    config: &ServerConfig,
    platform: &Platform,
    backend: Backend,
    start: Index,
) -> Result<Backend, StartError> {
    let applied =
        meta::applied(&backend.view()).map_err(|error| StartError::State(error.into()))?;
    if applied.0 >= start {
        tracing::info!(
            consistent_index = applied.0.0,
            snapshot_index = start.0,
            "Skipping snapshot backend"
        );
        return Ok(backend);
    }
    tracing::info!(
        consistent_index = applied.0.0,
        snapshot_index = start.0,
        "Recovering from snapshot backend"
    );
    let path = config.snap_path().join("db");
    let files = Snapshotter::new(Arc::clone(&platform.disk), config.snap_path());
    match files.find_db(start.0) {
        Ok(sent) => {
            close(backend)?;
            let renamed = platform
                .disk
                .rename(&sent, &path)
                .and_then(|()| platform.disk.sync_dir(&config.snap_path()));
            renamed.map_err(|source| StartError::DataDir { dir: path.clone(), source })?;
            tracing::info!(path = %path.display(), "recovered the database that a leader sent");
            open_file(config, platform, &path)
        }
        Err(SnapError::NoDatabase { file }) => {
            Err(missing_database(config, &file, applied.0, start))
        }
        Err(other) => Err(other.into()),
    }
}

/// Logs which files do not fit together, for the operator, and returns etcd's error.
fn missing_database(
    config: &ServerConfig,
    file: &Path,
    applied: Index,
    snapshot: Index,
) -> StartError {
    tracing::warn!(
        snapshot_index = snapshot.0,
        snapshot_file_path = %file.display(),
        database_file_path = %config.snap_path().join("db").display(),
        consistent_index = applied.0,
        error = "snap: snapshot file doesn't exist",
        "failed to find [SNAPSHOT-INDEX].snap.db"
    );
    StartError::SnapshotDatabaseMissing
}

/// Defragments the database if that frees as much as the configuration asks for.
///
/// Compat: as in etcd, a new database is measured and logged, too.
fn maybe_defragment(config: &ServerConfig, backend: &Backend) -> Result<(), StartError> {
    let threshold = config.bootstrap_defrag_threshold_bytes;
    let (size, in_use) = (backend.size(), backend.size_in_use());
    if threshold == 0 {
        return Ok(());
    }
    if size.saturating_sub(in_use) < threshold {
        tracing::info!(
            current_db_size_bytes = size,
            current_db_size_in_use_bytes = in_use,
            bootstrap_defrag_threshold_bytes = threshold,
            "Skipping defragmentation"
        );
        return Ok(());
    }
    backend.defragment()?;
    Ok(())
}

/// Opens the state machine on the database.
pub(super) fn open(
    config: &ServerConfig,
    platform: &Platform,
    backend: Backend,
    cluster: Cluster,
    watch: &Arc<Notify>,
) -> Result<StateMachine, StartError> {
    let disk = &platform.disk;
    let key_bytes_max = u64::try_from(auth::KEY_FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let tokens = Tokens::parse(&config.auth_token, config.auth_token_ttl, |path| {
        disk.read(path.as_ref(), key_bytes_max)
    })?;
    let clock = Arc::clone(&platform.clock);
    let auth = AuthStore::new(tokens, Arc::clone(&clock), Cost::new(config.bcrypt_cost));
    let notify = Arc::clone(watch);
    let config = Config {
        store: mvcc::Config { compaction_batch_limit: config.compaction_batch_limit },
        lease: lease_config(config),
        watch: mvcc::watch::Config {
            fragment_bytes: config.max_request_bytes + MESSAGE_OVERHEAD_BYTES,
            progress_interval: config.watch_progress_notify_interval,
            ..mvcc::watch::Config::default()
        },
        wake_watch: Arc::new(move || notify.notify()),
        quota: Quota::new(config.quota_backend_bytes),
    };
    Ok(StateMachine::open(backend, clock, auth, cluster, config)?)
}

fn lease_config(config: &ServerConfig) -> lease::Config {
    lease::Config {
        ttl_min_seconds: lease::ttl_min_seconds(config.election_ticks, config.heartbeat),
        expired_retry: config.request_timeout(),
        checkpoint: config.features.lease_checkpoint,
        checkpoint_persist: config.features.lease_checkpoint_persist,
        ..lease::Config::default()
    }
}
