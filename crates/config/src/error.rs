//! Why a configuration is refused, in etcd's words where etcd has some.

use crate::gates::GateError;
use crate::url::AddressError;
use gocompat::{GoDuration, quote};

/// What is wrong with an argument or a variable that is any bytes.
pub(crate) const NO_TEXT: &str = "not UTF-8";

/// A configuration that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Something on the command line that is no flag.
    #[error("{} is not a valid flag", quote(.0))]
    Stray(String),
    /// A variable of the environment with a bad value.
    #[error("invalid value {value} for {variable}: {reason}")]
    Variable {
        /// The value, in quotes.
        value: String,
        /// The variable.
        variable: String,
        /// What the flag would have said.
        reason: String,
    },
    /// A variable is set, and so is the flag it stands for.
    #[error(
        "conflicting environment variable is shadowed by corresponding command-line flag \
         (either unset environment variable or disable flag))"
    )]
    Shadowed(String),

    /// The configuration file cannot be read.
    #[error("{0}")]
    File(String),
    /// The configuration file is no YAML.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(String),
    /// A key of the configuration file has a value of the wrong type.
    #[error("error unmarshaling JSON: while decoding JSON: json: {0}")]
    Type(String),
    /// Feature gates in the configuration file.
    #[error(transparent)]
    Gates(#[from] GateError),
    /// The security of peers is there, and is no map.
    #[error("invalid peer-transport-security")]
    PeerSecurity,

    /// Gone with etcd 3.5.
    #[error("--logger=capnslog is removed in v3.5")]
    Capnslog,
    /// There is only one.
    #[error("unknown logger option {}", quote(.0))]
    Logger(String),
    /// The default output stands alone.
    #[error("multi logoutput for \"default\" is not supported yet")]
    DefaultOutput,
    /// The journal stands alone.
    #[error(
        "running with systemd/journal but other '--log-outputs' values ({0}) are configured with 'default'; \
         override 'default' value with something else"
    )]
    JournalOutput(String),
    /// Rotation is for one file.
    #[error("--log-outputs requires a single file path when --log-rotate-config-json is defined")]
    RotationOutput,
    /// The configuration of rotation is no JSON.
    #[error("improperly formatted log rotation config: {0}")]
    RotationSyntax(String),
    /// The configuration of rotation has a value of the wrong type.
    #[error("invalid log rotation config: json: {0}")]
    RotationType(String),
    /// The outputs cannot be opened.
    #[error("{0}")]
    LogOutput(String),
    /// No such level.
    #[error("unrecognized level: {}", quote(.0))]
    LogLevel(String),
    /// No such format.
    #[error("unknown log format: {0}, supported values json, console")]
    LogFormat(String),

    /// Names cannot be listened on, but for `localhost`.
    #[error("expected IP in URL for binding ({0})")]
    BindName(String),
    /// A URL for other members without a host.
    #[error(
        "--initial-advertise-peer-urls {urls} must be \"host:port\" (unexpected empty host ({url}))"
    )]
    AdvertisePeerHost {
        /// All of them, in quotes.
        urls: String,
        /// The one.
        url: String,
    },
    /// A URL for clients without a host.
    #[error(
        "--advertise-client-urls {urls} must be in the format \"host:port\", \"unix:/path/to/socket\" or \
         \"unixs:/path/to/socket\" (unexpected empty host ({url}))"
    )]
    AdvertiseClientHost {
        /// All of them, in quotes.
        urls: String,
        /// The one.
        url: String,
    },
    /// Neither new nor existing.
    #[error("unexpected clusterState {}", quote(.0))]
    ClusterState(String),
    /// Two ways to find the other members.
    #[error(
        "multiple discovery or bootstrap flags are set. \
         Choose one of \"initial-cluster\", \"discovery-endpoints\" or \"discovery-srv\""
    )]
    BootstrapConflict,
    /// One without the other.
    #[error("both --discovery-token and --discovery-endpoints must be set")]
    DiscoveryHalf,
    /// Nothing between two commas.
    #[error("--discovery-endpoints must not contain empty endpoints")]
    DiscoveryEmpty,
    /// Gone with etcd 3.6.
    #[error("v2 proxy is deprecated, and --discovery-fallback can't be configured as \"proxy\"")]
    DiscoveryProxy,
    /// No time between heartbeats.
    #[error("--heartbeat-interval must be >0 (set to 0ms)")]
    Heartbeat,
    /// No time until an election.
    #[error("--election-timeout must be >0 (set to 0ms)")]
    Election,
    /// Heartbeats would come too late.
    #[error(
        "--election-timeout[{election}ms] should be at least as 5 times as --heartbeat-interval[{heartbeat}ms]"
    )]
    ElectionShort {
        /// In milliseconds.
        election: u64,
        /// In milliseconds.
        heartbeat: u64,
    },
    /// A cluster without a leader for that long.
    #[error("--election-timeout[{election}ms] is too long, and should be set less than {max}ms")]
    ElectionLong {
        /// In milliseconds.
        election: u64,
        /// In milliseconds.
        max: u64,
    },
    /// Listening somewhere else, and telling nobody.
    #[error("--advertise-client-urls is required when --listen-client-urls is set explicitly")]
    AdvertiseClientUnset,
    /// No mode.
    #[error("undefined auto-compaction-mode")]
    CompactionModeEmpty,
    /// No such mode.
    #[error("unknown auto-compaction-mode {}", quote(.0))]
    CompactionMode(String),
    /// A sampling rate that is none.
    #[error("distributed tracing configurition is not valid: (tracing sampling rate must be {0})")]
    TracingRate(&'static str),
    /// One gate needs another.
    #[error(
        "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint"
    )]
    CheckpointPersist,
    /// Comparing all the time.
    #[error("--compact-hash-check-time must be >0 (set to {0})")]
    CompactHashCheckTime(GoDuration),
    /// No such TLS.
    #[error("unexpected TLS version {} (must be one of: TLS1.2, TLS1.3)", quote(.0))]
    TlsVersion(String),
    /// No TLS is left.
    #[error("min version ({min}) is greater than max version ({max})")]
    TlsVersions {
        /// The oldest.
        min: String,
        /// The newest.
        max: String,
    },
    /// TLS 1.3 has no choice.
    #[error("cipher suites cannot be configured when only TLS1.3 is enabled")]
    CipherSuites13,

    /// No such cipher suite.
    #[error("unexpected TLS cipher suite {}", quote(.0))]
    CipherSuite(String),
    /// Cipher suites that do not work out together.
    #[error(transparent)]
    CipherSuites(#[from] tls::CipherSuiteError),
    /// TLS without a certificate.
    #[error(
        "TLS key/cert (--cert-file, --key-file) must be provided for client url {0} with HTTPS scheme"
    )]
    ClientTls(String),
    /// TLS without a certificate, for metrics.
    #[error(
        "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url"
    )]
    MetricsTls,
    /// One place for two servers.
    #[error(
        "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url {0}"
    )]
    BothOnOneUrl(String),
    /// A port that is none.
    #[error("listen tcp: {0}")]
    Port(#[from] AddressError),
    /// A retention that is neither a number nor a duration.
    #[error("error parsing CompactionRetention: {0}")]
    Retention(String),

    /// Less than nothing, where etcd would go on and spin.
    #[error("--{flag} must not be negative (set to {value})")]
    Negative {
        /// The flag.
        flag: &'static str,
        /// What it was set to.
        value: String,
    },
    /// No time at all, with which etcd would end as soon as it has a peer.
    #[error("--{flag} must be >0 (set to {value})")]
    NotPositive {
        /// The flag.
        flag: &'static str,
        /// What it was set to.
        value: String,
    },
    /// What Bowline cannot do yet.
    #[error("{}", .0.join("; "))]
    Unsupported(Vec<String>),
}
