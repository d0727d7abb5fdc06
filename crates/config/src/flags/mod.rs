//! The table of all flags: name, default, type and help.
//!
//! ```text
//!     "heartbeat-interval" heartbeat_interval: Uint = "100", "Heartbeat interval in ...";
//!      |                   |                   |       |      |
//!      name on the         field of Flags      Slot    default, parsed like a value
//!      command line
//! ```
//!
//! Invariants: names are etcd's; a field has the name of its flag; defaults parse. Combinations of
//! flags are checked in `check`.

pub(crate) mod args;
pub(crate) mod environment;
pub(crate) mod help;
pub(crate) mod value;

use std::collections::BTreeSet;

use crate::gates::FeatureGates;
use crate::url::list::UniqueUrls;
use gocompat::GoDuration;

/// The flags under one heading of `--help`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The heading.
    pub(crate) title: &'static str,
    /// The flags, in the order of the help.
    pub(crate) flags: &'static [Flag],
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// The name without leading dashes.
    pub(crate) name: &'static str,
    /// The default as a text; empty is the default of the type.
    pub(crate) default: &'static str,
    /// The field and type of the value.
    pub(crate) slot: Slot,
    /// The help text.
    pub(crate) help: &'static str,
}

/// The type of a flag, with access to its field in [`Flags`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// Any text.
    Text(fn(&mut Flags) -> &mut String),
    /// A boolean; the name alone means true.
    Bool(fn(&mut Flags) -> &mut bool),
    /// Go's `uint`.
    Uint(fn(&mut Flags) -> &mut u64),
    /// Go's `uint64`.
    Uint64(fn(&mut Flags) -> &mut u64),
    /// Go's `uint32`, with the error texts of etcd's own parser.
    Uint32(fn(&mut Flags) -> &mut u32),
    /// Go's `int`.
    Int(fn(&mut Flags) -> &mut i64),
    /// Go's `int64`.
    Int64(fn(&mut Flags) -> &mut i64),
    /// A duration.
    Duration(fn(&mut Flags) -> &mut GoDuration),
    /// Comma-separated URLs, or the special text that is allowed instead.
    Urls(&'static str, fn(&mut Flags) -> &mut UniqueUrls),
    /// Comma-separated texts, sorted and without duplicates.
    Words(fn(&mut Flags) -> &mut Vec<String>),
    /// Comma-separated texts, as given.
    List(fn(&mut Flags) -> &mut Vec<String>),
    /// A text of a set.
    Choice(&'static [&'static str], fn(&mut Flags) -> &mut String),
    /// Comma-separated texts of a set; repeated flags add up.
    Stages(&'static [&'static str], fn(&mut Flags) -> &mut Vec<String>),
    /// Feature gates.
    Gates(fn(&mut Flags) -> &mut FeatureGates),
    /// Accepted with any value or none, and ignored.
    Ignored,
}

/// The special text for an empty list of URLs.
const ALLOW_NONE: &str = "";
/// The special text for any URL.
const ALLOW_ALL: &str = "*";
const CLUSTER_STATES: &[&str] = &["new", "existing"];
const FALLBACKS: &[&str] = &["exit", "proxy"];
const V2_STAGES: &[&str] = &["write-only", "write-only-skip-check", "write-only-drop-data", "gone"];

/// Flags of old etcd versions, accepted and ignored.
const IGNORED: [&str; 15] = [
    "cluster-active-size",
    "cluster-remove-delay",
    "cluster-sync-interval",
    "config",
    "force",
    "max-result-buffer",
    "max-retry-attempts",
    "peer-heartbeat-interval",
    "peer-election-timeout",
    "retry-interval",
    "snapshot",
    "v",
    "vv",
    "test.coverprofile",
    "test.outputdir",
];

macro_rules! value_type {
    (Text) => { String };
    (Bool) => { bool };
    (Uint) => { u64 };
    (Uint64) => { u64 };
    (Uint32) => { u32 };
    (Int) => { i64 };
    (Int64) => { i64 };
    (Duration) => { GoDuration };
    (Urls) => { UniqueUrls };
    (Words) => { Vec<String> };
    (List) => { Vec<String> };
    (Choice) => { String };
    (Stages) => { Vec<String> };
    (Gates) => { FeatureGates };
}

