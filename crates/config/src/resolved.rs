//! A configuration as it is meant: checked, with every default in its place.
//!
//! Plain data, and nothing that could still be wrong: addresses are addresses, zero no longer stands for something else, and what is
//! off is `None`. How it follows from [`Flags`](super::Flags) is told in `resolve`. What is asked for and cannot be done yet has no place
//! here: `unsupported` refuses it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use logging::LogConfig;

use crate::gates::FeatureGates;
use crate::url::{ListenUrl, Url};

/// The whole configuration of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name of the member.
    pub name: String,
    /// Where its data is.
    pub data_dir: PathBuf,
    /// Where its log is, if not with the data.
    pub wal_dir: Option<PathBuf>,
    /// Where it listens.
    pub listen: Listen,
    /// How others reach it.
    pub advertise: Advertise,
    /// The cluster that it starts with.
    pub cluster: Cluster,
    /// The pace of consensus.
    pub raft: Raft,
    /// The database.
    pub backend: Backend,
    /// What becomes of history.
    pub compaction: Compaction,
    /// What clients may ask for.
    pub limits: Limits,
    /// Connections of clients.
    pub client: Client,
    /// TLS for clients, and for those who read metrics.
    pub tls: Tls,
    /// Connections between members.
    pub peer: Peer,
    /// Users, passwords and tokens.
    pub auth: Auth,
    /// Looking for damage.
    pub checks: Checks,
    /// What is measured and told.
    pub monitoring: Monitoring,
    /// Logs.
    pub logs: LogConfig,
    /// Switches for what is young.
    pub gates: FeatureGates,
    /// Do not wait for the disk.
    pub unsafe_no_fsync: bool,
}

/// Where a member listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For other members.
    pub peer: Vec<ListenUrl>,
    /// For clients: gRPC, and HTTP unless that has URLs of its own.
    pub client: Vec<ListenUrl>,
    /// For clients: HTTP only.
    pub client_http: Vec<ListenUrl>,
    /// For metrics and health only.
    pub metrics: Vec<ListenUrl>,
    /// Set SO_REUSEPORT.
    pub reuse_port: bool,
    /// Set SO_REUSEADDR.
    pub reuse_address: bool,
}

/// How others reach a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// Other members, in the order of texts.
    pub peer: Vec<Url>,
    /// Clients, in the order of texts.
    pub client: Vec<Url>,
}

/// The cluster that a member starts with, unless it has data already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Whether it is a new one.
    pub state: ClusterState,
    /// Keeps clusters apart that have the same URLs.
    pub token: String,
    /// Its members, as typed; what it says is asked for with [`Config::initial_cluster`], and only if there is no data.
    pub initial: String,
    /// Where else its members are to be found, if not in `initial`.
    pub discovery: Option<Discovery>,
    /// Go on alone, with the data that there is.
    pub force_new: bool,
    /// Refuse changes of membership that would cost the quorum.
    pub strict_reconfig_check: bool,
    /// Most learners.
    pub learners_max: u64,
}

/// Where the members of a cluster that is about to begin are to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// In records of DNS.
    Srv {
        /// Of this domain.
        domain: String,
        /// What is behind the names of the services there; may be empty.
        service_name: String,
    },
    /// On a list that a running cluster keeps.
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

/// Whether a cluster is to be made or joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// To be made.
    New,
    /// To be joined.
    Existing,
}

impl ClusterState {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }
}

/// The pace of consensus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raft {
    /// One tick, and one heartbeat.
    pub tick: Duration,
    /// Ticks without a leader until an election; at least five.
    pub election_ticks: u64,
    /// Ask whether an election could be won before there is one.
    pub pre_vote: bool,
    /// Do not wait out a whole election timeout after a start.
    pub initial_election_tick_advance: bool,
    /// Entries applied between two snapshots on disk.
    pub snapshot_count: u64,
    /// Entries kept behind a snapshot for followers that lag.
    pub snapshot_catchup_entries: u64,
    /// Snapshot files to keep; `None` keeps all.
    pub snapshots_max: Option<u64>,
    /// Files of the log to keep; `None` keeps all.
    pub wals_max: Option<u64>,
}

impl Raft {
    /// Time without a leader until an election. Whole ticks, so it may be less than was asked for.
    pub fn election_timeout(&self) -> Duration {
        self.tick.saturating_mul(u32::try_from(self.election_ticks).unwrap_or(u32::MAX))
    }

