//! The resolved configuration: checked, with all defaults.
//!
//! Plain data without invalid states: addresses are parsed, zero does not stand for a default, and
//! a feature that is off is `None`. `resolve` derives it from [`Flags`](super::Flags); flags that
//! Bowline cannot honor never get here, because `unsupported` rejects them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use gocompat::GoDuration;
use logging::LogConfig;

use crate::gates::FeatureGates;
use crate::url::{ListenUrl, Url};

/// The whole configuration of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name of the member.
    pub name: String,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The WAL directory, if it is not in the data directory.
    pub wal_dir: Option<PathBuf>,
    /// Listen URLs and socket options.
    pub listen: Listen,
    /// Advertised URLs.
    pub advertise: Advertise,
    /// The cluster to create or join.
    pub cluster: ClusterConfig,
    /// Raft timing and snapshots.
    pub raft: Raft,
    /// The database.
    pub backend: Backend,
    /// Compaction.
    pub compaction: Compaction,
    /// Limits of requests.
    pub limits: Limits,
    /// Client connections.
    pub client: Client,
    /// TLS for client and metrics listeners.
    pub tls: Tls,
    /// Peer connections.
    pub peer: Peer,
    /// Passwords and tokens.
    pub auth: Auth,
    /// Periodic checks.
    pub checks: Checks,
    /// Metrics, slow requests and tracing.
    pub monitoring: Monitoring,
    /// Logging.
    pub logs: LogConfig,
    /// Feature gates.
    pub gates: FeatureGates,
    /// Do not sync the disk.
    pub unsafe_no_fsync: bool,
    /// Values as given, for the log.
    pub flag_values: FlagValues,
}

/// Values of flags that the rest of the configuration holds in another form, as etcd logs them at
/// a start. No part of the server depends on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagValues {
    /// The architecture, by Go's name.
    pub arch: &'static str,
    /// `--snapshot-count`.
    pub snapshot_count: u64,
    /// `--snapshot-catchup-entries`.
    pub snapshot_catchup_entries: u64,
    /// `--quota-backend-bytes`, with the default instead of zero. Negative is no limit.
    pub quota_backend_bytes: i64,
    /// `--auto-compaction-mode`.
    pub auto_compaction_mode: String,
    /// `--auto-compaction-retention`. A number of revisions counts as nanoseconds.
    pub auto_compaction_retention: GoDuration,
    /// The flags `--discovery-*`.
    pub discovery: DiscoveryFlags,
}

/// The flags `--discovery-*`, whether they are used or not, and without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryFlags {
    /// `--discovery-token`.
    pub token: String,
    /// `--discovery-endpoints`.
    pub endpoints: Vec<String>,
    /// `--discovery-dial-timeout`.
    pub dial_timeout: GoDuration,
    /// `--discovery-request-timeout`.
    pub request_timeout: GoDuration,
    /// `--discovery-keepalive-time`.
    pub keepalive_time: GoDuration,
    /// `--discovery-keepalive-timeout`.
    pub keepalive_timeout: GoDuration,
    /// `--discovery-insecure-transport`.
    pub insecure_transport: bool,
    /// `--discovery-insecure-skip-tls-verify`.
    pub insecure_skip_tls_verify: bool,
    /// `--discovery-cert`.
    pub cert: String,
    /// `--discovery-key`, a file name.
    pub key: String,
    /// `--discovery-cacert`.
    pub cacert: String,
    /// `--discovery-user`, without a password.
    pub user: String,
}

/// The listen URLs of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// URLs for peers.
    pub peer: Vec<ListenUrl>,
    /// URLs for clients: gRPC, and HTTP unless it has URLs of its own.
    pub client: Vec<ListenUrl>,
    /// URLs for clients: HTTP only.
    pub client_http: Vec<ListenUrl>,
    /// URLs for metrics and health only.
    pub metrics: Vec<ListenUrl>,
    /// Set SO_REUSEPORT.
    pub reuse_port: bool,
    /// Set SO_REUSEADDR.
    pub reuse_address: bool,
}

