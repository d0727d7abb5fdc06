//! Every flag there is: its name, its default, its kind, and what it is for.
//!
//! ```text
//!     "heartbeat-interval" heartbeat_interval: Uint = "100", "Milliseconds between heartbeats; ...";
//!      |                   |                   |       |      |
//!      on the command line field of Flags      Slot    taken as if it had been typed, and shown by --help
//! ```
//!
//! Always true: names are etcd's; the field has the name of the flag; defaults parse. What flags mean together is none of this
//! module's business.

pub(crate) mod args;
pub(crate) mod environment;
pub(crate) mod help;
pub(crate) mod value;

use std::collections::BTreeSet;

use crate::gates::FeatureGates;
use crate::url::list::UniqueUrls;
use gocompat::GoDuration;

/// Flags under a heading of `--help`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The heading.
    pub(crate) title: &'static str,
    /// The flags, in the order they are shown in.
    pub(crate) flags: &'static [Flag],
}

/// A flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    /// Its name, without dashes before it.
    pub(crate) name: &'static str,
    /// What it is if nobody says otherwise, as it would be typed; nothing is what a kind starts with.
    pub(crate) default: &'static str,
    /// Where its value goes, and with that its kind.
    pub(crate) slot: Slot,
    /// What it is for.
    pub(crate) help: &'static str,
}

/// A field of [`Flags`] and how a text becomes its value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// Any text.
    Text(fn(&mut Flags) -> &mut String),
    /// True or false; on the command line its name alone is true.
    Bool(fn(&mut Flags) -> &mut bool),
    /// Go's `uint`.
    Uint(fn(&mut Flags) -> &mut u64),
    /// Go's `uint64`.
    Uint64(fn(&mut Flags) -> &mut u64),
    /// Go's `uint32`, by a parser of etcd's with words of its own.
    Uint32(fn(&mut Flags) -> &mut u32),
    /// Go's `int`.
    Int(fn(&mut Flags) -> &mut i64),
    /// Go's `int64`.
    Int64(fn(&mut Flags) -> &mut i64),
    /// A duration.
    Duration(fn(&mut Flags) -> &mut GoDuration),
    /// URLs with commas between, or the text that is allowed besides.
    Urls(&'static str, fn(&mut Flags) -> &mut UniqueUrls),
    /// Texts with commas between, each once and in order.
    Words(fn(&mut Flags) -> &mut Vec<String>),
    /// Texts with commas between, as given.
    List(fn(&mut Flags) -> &mut Vec<String>),
    /// One of some texts.
    Choice(&'static [&'static str], fn(&mut Flags) -> &mut String),
    /// Some of some texts, with commas between; more add up.
    Stages(&'static [&'static str], fn(&mut Flags) -> &mut Vec<String>),
    /// Feature gates.
    Gates(fn(&mut Flags) -> &mut FeatureGates),
    /// Taken, with any value or none, and forgotten.
    Ignored,
}

/// The text that may stand for a list of URLs: none at all.
const ALLOW_NONE: &str = "";
/// The text that may stand for a list of URLs: any.
const ALLOW_ALL: &str = "*";
const CLUSTER_STATES: &[&str] = &["new", "existing"];
const FALLBACKS: &[&str] = &["exit", "proxy"];
const V2_STAGES: &[&str] = &["write-only", "write-only-skip-check", "write-only-drop-data", "gone"];