    /// Time that calling another member may take: a second for queues, and an election.
    pub fn dial_timeout(&self) -> Duration {
        Duration::from_secs(1) + self.election_timeout()
    }

    /// Time that a request may take: five seconds for queues and disks, and two elections.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_secs(5) + 2 * self.election_timeout()
    }
}

/// The database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its size that stops writes; `None` is no limit.
    pub quota_bytes: Option<u64>,
    /// Longest time until what was written is committed.
    pub batch_interval: Duration,
    /// Most operations until what was written is committed.
    pub batch_operations: u64,
    /// Defragment at the start if that frees as many megabytes; `None` is never.
    pub bootstrap_defrag_megabytes: Option<u64>,
}

/// What becomes of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// What the server compacts by itself; `None` is nothing.
    pub auto: Option<AutoCompaction>,
    /// Revisions compacted in one go.
    pub batch_revisions: u64,
    /// Pause between two such goes.
    pub pause: Duration,
}

/// How much history is kept when the server compacts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// As much time.
    Periodic(Duration),
    /// As many revisions.
    Revision(u64),
}

/// What clients may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most operations in a transaction.
    pub txn_operations: u64,
    /// Largest request, in bytes.
    pub request_bytes: u64,
}

/// Connections of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Most streams open at once on one.
    pub streams_max: u32,
    /// Shortest time between two pings of a client; `None` enforces nothing.
    pub ping_interval_min: Option<Duration>,
    /// Pings of the server; `None` is none.
    pub keepalive: Option<Keepalive>,
    /// Serve JSON too.
    pub gateway: bool,
    /// Origins that web pages may come from; `*` is any.
    pub cors: BTreeSet<String>,
    /// Names that requests without TLS may be addressed to; `*` is any.
    pub host_whitelist: BTreeSet<String>,
    /// Time between two progress notes to a watcher; `None` leaves it to the server.
    pub watch_progress_interval: Option<Duration>,
}

/// TLS with those of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// What is shown, and who is let in. Empty if nothing was given.
    pub info: tls::Info,
    /// Make a certificate, since none was given.
    pub auto: Option<AutoTls>,
    /// A certificate that is shown to us must be for where it comes from. With clients that counts only where metrics are served alone.
    pub checks_origin: bool,
}

/// Connections between members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// TLS with other members, both who call and who are called.
    pub tls: Tls,
    /// The address to call other members from, if it matters.
    pub local_address: Option<IpAddr>,
    /// How long another member may say nothing on a connection where it should.
    pub read_timeout: Duration,
    /// How long another member may take nothing of what is said to it.
    pub write_timeout: Duration,
}

/// A certificate to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoTls {
    /// The hosts that it is for, names or addresses.
    pub hosts: Vec<String>,
    /// How long it is good for.
    pub validity_years: u64,
}

/// Pings of the server, to see whether a client is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Time between two.
    pub interval: Duration,
    /// Time that an answer may take.
    pub timeout: Duration,
}

/// Users, passwords and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Kind of tokens, and their options, as typed.
    pub token: String,
    /// How hard hashing a password is.
    pub bcrypt_cost: u32,
    /// Time that a simple token lives without being used.
    pub token_ttl: Duration,
}

/// Looking for damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Time between two comparisons with the other members; `None` is never.
    pub corruption_interval: Option<Duration>,
    /// Time between two comparisons of what was compacted.
    pub compact_hash_interval: Duration,
    /// Time between two looks at whether a downgrade is done; `None` is never.
    pub downgrade_interval: Option<Duration>,
}

/// What is measured and told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitoring {
    /// Measure the times of calls too.
    pub extensive_metrics: bool,
    /// Time that applying a request may take before the log tells.
    pub slow_apply: Duration,
    /// Time that a request may take before the log tells.
    pub slow_request: Duration,
    /// Where traces go; `None` is nowhere.
    pub tracing: Option<Tracing>,
}

/// Distributed tracing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// Host and port of a collector.
    pub address: String,
    /// The name of all members together.
    pub service_name: String,
    /// The name of this one, if it has one.
    pub instance_id: Option<String>,
    /// Calls to trace, of a million whose clients leave it open.
    pub sampled_per_million: u32,
}
