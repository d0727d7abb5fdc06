//! Configuration errors, with etcd's texts where etcd has them.

use crate::gates::GateError;
use crate::url::AddressError;
use gocompat::{GoDuration, quote};

/// The reason to reject an argument or variable that is not a text.
pub(crate) const NO_TEXT: &str = "not UTF-8";

/// A rejected configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An argument that is not a flag.
    #[error("{} is not a valid flag", quote(.0))]
    Stray(String),
    /// An environment variable with a bad value.
    #[error("invalid value {value} for {variable}: {reason}")]
    Variable {
        /// The value, in quotes.
        value: String,
        /// The variable.
        variable: String,
        /// The error of the flag.
        reason: String,
    },
    /// An environment variable and its flag are both set.
    #[error(
        "conflicting environment variable is shadowed by corresponding command-line flag \
         (either unset environment variable or disable flag))"
    )]
    Shadowed(String),

    /// The configuration file cannot be read.
    #[error("{0}")]
    File(String),
    /// The configuration file is not YAML.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(String),
    /// A key of the configuration file has a value of the wrong type.
    #[error("error unmarshaling JSON: while decoding JSON: json: {0}")]
    Type(String),
    /// Bad feature gates in the configuration file.
    #[error(transparent)]
    Gates(#[from] GateError),
    /// `peer-transport-security` in the file is not a map.
    #[error("invalid peer-transport-security")]
    PeerSecurity,

    /// A logger that etcd 3.5 removed.
    #[error("--logger=capnslog is removed in v3.5")]
    Capnslog,
    /// An unknown logger.
    #[error("unknown logger option {}", quote(.0))]
    Logger(String),
    /// The default output combined with another one.
    #[error("multi logoutput for \"default\" is not supported yet")]
    DefaultOutput,
    /// The journal combined with another output.
    #[error(
        "running with systemd/journal but other '--log-outputs' values ({0}) are configured with 'default'; \
         override 'default' value with something else"
    )]
    JournalOutput(String),
    /// Rotation without exactly one file output.
    #[error("--log-outputs requires a single file path when --log-rotate-config-json is defined")]
    RotationOutput,
    /// The rotation configuration is not JSON.
    #[error("improperly formatted log rotation config: {0}")]
    RotationSyntax(String),
    /// The rotation configuration has a value of the wrong type.
    #[error("invalid log rotation config: json: {0}")]
    RotationType(String),
    /// A log output cannot be opened.
    #[error("{0}")]
    LogOutput(String),
    /// An unknown log level.
    #[error("unrecognized level: {}", quote(.0))]
    LogLevel(String),
    /// An unknown log format.
    #[error("unknown log format: {0}, supported values json, console")]
    LogFormat(String),

    /// A listen URL with a host name other than `localhost`.
    #[error("expected IP in URL for binding ({0})")]
    BindName(String),
    /// An advertised peer URL without a host.
    #[error(
        "--initial-advertise-peer-urls {urls} must be \"host:port\" (unexpected empty host ({url}))"
    )]
    AdvertisePeerHost {
        /// All URLs, in quotes.
        urls: String,
        /// The URL without a host.
        url: String,
    },
    /// An advertised client URL without a host.
    #[error(
        "--advertise-client-urls {urls} must be in the format \"host:port\", \"unix:/path/to/socket\" or \
         \"unixs:/path/to/socket\" (unexpected empty host ({url}))"
    )]
    AdvertiseClientHost {
        /// All URLs, in quotes.
        urls: String,
        /// The URL without a host.
        url: String,
    },
    /// A cluster state other than new and existing.
    #[error("unexpected clusterState {}", quote(.0))]
    ClusterState(String),
    /// More than one way to find the initial members.
    #[error(
        "multiple discovery or bootstrap flags are set. \
         Choose one of \"initial-cluster\", \"discovery-endpoints\" or \"discovery-srv\""
    )]
    BootstrapConflict,
    /// A discovery token without endpoints, or the reverse.
    #[error("both --discovery-token and --discovery-endpoints must be set")]
    DiscoveryHalf,
    /// An empty discovery endpoint.
    #[error("--discovery-endpoints must not contain empty endpoints")]
    DiscoveryEmpty,
    /// A fallback that etcd 3.6 removed.
    #[error("v2 proxy is deprecated, and --discovery-fallback can't be configured as \"proxy\"")]
    DiscoveryProxy,
    /// A heartbeat interval of zero.
    #[error("--heartbeat-interval must be >0 (set to 0ms)")]
    Heartbeat,
    /// An election timeout of zero.
    #[error("--election-timeout must be >0 (set to 0ms)")]
    Election,
    /// An election timeout below five heartbeat intervals.
    #[error(
        "--election-timeout[{election}ms] should be at least as 5 times as --heartbeat-interval[{heartbeat}ms]"
    )]
    ElectionShort {
        /// The election timeout in milliseconds.
        election: u64,
        /// The heartbeat interval in milliseconds.
        heartbeat: u64,
    },
    /// An election timeout above the maximum.
    #[error("--election-timeout[{election}ms] is too long, and should be set less than {max}ms")]
    ElectionLong {
        /// The election timeout in milliseconds.
        election: u64,
        /// The maximum in milliseconds.
        max: u64,
    },
    /// Client listen URLs without advertised URLs.
    #[error("--advertise-client-urls is required when --listen-client-urls is set explicitly")]
    AdvertiseClientUnset,
    /// An empty auto-compaction mode.
    #[error("undefined auto-compaction-mode")]
    CompactionModeEmpty,
    /// An unknown auto-compaction mode.
    #[error("unknown auto-compaction-mode {}", quote(.0))]
    CompactionMode(String),
    /// A sampling rate out of range.
    #[error("distributed tracing configurition is not valid: (tracing sampling rate must be {0})")]
    TracingRate(&'static str),
    /// A feature gate without the gate that it requires.
    #[error(
        "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint"
    )]
    CheckpointPersist,
    /// A hash check interval that is not positive.
    #[error("--compact-hash-check-time must be >0 (set to {0})")]
    CompactHashCheckTime(GoDuration),
    /// An unknown TLS version.
    #[error("unexpected TLS version {} (must be one of: TLS1.2, TLS1.3)", quote(.0))]
    TlsVersion(String),
    /// A minimum TLS version above the maximum.
    #[error("min version ({min}) is greater than max version ({max})")]
    TlsVersions {
        /// The minimum version.
        min: String,
        /// The maximum version.
        max: String,
    },
    /// Cipher suites with TLS 1.3 only, where they cannot be chosen.
    #[error("cipher suites cannot be configured when only TLS1.3 is enabled")]
    CipherSuites13,

    /// An unknown cipher suite.
    #[error("unexpected TLS cipher suite {}", quote(.0))]
    CipherSuite(String),
    /// Cipher suites that do not work together.
    #[error(transparent)]
    CipherSuites(#[from] tls::CipherSuiteError),
    /// A secure client URL without a certificate.
    #[error(
        "TLS key/cert (--cert-file, --key-file) must be provided for client url {0} with HTTPS scheme"
    )]
    ClientTls(String),
    /// A secure metrics URL without a certificate.
    #[error(
        "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url"
    )]
    MetricsTls,
    /// An address given for gRPC and again for HTTP only.
    #[error(
        "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url {0}"
    )]
    BothOnOneUrl(String),
    /// A port that does not fit 16 bits.
    #[error("listen tcp: {0}")]
    Port(#[from] AddressError),
    /// A retention that is neither a number nor a duration.
    #[error("error parsing CompactionRetention: {0}")]
    Retention(String),

    /// A negative value, with which etcd would run a loop without a pause.
    #[error("--{flag} must not be negative (set to {value})")]
    Negative {
        /// The flag.
        flag: &'static str,
        /// The value of the flag.
        value: String,
    },
    /// A duration that is not positive, with which etcd would fail at its first peer.
    #[error("--{flag} must be >0 (set to {value})")]
    NotPositive {
        /// The flag.
        flag: &'static str,
        /// The value of the flag.
        value: String,
    },
}