/// The advertised URLs of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// URLs for peers, sorted by text.
    pub peer: Vec<Url>,
    /// URLs for clients, sorted by text.
    pub client: Vec<Url>,
}

/// The cluster that a member without data creates or joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Whether to create or to join.
    pub state: ClusterState,
    /// The token that distinguishes clusters with the same URLs.
    pub token: String,
    /// The initial members, as given. Parsed only if there is no data.
    pub initial: String,
    /// The source of the initial members, if it is not `initial`.
    pub discovery: Option<Discovery>,
    /// Restart as the only member of the cluster, with the existing data.
    pub force_new: bool,
    /// Refuse membership changes that would lose the quorum.
    pub strict_reconfig_check: bool,
    /// The maximum number of learners.
    pub learners_max: u64,
}

/// The source of the members of a new cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// In DNS SRV records.
    Srv {
        /// The domain.
        domain: String,
        /// The suffix of the service names; may be empty.
        service_name: String,
    },
    /// In a list that a running cluster keeps.
    Service(Box<DiscoveryService>),
}

/// A running cluster that keeps the list of the members of a new one: the `--discovery-*` flags but
/// those about DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryService {
    /// The token of the new cluster.
    pub token: String,
    /// The members of the running cluster: URLs, or `host:port`.
    pub endpoints: Vec<String>,
    /// Timeout of a connection attempt.
    pub dial_timeout: Duration,
    /// Timeout of a request.
    pub request_timeout: Duration,
    /// Idle time before a ping.
    pub keepalive_time: Duration,
    /// Timeout of a ping.
    pub keepalive_timeout: Duration,
    /// TLS for endpoints whose URL leaves it open; `None` is plain text.
    pub tls: Option<tls::Info>,
    /// The maximum size of a request; `None` is the client's default.
    pub request_bytes_max: Option<usize>,
    /// The maximum size of a response; `None` is the client's default.
    pub answer_bytes_max: Option<usize>,
    /// The user to log in as.
    pub user: DiscoveryUser,
}

/// A user of the running cluster. Fields that were not given are empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DiscoveryUser {
    /// The user name.
    pub name: String,
    /// The password.
    pub password: String,
    /// A token instead of name and password.
    pub token: String,
}

/// Prints no secrets.
impl fmt::Debug for DiscoveryUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether to create or to join a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// Create a cluster.
    New,
    /// Join a cluster.
    Existing,
}

impl ClusterState {
    /// Returns the value of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }
}

/// Raft timing and snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raft {
    /// The duration of a tick, which is the heartbeat interval.
    pub tick: Duration,
    /// The election timeout in ticks; at least five.
    pub election_ticks: u64,
    /// Whether a candidate runs a pre-vote first.
    pub pre_vote: bool,
    /// Whether a member skips most of its first election timeout.
    pub initial_election_tick_advance: bool,
    /// Applied entries between two snapshots on disk.
    pub snapshot_count: u64,
    /// Entries kept before a snapshot for slow followers.
    pub snapshot_catchup_entries: u64,
    /// The maximum number of snapshot files; `None` keeps all.
    pub snapshots_max: Option<u64>,
    /// The maximum number of WAL segments; `None` keeps all.
    pub wals_max: Option<u64>,
}

impl Raft {
    /// Returns the election timeout. It has whole ticks, so it may be shorter than the flag.
    pub fn election_timeout(&self) -> Duration {
        self.tick.saturating_mul(u32::try_from(self.election_ticks).unwrap_or(u32::MAX))
    }

    /// Returns the timeout of dialing a peer: 1 s and an election timeout.
    pub fn dial_timeout(&self) -> Duration {
        Duration::from_secs(1) + self.election_timeout()
    }

    /// Returns the timeout of a request: 5 s and two election timeouts.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_secs(5) + 2 * self.election_timeout()
    }
}

