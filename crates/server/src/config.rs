//! How a member behaves. The binary makes this of its flags; nothing here is left to a default that a flag could change.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use membership::{ClusterId, Membership};
use types::MemberId;

/// How a member behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its name.
    pub name: String,
    /// The folder that has its files.
    pub data_dir: PathBuf,
    /// The folder of its log, if not below `data_dir`.
    pub wal_dir: Option<PathBuf>,
    /// Where other members reach it, sorted.
    pub peer_urls: Vec<String>,
    /// Where clients reach it, as it tells others.
    pub client_urls: Vec<String>,
    /// The members of a new cluster: their names, and where they are reached, sorted.
    pub initial_cluster: BTreeMap<String, Vec<String>>,
    /// The cluster that it joins, if that is there already. Neither matters to a member that has data.
    pub join: Option<ExistingCluster>,
    /// Whether a member that has data goes on alone.
    pub force_new_cluster: bool,
    /// What makes the ids of a new cluster its own.
    pub cluster_token: String,

    /// The length of a tick, which is also the time between heartbeats.
    pub heartbeat: Duration,
    /// Ticks without a leader before an election.
    pub election_ticks: u32,
    /// Whether candidates ask first.
    pub pre_vote: bool,
    /// Whether the first election need not wait for the whole timeout.
    pub initial_election_tick_advance: bool,

    /// Entries between snapshots.
    pub snapshot_count: u64,
    /// Entries kept behind a snapshot, for members that are behind.
    pub snapshot_catchup_entries: u64,
    /// Snapshot files kept; zero keeps all.
    pub max_snapshots: usize,
    /// Segments of the log kept; zero keeps all.
    pub max_wals: usize,
    /// How long a segment of the log is.
    pub segment_bytes: u64,
    /// Whether the disk need not have what was acknowledged. For tests.
    pub unsafe_no_fsync: bool,

    /// `--quota-backend-bytes` as given.
    pub quota_backend_bytes: i64,
    /// The longest encoded request.
    pub max_request_bytes: usize,
    /// What a leader may take that is not applied yet, of all members together, in bytes.
    pub unapplied_bytes_max: u64,
    /// The most operations of a transaction.
    pub max_txn_ops: usize,
    /// How the database is committed.
    pub backend: backend::Config,
    /// Revisions that a step of a compaction looks at.
    pub compaction_batch_limit: usize,
    /// Time between such steps.
    pub compaction_sleep_interval: Duration,
    /// Time between progress notifications to a watcher.
    pub watch_progress_notify_interval: Duration,
    /// What can be freed before the database is defragmented at a start, in bytes; zero never does.
    pub bootstrap_defrag_threshold_bytes: u64,

    /// `--auth-token` as given.
    pub auth_token: String,
    /// How long a simple token is good for after its last use.
    pub auth_token_ttl: Duration,
    /// The cost of hashing a password.
    pub bcrypt_cost: u32,
    /// Whether the common name of a client's certificate names a user.
    pub client_cert_auth: bool,

    /// Whether changes of members that would cost the quorum are refused.
    pub strict_reconfig_check: bool,
    /// The most learners.
    pub max_learners: usize,

    /// When old revisions are compacted without being asked.
    pub auto_compaction: AutoCompaction,
    /// Time between comparisons of the members' keys; zero never does.
    pub corrupt_check_time: Duration,
    /// Time between comparisons of the members' compaction hashes.
    pub compact_hash_check_time: Duration,
    /// Time between looks at whether a downgrade is done; zero never does.
    pub downgrade_check_time: Duration,
    /// How long applying an entry may take without a warning.
    pub warning_apply_duration: Duration,
    /// What is switched on.
    pub features: Features,
}

/// A cluster that has a place for this member.
#[derive(Clone, Debug)]
pub struct ExistingCluster {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// This member.
    pub local: MemberId,
    /// All members, as others know them.
    pub members: Membership,
}

/// When old revisions are compacted without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// Never.
    Off,
    /// To what was current so long ago.
    Periodic(Duration),
    /// To so many revisions before the current one.
    Revision(i64),
}

/// The feature gates that change what the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, clippy::struct_excessive_bools, reason = "named like etcd's gates")]
pub struct Features {
    pub compact_hash_check: bool,
    pub fast_lease_keep_alive: bool,
    pub initial_corrupt_check: bool,
    pub lease_checkpoint: bool,
    pub lease_checkpoint_persist: bool,
    pub priority_request: bool,
    /// Bowline's own: a leader whose disk hangs hands leadership on.
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

/// What a leader may take that is not applied yet. This bounds its memory while its own disk, or a quorum, does not answer: whoever asked is told in time that nobody
/// knows what became of it, but the entry stays in the log.
const UNAPPLIED_BYTES_MAX: u64 = 1 << 30;

/// The default of `--max-txn-ops`.
const TXN_OPS_MAX_DEFAULT: usize = 128;
/// What every request may take, beside the time it takes to elect a leader twice.
const REQUEST_TIME: Duration = Duration::from_secs(5);

impl ServerConfig {
    /// Etcd's defaults, for a member that is alone.
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

    /// The time after which an election begins, at the earliest.
    pub fn election_timeout(&self) -> Duration {
        self.heartbeat * self.election_ticks
    }

    /// How long a request is waited for.
    pub fn request_timeout(&self) -> Duration {
        REQUEST_TIME + 2 * self.election_timeout()
    }

    /// The folder of the log.
    pub fn wal_path(&self) -> PathBuf {
        self.wal_dir.clone().unwrap_or_else(|| self.data_dir.join("member").join("wal"))
    }

    /// The folder of snapshots and the database.
    pub fn snap_path(&self) -> PathBuf {
        self.data_dir.join("member").join("snap")
    }
}