/// Flags of other times, taken and forgotten.
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
        /// All flags, as typed: on a command line, in the environment, or in a file.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Flags {
            $($(
                #[doc = $help]
                pub $field: value_type!($kind),
            )*)*
            /// The flags that somebody set.
            pub given: BTreeSet<&'static str>,
            /// Common names of which a certificate of a client must have one. There is no flag for it, but a key of the file.
            pub client_cert_allowed_cn: Vec<String>,
            /// Do not compare the names in the certificate of a client with where it comes from. The same.
            pub client_skip_client_san_verification: bool,
            /// Discovery: how many bytes a request may have; zero or less for what is usual. The same.
            pub discovery_request_bytes_max: i64,
            /// Discovery: how many bytes an answer may have. The same.
            pub discovery_answer_bytes_max: i64,
            /// Discovery: the name that the certificates there are for. The same.
            pub discovery_server_name: String,
            /// Discovery: a token in place of a user and a password. The same.
            pub discovery_user_token: String,
        }

        /// The flags, by heading.
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
            "Name of this member, for people.";
        "data-dir" data_dir: Text = "",
            "Directory that the member keeps its data in; NAME.etcd if none is given.";
        "wal-dir" wal_dir: Text = "",
            "Directory for the log, if it is not to be in the data directory.";
        "snapshot-count" snapshot_count: Uint64 = "10000",
            "Entries applied between two snapshots on disk (0 is the default).";
        "snapshot-catchup-entries" snapshot_catchup_entries: Uint64 = "5000",
            "Entries kept behind a snapshot for followers that lag (0 is the default).";
        "heartbeat-interval" heartbeat_interval: Uint = "100",
            "Milliseconds between heartbeats; one tick of the clock that raft goes by.";
        "election-timeout" election_timeout: Uint = "1000",
            "Milliseconds without a leader until an election; at least five heartbeats.";
        "initial-election-tick-advance" initial_election_tick_advance: Bool = "true",
            "Do not wait out a whole election timeout after a start.";
        "listen-peer-urls" listen_peer_urls: Urls(ALLOW_NONE) = "http://localhost:2380",
            "URLs to listen on for other members.";
        "listen-client-urls" listen_client_urls: Urls(ALLOW_NONE) = "http://localhost:2379",
            "URLs to listen on for clients: gRPC, and HTTP unless that has URLs of its own.";
        "listen-client-http-urls" listen_client_http_urls: Urls(ALLOW_NONE) = "",
            "URLs to listen on for HTTP only; --listen-client-urls then serve gRPC only.";
        "max-snapshots" max_snapshots: Uint = "5",
            "Snapshot files to keep (0 keeps all). Deprecated; goes away with 3.8.";
        "max-wals" max_wals: Uint = "5",
            "Files of the log to keep (0 keeps all).";
        "memory-mlock" memory_mlock: Bool = "false",
            "Keep the pages of the database in memory.";
        "quota-backend-bytes" quota_backend_bytes: Int64 = "0",
            "Size of the database that raises an alarm and stops writes (0 is 2 GiB, less than 0 is no limit).";
        "backend-bbolt-freelist-type" backend_bbolt_freelist_type: Text = "",
            "How the free pages of the database are kept track of: map or array.";
        "backend-batch-interval" backend_batch_interval: Duration = "0",
            "Longest time until what was written is committed to the database (0 is 100ms).";
        "backend-batch-limit" backend_batch_limit: Int = "0",
            "Most operations until what was written is committed to the database (0 is 10000).";
        "max-txn-ops" max_txn_ops: Uint = "128",
            "Most operations in a transaction.";
        "max-request-bytes" max_request_bytes: Uint = "1572864",
            "Largest request of a client, in bytes.";
        "max-concurrent-streams" max_concurrent_streams: Uint32 = "4294967295",
            "Most streams that a client may have open at once.";
        "grpc-keepalive-min-time" grpc_keepalive_min_time: Duration = "5s",
            "Shortest time between two pings of a client.";
        "grpc-keepalive-interval" grpc_keepalive_interval: Duration = "2h",
            "Time between two pings of the server, to see whether a client is there (0 for none).";
        "grpc-keepalive-timeout" grpc_keepalive_timeout: Duration = "20s",
            "Time that an answer to such a ping may take (0 for no pings).";
        "socket-reuse-port" socket_reuse_port: Bool = "false",
            "Set SO_REUSEPORT on listeners.";
        "socket-reuse-address" socket_reuse_address: Bool = "false",
            "Set SO_REUSEADDR on listeners.";
        "enable-grpc-gateway" enable_grpc_gateway: Bool = "true",
            "Serve the API as JSON over HTTP too.";
        "raft-read-timeout" raft_read_timeout: Duration = "5s",
            "Time that a read from another member may take; at least 5s.";
        "raft-write-timeout" raft_write_timeout: Duration = "5s",
            "Time that a write to another member may take; at least 5s.";
        "feature-gates" feature_gates: Gates = "",
            "Features to switch on or off, as name=true or name=false with commas between.";
    }
    "Clustering" {
        "initial-advertise-peer-urls" initial_advertise_peer_urls: Urls(ALLOW_NONE) = "http://localhost:2380",
            "URLs under which other members reach this one.";
        "initial-cluster" initial_cluster: Text = "default=http://localhost:2380",
            "Members of a new cluster, as name=url with commas between.";
        "initial-cluster-state" initial_cluster_state: Choice(CLUSTER_STATES) = "new",
            "new for a new cluster, existing to join one. Without meaning once there is data.";
        "initial-cluster-token" initial_cluster_token: Text = "etcd-cluster",
            "Keeps clusters apart that have the same URLs: part of the ids of members.";
        "advertise-client-urls" advertise_client_urls: Urls(ALLOW_NONE) = "http://localhost:2379",
            "URLs under which clients reach this member.";
        "discovery-token" discovery_token: Text = "",
            "Discovery: token of the cluster to be.";
        "discovery-endpoints" discovery_endpoints: Words = "",
            "Discovery: where to ask.";
        "discovery-dial-timeout" discovery_dial_timeout: Duration = "2s",
            "Discovery: time that connecting may take.";
        "discovery-request-timeout" discovery_request_timeout: Duration = "5s",
            "Discovery: time that a request may take.";
        "discovery-keepalive-time" discovery_keepalive_time: Duration = "2s",
            "Discovery: time between two pings.";
        "discovery-keepalive-timeout" discovery_keepalive_timeout: Duration = "6s",
            "Discovery: time that an answer to a ping may take.";
        "discovery-insecure-transport" discovery_insecure_transport: Bool = "true",
            "Discovery: connect without TLS.";
        "discovery-insecure-skip-tls-verify" discovery_insecure_skip_tls_verify: Bool = "false",
            "Discovery: trust any server.";
        "discovery-cert" discovery_cert: Text = "",
            "Discovery: file with the certificate to show.";
        "discovery-key" discovery_key: Text = "",
            "Discovery: file with the key of it.";
        "discovery-cacert" discovery_cacert: Text = "",
            "Discovery: file with the authorities to trust.";
        "discovery-user" discovery_user: Text = "",
            "Discovery: user, or user:password.";
        "discovery-password" discovery_password: Text = "",
            "Discovery: password of the user.";
        "discovery-fallback" discovery_fallback: Choice(FALLBACKS) = "exit",
            "What to do if discovery fails; exit is all there is.";
        "discovery-srv" discovery_srv: Text = "",
            "DNS domain whose SRV records name the members.";
        "discovery-srv-name" discovery_srv_name: Text = "",
            "Suffix of the service name in those records.";
        "strict-reconfig-check" strict_reconfig_check: Bool = "true",
            "Refuse changes of membership that would cost the quorum.";
        "pre-vote" pre_vote: Bool = "true",
            "Ask whether an election could be won before there is one.";
        "auto-compaction-retention" auto_compaction_retention: Text = "0",
            "How much history to keep: a duration, hours, or a number of revisions (0 compacts nothing).";
        "auto-compaction-mode" auto_compaction_mode: Text = "periodic",
            "What the retention is: periodic for time, revision for revisions.";
        "max-learners" max_learners: Int = "1",
            "Most learners in the cluster.";
        "v2-deprecation" v2_deprecation: Stages(V2_STAGES) = "",
            "Without meaning. Deprecated; goes away with 3.8.";
    }
    "Security" {
        "cert-file" cert_file: Text = "",
            "File with the certificate shown to clients.";
        "key-file" key_file: Text = "",
            "File with the key of it.";
        "client-cert-file" client_cert_file: Text = "",
            "File with the certificate that the server shows when it is a client of its own.";
        "client-key-file" client_key_file: Text = "",
            "File with the key of it.";
        "client-cert-auth" client_cert_auth: Bool = "false",
            "Let in only clients with a certificate that is trusted.";
        "client-crl-file" client_crl_file: Text = "",
            "File with the certificates of clients that were revoked.";
        "client-cert-allowed-hostname" client_cert_allowed_hostname: List = "",
            "Names of which a certificate of a client must have one.";
        "trusted-ca-file" trusted_ca_file: Text = "",
            "File with the authorities trusted for clients; given, a certificate is asked for.";
        "auto-tls" auto_tls: Bool = "false",
            "Make a certificate for clients if there is none.";
        "peer-cert-file" peer_cert_file: Text = "",
            "File with the certificate shown to other members.";
        "peer-key-file" peer_key_file: Text = "",
            "File with the key of it.";
        "peer-client-cert-file" peer_client_cert_file: Text = "",
            "File with the certificate shown to members that are dialled.";
        "peer-client-key-file" peer_client_key_file: Text = "",
            "File with the key of it.";
        "peer-client-cert-auth" peer_client_cert_auth: Bool = "false",
            "Let in only members with a certificate that is trusted.";
        "peer-trusted-ca-file" peer_trusted_ca_file: Text = "",
            "File with the authorities trusted for members; given, a certificate is asked for.";
        "peer-cert-allowed-cn" peer_cert_allowed_cn: List = "",
            "Common names of which a certificate of a member must have one.";
        "peer-cert-allowed-hostname" peer_cert_allowed_hostname: List = "",
            "Names of which a certificate of a member must have one.";
        "peer-auto-tls" peer_auto_tls: Bool = "false",
            "Make a certificate for other members if there is none.";
        "self-signed-cert-validity" self_signed_cert_validity: Uint = "1",
            "Years that certificates made here are good for.";
        "peer-crl-file" peer_crl_file: Text = "",
            "File with the certificates of members that were revoked.";
        "peer-skip-client-san-verification" peer_skip_client_san_verification: Bool = "false",
            "Do not compare the names in the certificate of a member with where it comes from.";
        "cipher-suites" cipher_suites: List = "",
            "Cipher suites of TLS 1.2 to offer (all sound ones if none is given).";
        "tls-min-version" tls_min_version: Text = "TLS1.2",
            "Oldest TLS: TLS1.2 or TLS1.3.";
        "tls-max-version" tls_max_version: Text = "",
            "Newest TLS: TLS1.2 or TLS1.3 (the newest there is if none is given).";
        "cors" cors: Urls(ALLOW_ALL) = "*",
            "Origins that web pages may come from (* for any).";
        "host-whitelist" host_whitelist: Words = "*",
            "Names that requests without TLS may be addressed to (* for any).";
    }
    "Auth" {
        "auth-token" auth_token: Text = "simple",
            "Kind of tokens, and their options: simple, or jwt with its keys.";
        "bcrypt-cost" bcrypt_cost: Uint = "10",
            "How hard hashing a password is, from 4 to 31.";
        "auth-token-ttl" auth_token_ttl: Uint = "300",
            "Seconds that a simple token lives without being used.";
    }
    "Profiling and Monitoring" {
        "enable-pprof" enable_pprof: Bool = "false",
            "Serve profiles under /debug/pprof/.";
        "metrics" metrics: Text = "basic",
            "How much is measured; extensive adds the times of calls.";
        "listen-metrics-urls" listen_metrics_urls: Urls(ALLOW_NONE) = "",
            "More URLs to listen on, for metrics and health only.";
    }
    "Logging" {
        "logger" logger: Text = "zap",
            "Shape of log lines; zap is all there is.";
        "log-outputs" log_outputs: Words = "default",
            "Where logs go: stderr, stdout, systemd/journal, or files.";
        "log-level" log_level: Text = "info",
            "Least grave lines that are written: debug, info, warn, error, panic or fatal.";
        "log-format" log_format: Text = "json",
            "json, or console to be read.";
        "enable-log-rotation" enable_log_rotation: Bool = "false",
            "Start a new log file when one is full; takes one file in --log-outputs.";
        "log-rotation-config-json" log_rotation_config_json: Text = r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#,
            "When a file is full (MB), and how long (days) and how many are kept (0 for all).";
        "warning-unary-request-duration" warning_unary_request_duration: Duration = "300ms",
            "Time that a request may take before the log tells (0 is the default).";
    }
    "Distributed tracing" {
        "enable-distributed-tracing" enable_distributed_tracing: Bool = "false",
            "Send traces to a collector.";
        "distributed-tracing-address" distributed_tracing_address: Text = "localhost:4317",
            "Where the collector listens.";
        "distributed-tracing-service-name" distributed_tracing_service_name: Text = "etcd",
            "Name of the service in traces, the same for all members.";
        "distributed-tracing-instance-id" distributed_tracing_instance_id: Text = "",
            "Name of this member in traces.";
        "distributed-tracing-sampling-rate" distributed_tracing_sampling_rate: Int = "0",
            "Requests traced, of a million.";
    }
    "Features" {
        "corrupt-check-time" corrupt_check_time: Duration = "1h",
            "Time between two comparisons with the other members (0 for none).";
        "compact-hash-check-time" compact_hash_check_time: Duration = "1m",
            "Time between two comparisons of what was compacted.";
        "compaction-batch-limit" compaction_batch_limit: Int = "0",
            "Revisions compacted in one go (0 is 1000).";
        "compaction-sleep-interval" compaction_sleep_interval: Duration = "0",
            "Pause between two such goes (0 is 10ms).";
        "watch-progress-notify-interval" watch_progress_notify_interval: Duration = "0",
            "Time between two progress notes to a watcher that asked for them (0 is 10m; at least 100ms).";
        "warning-apply-duration" warning_apply_duration: Duration = "100ms",
            "Time that applying a request may take before the log tells.";
        "bootstrap-defrag-threshold-megabytes" bootstrap_defrag_threshold_megabytes: Uint = "0",
            "Defragment at the start if that frees as much (0 for never).";
        "downgrade-check-time" downgrade_check_time: Duration = "5s",
            "Time between two looks at whether a downgrade is done (0 for none).";
    }
    "Unsafe" {
        "force-new-cluster" force_new_cluster: Bool = "false",
            "Make a cluster of one out of a member of a lost cluster.";
        "unsafe-no-fsync" unsafe_no_fsync: Bool = "false",
            "Do not wait for the disk. A power cut then costs data.";
    }
    "General" {
        "config-file" config_file: Text = "",
            "File with the configuration. What else is on the command line and in the environment is then left out.";
        "version" version: Bool = "false",
            "Print the version, and end.";
    }
}

