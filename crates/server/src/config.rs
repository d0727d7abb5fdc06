//! The configuration of a member. The binary derives it from its flags, so no setting that has a
//! flag relies on a default of this crate.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use membership::{ClusterId, Membership};
use types::MemberId;

/// The configuration of a member.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The name of the member.
    pub name: String,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The directory of the log, if it is not below `data_dir`.
    pub wal_dir: Option<PathBuf>,
    /// The URLs at which peers reach the member, sorted.
    pub peer_urls: Vec<String>,
    /// The URLs that the member advertises to clients.
    pub client_urls: Vec<String>,
    /// The members of a new cluster: names with sorted peer URLs.
    pub initial_cluster: BTreeMap<String, Vec<String>>,
    /// The existing cluster to join, if any. Ignored by a member that has data, as is
    /// `initial_cluster`.
    pub join: Option<ExistingCluster>,
    /// Whether a member that has data restarts as the only one of its cluster.
    pub force_new_cluster: bool,
    /// A token that makes the ids of a new cluster unique.
    pub cluster_token: String,

    /// The length of a tick, which is also the heartbeat interval.
    pub heartbeat: Duration,
    /// The number of ticks without a leader before an election.
    pub election_ticks: u32,
    /// Whether a candidate requests pre-votes first.
    pub pre_vote: bool,
    /// Whether the first election skips ticks once peers are connected.
    pub initial_election_tick_advance: bool,

    /// The number of entries between snapshots.
    pub snapshot_count: u64,
    /// The number of entries up to a snapshot that stay in memory for slow followers.
    pub snapshot_catchup_entries: u64,
    /// The number of snapshot files to keep; zero keeps all.
    pub max_snapshots: usize,
    /// The number of segments of the log to keep; zero keeps all.
    pub max_wals: usize,
    /// The size of a segment of the log.
    pub segment_bytes: u64,
    /// Whether to acknowledge writes without syncing them. For tests.
    pub unsafe_no_fsync: bool,

    /// The value of `--quota-backend-bytes`.
    pub quota_backend_bytes: i64,
    /// The maximum size of an encoded request.
    pub max_request_bytes: usize,
    /// The maximum size in bytes of entries that a leader has accepted and not applied.
    pub unapplied_bytes_max: u64,
    /// The maximum number of operations in a transaction.
    pub max_txn_ops: usize,
    /// The intervals and bounds of backend commits.
    pub backend: backend::Config,
    /// The number of revisions that a compaction step examines.
    pub compaction_batch_limit: usize,
    /// The pause between compaction steps.
    pub compaction_sleep_interval: Duration,
    /// The interval of progress notifications to a watcher.
    pub watch_progress_notify_interval: Duration,
    /// The free space, in bytes, from which the database is defragmented at a start; zero disables
    /// it.
    pub bootstrap_defrag_threshold_bytes: u64,

    /// The value of `--auth-token`.
    pub auth_token: String,
    /// The time after its last use at which a simple token expires.
    pub auth_token_ttl: Duration,
    /// The bcrypt cost of hashing a password.
    pub bcrypt_cost: u32,
    /// Whether the common name of a client certificate names a user.
    pub client_cert_auth: bool,

    /// Whether conf changes that would lose the quorum are refused.
    pub strict_reconfig_check: bool,
    /// The maximum number of learners.
    pub max_learners: usize,

    /// The mode of automatic compaction.
    pub auto_compaction: AutoCompaction,
    /// The interval of corruption checks over all keys; zero disables them.
    pub corrupt_check_time: Duration,
    /// The interval of corruption checks over compaction hashes.
    pub compact_hash_check_time: Duration,
    /// The interval of checks whether a downgrade is complete; zero disables them.
    pub downgrade_check_time: Duration,
    /// The duration above which applying an entry logs a warning.
    pub warning_apply_duration: Duration,
    /// The enabled features.
    pub features: Features,
}

/// An existing cluster that this member joins.
#[derive(Clone, Debug)]
pub struct ExistingCluster {
    /// The id of the cluster.
    pub cluster_id: ClusterId,
    /// The id of this member in it.
    pub local: MemberId,
    /// All members, as reported by the cluster.
    pub members: Membership,
}