macro_rules! flags {
    ($($title:literal {
        $($name:literal $field:ident : $kind:ident $(($with:expr))? = $default:literal, $help:literal;)*
    })*) => {
        /// All flags as given on the command line, in the environment or in the file.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Flags {
            $($(
                #[doc = $help]
                pub $field: value_type!($kind),
            )*)*
            /// The names of the flags that were set.
            pub given: BTreeSet<&'static str>,
            /// Allowed common names in client certificates. A key of the file without a flag.
            pub client_cert_allowed_cn: Vec<String>,
            /// Do not compare the names in a client's certificate with its address. A key of the
            /// file without a flag.
            pub client_skip_client_san_verification: bool,
            /// Discovery: maximum size of a request; zero or less is the default. A key of the file
            /// without a flag.
            pub discovery_request_bytes_max: i64,
            /// Discovery: maximum size of a response; zero or less is the default. A key of the
            /// file without a flag.
            pub discovery_answer_bytes_max: i64,
            /// Discovery: expected name in the server certificates. A key of the file without a
            /// flag.
            pub discovery_server_name: String,
            /// Discovery: token instead of user and password. A key of the file without a flag.
            pub discovery_user_token: String,
        }

        /// All flags, by heading.
        pub(crate) const GROUPS: &[Group] = &[$(
            Group {
                title: $title,
                flags: &[$(
                    Flag {
                        name: $name,
                        default: $default,
                        slot: Slot::$kind($($with,)? |flags| &mut flags.$field),
                        help: $help,
                    },
                )*],
            },
        )*];
    };
}