/// The database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The quota; `None` is no limit.
    pub quota_bytes: Option<u64>,
    /// The maximum time between commits.
    pub batch_interval: Duration,
    /// The maximum number of operations between commits.
    pub batch_operations: u64,
    /// Defragment at the start if it frees at least this much; `None` is never.
    pub bootstrap_defrag_megabytes: Option<u64>,
    /// Whether the database is locked in memory.
    pub mlock: bool,
}

/// Compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Automatic compaction; `None` is off.
    pub auto: Option<AutoCompaction>,
    /// Revisions per batch of a compaction.
    pub batch_revisions: u64,
    /// The pause between two batches.
    pub pause: Duration,
}

/// The history that automatic compaction keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// The last period of time.
    Periodic(Duration),
    /// The last revisions.
    Revision(u64),
}

/// Limits of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of operations in a transaction.
    pub txn_operations: u64,
    /// The maximum size of a request, in bytes.
    pub request_bytes: u64,
}

/// Client connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The maximum number of concurrent streams per connection.
    pub streams_max: u32,
    /// The minimum interval between pings of a client; `None` enforces nothing.
    pub ping_interval_min: Option<Duration>,
    /// Pings of the server; `None` is off.
    pub keepalive: Option<Keepalive>,
    /// Whether the JSON gateway is served.
    pub gateway: bool,
    /// Allowed CORS origins; `*` is any.
    pub cors: BTreeSet<String>,
    /// Allowed host names of requests without TLS; `*` is any.
    pub host_whitelist: BTreeSet<String>,
    /// The interval of progress notifications; `None` is the server's default.
    pub watch_progress_interval: Option<Duration>,
}

/// TLS for clients or for peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificates, trust and cipher suites. Empty if no flag was given.
    pub info: tls::Info,
    /// The certificate to generate, if none was given.
    pub auto: Option<AutoTls>,
    /// Whether the certificate of a client must match its address. For clients, only listeners for
    /// metrics check it.
    pub checks_origin: bool,
}

/// Peer connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// TLS, in both directions.
    pub tls: Tls,
    /// The local address to dial peers from; `None` lets the kernel choose.
    pub local_address: Option<IpAddr>,
    /// The read timeout of a peer connection.
    pub read_timeout: Duration,
    /// The write timeout of a peer connection.
    pub write_timeout: Duration,
}

/// A certificate to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoTls {
    /// The hosts in the certificate, names or addresses.
    pub hosts: Vec<String>,
    /// The validity in years.
    pub validity_years: u64,
}

/// Pings that the server sends to idle clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The interval between pings.
    pub interval: Duration,
    /// The timeout of the answer.
    pub timeout: Duration,
}

/// Passwords and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// The kind of tokens with its options, as given.
    pub token: String,
    /// The bcrypt cost.
    pub bcrypt_cost: u32,
    /// The time to live of an unused simple token.
    pub token_ttl: Duration,
}

/// Periodic checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// The interval of corruption checks; `None` is never.
    pub corruption_interval: Option<Duration>,
    /// The interval of compact hash checks.
    pub compact_hash_interval: Duration,
    /// The interval of downgrade checks; `None` is never.
    pub downgrade_interval: Option<Duration>,
}

/// Metrics, slow requests and tracing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitoring {
    /// Whether call latencies are measured.
    pub extensive_metrics: bool,
    /// The apply duration above which a request is logged.
    pub slow_apply: Duration,
    /// The request duration above which a request is logged.
    pub slow_request: Duration,
    /// Distributed tracing; `None` is off.
    pub tracing: Option<Tracing>,
    /// Profiles; `None` is off.
    pub profiles: Option<ProfilesBy>,
}

/// The flag that enables profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfilesBy {
    /// `--enable-pprof`
    Flag,
    /// `--log-level=debug`
    LogLevel,
}

/// Distributed tracing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// The `host:port` of the collector.
    pub address: String,
    /// The service name, the same for all members.
    pub service_name: String,
    /// The instance id of this member.
    pub instance_id: Option<String>,
    /// Sampled calls per million, for calls whose client leaves it open.
    pub sampled_per_million: u32,
}