/// The mode of automatic compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// Never.
    Off,
    /// Compacts to the revision that was current this long ago.
    Periodic(Duration),
    /// Compacts to this number of revisions before the current one.
    Revision(i64),
}

/// The feature gates of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    clippy::struct_excessive_bools,
    reason = "the fields mirror etcd's feature gates"
)]
pub struct Features {
    pub compact_hash_check: bool,
    pub fast_lease_keep_alive: bool,
    pub initial_corrupt_check: bool,
    pub lease_checkpoint: bool,
    pub lease_checkpoint_persist: bool,
    pub priority_request: bool,
    /// Only in Bowline: a leader whose disk hangs transfers leadership.
    pub stalled_leader_transfer: bool,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            compact_hash_check: false,
            fast_lease_keep_alive: true,
            initial_corrupt_check: false,
            lease_checkpoint: false,
            lease_checkpoint_persist: false,
            priority_request: false,
            stalled_leader_transfer: true,
        }
    }
}

/// The default of `unapplied_bytes_max`. Bounds the memory of a leader while its disk or its quorum
/// does not respond: requests time out, but their entries stay in the log.
const UNAPPLIED_BYTES_MAX: u64 = 1 << 30;

/// The default of `--max-txn-ops`.
const TXN_OPS_MAX_DEFAULT: usize = 128;
/// The time limit of a request, in addition to the time of two elections.
const REQUEST_TIME: Duration = Duration::from_secs(5);

impl ServerConfig {
    /// Returns etcd's defaults, for a cluster of one member.
    pub fn new(name: &str, data_dir: impl Into<PathBuf>) -> ServerConfig {
        let peer_url = "http://localhost:2380".to_owned();
        ServerConfig {
            name: name.to_owned(),
            data_dir: data_dir.into(),
            wal_dir: None,
            peer_urls: vec![peer_url.clone()],
            client_urls: vec!["http://localhost:2379".to_owned()],
            initial_cluster: BTreeMap::from([(name.to_owned(), vec![peer_url])]),
            join: None,
            force_new_cluster: false,
            cluster_token: "etcd-cluster".to_owned(),
            heartbeat: Duration::from_millis(100),
            election_ticks: 10,
            pre_vote: true,
            initial_election_tick_advance: true,
            snapshot_count: 10_000,
            snapshot_catchup_entries: 5_000,
            max_snapshots: 5,
            max_wals: 5,
            segment_bytes: wal::SEGMENT_BYTES,
            unsafe_no_fsync: false,
            quota_backend_bytes: 0,
            max_request_bytes: 3 << 19,
            unapplied_bytes_max: UNAPPLIED_BYTES_MAX,
            max_txn_ops: TXN_OPS_MAX_DEFAULT,
            backend: backend::Config::default(),
            compaction_batch_limit: mvcc::COMPACTION_BATCH_LIMIT_DEFAULT,
            compaction_sleep_interval: Duration::from_millis(10),
            watch_progress_notify_interval: Duration::from_secs(10 * 60),
            bootstrap_defrag_threshold_bytes: 0,
            auth_token: "simple".to_owned(),
            auth_token_ttl: auth::SIMPLE_TOKEN_TTL_DEFAULT,
            bcrypt_cost: auth::COST_DEFAULT,
            client_cert_auth: false,
            strict_reconfig_check: true,
            max_learners: membership::LEARNERS_MAX_DEFAULT,
            auto_compaction: AutoCompaction::Off,
            corrupt_check_time: Duration::ZERO,
            compact_hash_check_time: Duration::from_secs(60),
            downgrade_check_time: Duration::from_secs(5),
            warning_apply_duration: Duration::from_millis(100),
            features: Features::default(),
        }
    }

    /// The shortest time without a leader after which an election starts.
    pub fn election_timeout(&self) -> Duration {
        self.heartbeat * self.election_ticks
    }

    /// The time after which a request times out.
    pub fn request_timeout(&self) -> Duration {
        REQUEST_TIME + 2 * self.election_timeout()
    }

    /// Returns the directory of the log.
    pub fn wal_path(&self) -> PathBuf {
        self.wal_dir.clone().unwrap_or_else(|| self.data_dir.join("member").join("wal"))
    }

    /// Returns the directory of snapshots and the database.
    pub fn snap_path(&self) -> PathBuf {
        self.data_dir.join("member").join("snap")
    }
}