flags! {
    "Member" {
        "name" name: Text = "default",
            "Name of this member.";
        "data-dir" data_dir: Text = "",
            "Data directory; NAME.etcd by default.";
        "wal-dir" wal_dir: Text = "",
            "Directory of the write-ahead log; in the data directory by default.";
        "snapshot-count" snapshot_count: Uint64 = "10000",
            "Applied entries between two snapshots on disk (0 is the default).";
        "snapshot-catchup-entries" snapshot_catchup_entries: Uint64 = "5000",
            "Entries kept before a snapshot for slow followers (0 is the default).";
        "heartbeat-interval" heartbeat_interval: Uint = "100",
            "Heartbeat interval in milliseconds; one tick of Raft.";
        "election-timeout" election_timeout: Uint = "1000",
            "Election timeout in milliseconds; at least five heartbeat intervals.";
        "initial-election-tick-advance" initial_election_tick_advance: Bool = "true",
            "Skip most of the first election timeout after a start.";
        "listen-peer-urls" listen_peer_urls: Urls(ALLOW_NONE) = "http://localhost:2380",
            "URLs to listen on for peers.";
        "listen-client-urls" listen_client_urls: Urls(ALLOW_NONE) = "http://localhost:2379",
            "URLs to listen on for clients: gRPC, and HTTP unless --listen-client-http-urls is set.";
        "listen-client-http-urls" listen_client_http_urls: Urls(ALLOW_NONE) = "",
            "URLs to listen on for HTTP only; --listen-client-urls then serves gRPC only.";
        "max-snapshots" max_snapshots: Uint = "5",
            "Maximum number of snapshot files (0 keeps all). Deprecated; will be removed in 3.8.";
        "max-wals" max_wals: Uint = "5",
            "Maximum number of write-ahead log files (0 keeps all).";
        "memory-mlock" memory_mlock: Bool = "false",
            "Lock the pages of the database in memory.";
        "quota-backend-bytes" quota_backend_bytes: Int64 = "0",
            "Maximum size of the database; beyond it an alarm stops writes (0 is 2 GiB, negative is no limit).";
        "backend-bbolt-freelist-type" backend_bbolt_freelist_type: Text = "",
            "Type of etcd's freelist: map or array. Free pages are always kept by size.";
        "backend-batch-interval" backend_batch_interval: Duration = "0",
            "Maximum time between commits to the database (0 is 100ms).";
        "backend-batch-limit" backend_batch_limit: Int = "0",
            "Maximum number of operations between commits to the database (0 is 10000).";
        "max-txn-ops" max_txn_ops: Uint = "128",
            "Maximum number of operations in a transaction.";
        "max-request-bytes" max_request_bytes: Uint = "1572864",
            "Maximum size of a client request, in bytes.";
        "max-concurrent-streams" max_concurrent_streams: Uint32 = "4294967295",
            "Maximum number of concurrent streams per client connection.";
        "grpc-keepalive-min-time" grpc_keepalive_min_time: Duration = "5s",
            "Minimum interval between pings of a client.";
        "grpc-keepalive-interval" grpc_keepalive_interval: Duration = "2h",
            "Interval of the server's pings to a client (0 sends none).";
        "grpc-keepalive-timeout" grpc_keepalive_timeout: Duration = "20s",
            "Time to wait for the answer to a ping before closing the connection (0 sends no pings).";
        "socket-reuse-port" socket_reuse_port: Bool = "false",
            "Set SO_REUSEPORT on listeners.";
        "socket-reuse-address" socket_reuse_address: Bool = "false",
            "Set SO_REUSEADDR on listeners.";
        "enable-grpc-gateway" enable_grpc_gateway: Bool = "true",
            "Serve the API as JSON over HTTP.";
        "raft-read-timeout" raft_read_timeout: Duration = "5s",
            "Read timeout of peer connections; at least 5s.";
        "raft-write-timeout" raft_write_timeout: Duration = "5s",
            "Write timeout of peer connections; at least 5s.";
        "feature-gates" feature_gates: Gates = "",
            "Comma-separated features to enable or disable: name=true or name=false.";
    }
    "Clustering" {
        "initial-advertise-peer-urls" initial_advertise_peer_urls: Urls(ALLOW_NONE) = "http://localhost:2380",
            "URLs that peers use to reach this member.";
        "initial-cluster" initial_cluster: Text = "default=http://localhost:2380",
            "Members of a new cluster: comma-separated name=url.";
        "initial-cluster-state" initial_cluster_state: Choice(CLUSTER_STATES) = "new",
            "new to create a cluster, existing to join one. Ignored if there is data.";
        "initial-cluster-token" initial_cluster_token: Text = "etcd-cluster",
            "Token that distinguishes clusters with the same URLs; part of the member ids.";
        "advertise-client-urls" advertise_client_urls: Urls(ALLOW_NONE) = "http://localhost:2379",
            "URLs that clients use to reach this member.";
        "discovery-token" discovery_token: Text = "",
            "Discovery: token of the new cluster.";
        "discovery-endpoints" discovery_endpoints: Words = "",
            "Discovery: endpoints of the running cluster that keeps the list of members.";
        "discovery-dial-timeout" discovery_dial_timeout: Duration = "2s",
            "Discovery: timeout of a connection attempt.";
        "discovery-request-timeout" discovery_request_timeout: Duration = "5s",
            "Discovery: timeout of a request.";
        "discovery-keepalive-time" discovery_keepalive_time: Duration = "2s",
            "Discovery: interval of pings.";
        "discovery-keepalive-timeout" discovery_keepalive_timeout: Duration = "6s",
            "Discovery: timeout of the answer to a ping.";
        "discovery-insecure-transport" discovery_insecure_transport: Bool = "true",
            "Discovery: connect without TLS.";
        "discovery-insecure-skip-tls-verify" discovery_insecure_skip_tls_verify: Bool = "false",
            "Discovery: do not verify the server certificate.";
        "discovery-cert" discovery_cert: Text = "",
            "Discovery: client certificate file.";
        "discovery-key" discovery_key: Text = "",
            "Discovery: key file of the client certificate.";
        "discovery-cacert" discovery_cacert: Text = "",
            "Discovery: file with the trusted certificate authorities.";
        "discovery-user" discovery_user: Text = "",
            "Discovery: user, or user:password.";
        "discovery-password" discovery_password: Text = "",
            "Discovery: password of the user.";
        "discovery-fallback" discovery_fallback: Choice(FALLBACKS) = "exit",
            "Action if discovery fails; only exit is supported.";
        "discovery-srv" discovery_srv: Text = "",
            "DNS domain whose SRV records list the members.";
        "discovery-srv-name" discovery_srv_name: Text = "",
            "Suffix of the service name in the SRV records.";
        "strict-reconfig-check" strict_reconfig_check: Bool = "true",
            "Refuse membership changes that would lose the quorum.";
        "pre-vote" pre_vote: Bool = "true",
            "Run a pre-vote before an election.";
        "auto-compaction-retention" auto_compaction_retention: Text = "0",
            "History to keep: a duration, hours, or a number of revisions (0 disables compaction).";
        "auto-compaction-mode" auto_compaction_mode: Text = "periodic",
            "Unit of the retention: periodic for time, revision for revisions.";
        "max-learners" max_learners: Int = "1",
            "Maximum number of learners in the cluster.";
        "v2-deprecation" v2_deprecation: Stages(V2_STAGES) = "",
            "Without effect. Deprecated; will be removed in 3.8.";
    }
    "Security" {
        "cert-file" cert_file: Text = "",
            "Server certificate file for clients.";
        "key-file" key_file: Text = "",
            "Key file of --cert-file.";
        "client-cert-file" client_cert_file: Text = "",
            "Client certificate file for the server's calls to itself. Only checked.";
        "client-key-file" client_key_file: Text = "",
            "Key file of --client-cert-file.";
        "client-cert-auth" client_cert_auth: Bool = "false",
            "Require a trusted certificate from clients.";
        "client-crl-file" client_crl_file: Text = "",
            "File with revoked client certificates.";
        "client-cert-allowed-hostname" client_cert_allowed_hostname: List = "",
            "Allowed names in client certificates.";
        "trusted-ca-file" trusted_ca_file: Text = "",
            "File with the certificate authorities trusted for clients; if set, clients need a certificate.";
        "auto-tls" auto_tls: Bool = "false",
            "Generate a certificate for clients if none is given.";
        "peer-cert-file" peer_cert_file: Text = "",
            "Certificate file for peers.";
        "peer-key-file" peer_key_file: Text = "",
            "Key file of --peer-cert-file.";
        "peer-client-cert-file" peer_client_cert_file: Text = "",
            "Certificate file for dialing peers.";
        "peer-client-key-file" peer_client_key_file: Text = "",
            "Key file of --peer-client-cert-file.";
        "peer-client-cert-auth" peer_client_cert_auth: Bool = "false",
            "Require a trusted certificate from peers.";
        "peer-trusted-ca-file" peer_trusted_ca_file: Text = "",
            "File with the certificate authorities trusted for peers; if set, peers need a certificate.";
        "peer-cert-allowed-cn" peer_cert_allowed_cn: List = "",
            "Allowed common names in peer certificates.";
        "peer-cert-allowed-hostname" peer_cert_allowed_hostname: List = "",
            "Allowed names in peer certificates.";
        "peer-auto-tls" peer_auto_tls: Bool = "false",
            "Generate a certificate for peers if none is given.";
        "self-signed-cert-validity" self_signed_cert_validity: Uint = "1",
            "Validity of generated certificates, in years.";
        "peer-crl-file" peer_crl_file: Text = "",
            "File with revoked peer certificates.";
        "peer-skip-client-san-verification" peer_skip_client_san_verification: Bool = "false",
            "Do not compare the names in a peer's certificate with its address.";
        "cipher-suites" cipher_suites: List = "",
            "TLS 1.2 cipher suites to offer (all secure ones by default).";
        "tls-min-version" tls_min_version: Text = "TLS1.2",
            "Minimum TLS version: TLS1.2 or TLS1.3.";
        "tls-max-version" tls_max_version: Text = "",
            "Maximum TLS version: TLS1.2 or TLS1.3 (the newest by default).";
        "cors" cors: Urls(ALLOW_ALL) = "*",
            "Allowed CORS origins (* for any).";
        "host-whitelist" host_whitelist: Words = "*",
            "Allowed host names of requests without TLS (* for any).";
    }
    "Auth" {
        "auth-token" auth_token: Text = "simple",
            "Kind of auth tokens: simple, or jwt with its options.";
        "bcrypt-cost" bcrypt_cost: Uint = "10",
            "Cost of hashing a password, from 4 to 31.";
        "auth-token-ttl" auth_token_ttl: Uint = "300",
            "Time to live of an unused simple token, in seconds.";
    }
    "Profiling and Monitoring" {
        "enable-pprof" enable_pprof: Bool = "false",
            "Serve CPU, heap and thread profiles under /debug/pprof/, on the client URLs.";
        "metrics" metrics: Text = "basic",
            "Level of metrics: basic, or extensive with call latencies.";
        "listen-metrics-urls" listen_metrics_urls: Urls(ALLOW_NONE) = "",
            "Additional URLs to listen on for metrics and health only.";
    }
    "Logging" {
        "logger" logger: Text = "zap",
            "Format of log lines; only zap is supported.";
        "log-outputs" log_outputs: Words = "default",
            "Destinations of the log: stderr, stdout, systemd/journal, or files.";
        "log-level" log_level: Text = "info",
            "Lowest level that is logged: debug, info, warn, error, panic or fatal.";
        "log-format" log_format: Text = "json",
            "Format of log lines: json or console.";
        "enable-log-rotation" enable_log_rotation: Bool = "false",
            "Rotate the log file; needs exactly one file in --log-outputs.";
        "log-rotation-config-json" log_rotation_config_json: Text = r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#,
            "Size of a log file (MB), and age (days) and number of backups to keep (0 keeps all).";
        "warning-unary-request-duration" warning_unary_request_duration: Duration = "300ms",
            "Duration above which a request is logged (0 is the default).";
    }
    "Distributed tracing" {
        "enable-distributed-tracing" enable_distributed_tracing: Bool = "false",
            "Send traces to a collector.";
        "distributed-tracing-address" distributed_tracing_address: Text = "localhost:4317",
            "Address of the collector.";
        "distributed-tracing-service-name" distributed_tracing_service_name: Text = "etcd",
            "Service name in traces, the same for all members.";
        "distributed-tracing-instance-id" distributed_tracing_instance_id: Text = "",
            "Instance id of this member in traces.";
        "distributed-tracing-sampling-rate" distributed_tracing_sampling_rate: Int = "0",
            "Traced requests per million.";
    }
    "Features" {
        "corrupt-check-time" corrupt_check_time: Duration = "1h",
            "Interval of corruption checks against the peers (0 disables them).";
        "compact-hash-check-time" compact_hash_check_time: Duration = "1m",
            "Interval of compact hash checks.";
        "compaction-batch-limit" compaction_batch_limit: Int = "0",
            "Revisions per compaction batch (0 is 1000).";
        "compaction-sleep-interval" compaction_sleep_interval: Duration = "0",
            "Pause between two compaction batches (0 is 10ms).";
        "watch-progress-notify-interval" watch_progress_notify_interval: Duration = "0",
            "Interval of watch progress notifications (0 is 10m; at least 100ms).";
        "warning-apply-duration" warning_apply_duration: Duration = "100ms",
            "Duration above which applying a request is logged.";
        "bootstrap-defrag-threshold-megabytes" bootstrap_defrag_threshold_megabytes: Uint = "0",
            "Defragment at the start if it frees at least this much (0 disables it).";
        "downgrade-check-time" downgrade_check_time: Duration = "5s",
            "Interval of downgrade checks (0 disables them).";
    }
    "Unsafe" {
        "force-new-cluster" force_new_cluster: Bool = "false",
            "Restart one member of a lost cluster as a new cluster of one.";
        "unsafe-no-fsync" unsafe_no_fsync: Bool = "false",
            "Do not sync the disk. A power cut then loses data.";
    }
    "General" {
        "config-file" config_file: Text = "",
            "Configuration file. All other flags and environment variables are then ignored.";
        "version" version: Bool = "false",
            "Print the version and exit.";
    }
}