impl Flags {
    /// Every flag at its default.
    pub fn new() -> Self {
        let mut flags = Self::default();
        for flag in known().filter(|flag| !flag.default.is_empty()) {
            flags.set(&flag, flag.default).expect("the defaults in the table parse");
        }
        flags.given.clear();
        flags
    }

    /// Whether somebody set a flag.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }
}

/// All flags, in the order of names, with those that are forgotten.
pub(crate) fn by_name() -> Vec<Flag> {
    let mut flags: Vec<Flag> = known().chain(IGNORED.iter().map(|name| ignored(name))).collect();
    flags.sort_by_key(|flag| flag.name);
    flags
}

/// The flag of a name.
pub(crate) fn find(name: &str) -> Option<Flag> {
    let forgotten = || IGNORED.iter().find(|ignored| **ignored == name).map(|name| ignored(name));
    known().find(|flag| flag.name == name).or_else(forgotten)
}

/// The flags that mean something.
pub(crate) fn known() -> impl Iterator<Item = Flag> {
    GROUPS.iter().flat_map(|group| group.flags.iter().copied())
}

fn ignored(name: &'static str) -> Flag {
    Flag { name, default: "", slot: Slot::Ignored, help: "" }
}

#[cfg(test)]
mod tests {
    use super::{Flags, by_name, find, known};

    /// etcd 3.7.1 has as many, and 15 that it forgets.
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
    fn defaults_parse_and_are_given_by_nobody() {
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