impl Flags {
    /// Creates flags with their defaults.
    pub fn new() -> Self {
        let mut flags = Self::default();
        for flag in known().filter(|flag| !flag.default.is_empty()) {
            flags.set(&flag, flag.default).expect("the defaults in the table parse");
        }
        flags.given.clear();
        flags
    }

    /// Returns whether a flag was set.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }
}

/// Returns all flags including the ignored ones, sorted by name.
pub(crate) fn by_name() -> Vec<Flag> {
    let mut flags: Vec<Flag> = known().chain(IGNORED.iter().map(|name| ignored(name))).collect();
    flags.sort_by_key(|flag| flag.name);
    flags
}

/// Finds a flag by name.
pub(crate) fn find(name: &str) -> Option<Flag> {
    let ignored_flag =
        || IGNORED.iter().find(|ignored| **ignored == name).map(|name| ignored(name));
    known().find(|flag| flag.name == name).or_else(ignored_flag)
}

/// Returns all flags but the ignored ones.
pub(crate) fn known() -> impl Iterator<Item = Flag> {
    GROUPS.iter().flat_map(|group| group.flags.iter().copied())
}

fn ignored(name: &'static str) -> Flag {
    Flag { name, default: "", slot: Slot::Ignored, help: "" }
}

#[cfg(test)]
mod tests {
    use super::{Flags, by_name, find, known};

    /// etcd 3.7 has as many, and 15 that it ignores.
    #[test]
    fn there_are_113_flags() {
        assert_eq!(known().count(), 113);
        assert_eq!(by_name().len(), 128);
    }

    #[test]
    fn names_are_unique() {
        assert!(by_name().is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn defaults_parse_and_do_not_count_as_given() {
        let flags = Flags::new();
        assert_eq!(
            (flags.heartbeat_interval, flags.name.as_str(), flags.pre_vote),
            (100, "default", true)
        );
        assert!(flags.given.is_empty());
    }

    #[test]
    fn a_flag_is_found_by_its_name() {
        assert_eq!(find("max-wals").map(|flag| flag.default), Some("5"));
        assert_eq!(find("vv").map(|flag| flag.default), Some(""));
        assert!(find("max_wals").is_none());
    }
}
