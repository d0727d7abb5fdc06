//! Log messages about the configuration, collected until logging is started.

use std::net::IpAddr;

use gocompat::GoDuration;
use logging::FATAL_TARGET as FATAL;
use tracing::{error, info, warn};

use crate::error::ConfigError;
use crate::resolve::tls::Audience;

/// A message for the log, with etcd's text where etcd has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// An unsupported architecture that the operator allowed.
    ArchAllowed {
        /// The architecture.
        arch: String,
    },
    /// An unsupported architecture.
    ArchRefused {
        /// The architecture.
        arch: String,
    },
    /// The variable `ETCD_VERSION`, which is ignored.
    SpecialVariable {
        /// The variable.
        key: String,
        /// The value.
        value: String,
    },
    /// An environment variable that set a flag.
    VariableUsed {
        /// The variable.
        name: String,
        /// The value.
        value: String,
    },
    /// An environment variable with the prefix that is not a flag.
    UnknownVariable {
        /// The variable with its value: `ETCD_NMAE=m1`.
        variable: String,
    },
    /// An unknown key of the configuration file.
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A timeout that was raised to its minimum.
    TimeoutRaised {
        /// The flag.
        flag: &'static str,
        /// The new value.
        to: GoDuration,
    },
    /// There is no separate listener for HTTP.
    SinglePort,
    /// Lease checkpoints are replicated but not persisted.
    CheckpointNotPersisted,
    /// The member has the default name.
    DefaultName {
        /// The name.
        name: String,
    },
    /// A configuration file was loaded.
    FileLoaded {
        /// The path of the file.
        path: String,
    },
    /// A deprecated flag was given.
    Deprecated(&'static str),
    /// The arguments of the process.
    Running {
        /// The arguments, beginning with the name of the program.
        args: Vec<String>,
    },
    /// The configuration is rejected.
    Rejected(ConfigError),
    /// Advertised client URLs are missing.
    AdvertiseUnset(ConfigError),
    /// The configuration is valid, but a member cannot start with it.
    NotStarted(ConfigError),
    /// The address of the default route is advertised.
    DefaultHost {
        /// The address.
        host: String,
    },
    /// There is no default route.
    NoDefaultHost {
        /// The cause.
        error: String,
    },
    /// The default data directory is used.
    DefaultDataDir {
        /// The data directory.
        dir: String,
    },
    /// The maximum request size exceeds the recommendation.
    LargeRequests {
        /// The maximum size.
        bytes: u64,
    },
    /// The quota exceeds the recommendation.
    LargeQuota {
        /// The quota.
        bytes: u64,
    },
    /// The array freelist, of which there is no implementation.
    ArrayFreelist,
    /// An invalid bcrypt cost.
    BcryptCost {
        /// The given cost.
        given: u64,
    },
    /// The snapshot count is zero, so the default is used.
    SnapshotCount {
        /// The new value.
        updated: u64,
    },
    /// The number of catch-up entries is zero, so the default is used.
    CatchUpEntries {
        /// The new value.
        updated: u64,
    },
    /// A certificate was given, so none is generated.
    AutoTlsIgnored(Audience),
    /// A certificate is generated, and the other TLS flags are ignored.
    AutoTlsAlone {
        /// The other end of the connections.
        audience: Audience,
        /// The flags that have no effect.
        ignored: Vec<&'static str>,
    },
    /// The search for an address to dial peers from.
    LocalAddress {
        /// The advertised peer URLs.
        urls: Vec<String>,
        /// The address, if one was found.
        address: Option<IpAddr>,
    },
    /// The progress notification interval was raised to its minimum.
    ProgressInterval {
        /// The new value.
        min: GoDuration,
    },
}

/// etcd's recommended maximum size of a request, in bytes.
pub(crate) const REQUEST_BYTES_RECOMMENDED: u64 = 10 * 1024 * 1024;
/// etcd's recommended maximum size of the database, in bytes.
pub(crate) const QUOTA_BYTES_RECOMMENDED: u64 = 8 * 1024 * 1024 * 1024;
/// The valid bcrypt costs.
pub(crate) const BCRYPT_COSTS: std::ops::RangeInclusive<u64> = 4..=31;
/// The default bcrypt cost.
pub(crate) const BCRYPT_COST: u32 = 10;

impl Notice {
    /// Returns whether etcd logs it before it opens the configured outputs.
    pub(crate) fn is_before_logs(&self) -> bool {
        matches!(
            self,
            Self::ArchAllowed { .. }
                | Self::SpecialVariable { .. }
                | Self::VariableUsed { .. }
                | Self::UnknownVariable { .. }
                | Self::UnknownKey { .. }
                | Self::TimeoutRaised { .. }
        )
    }

    /// Logs the message.
    pub fn log(&self) {
        match self {
            Self::ArchAllowed { arch } => {
                info!(
                    arch,
                    "running etcd on unsupported architecture since ETCD_UNSUPPORTED_ARCH is set"
                );
            }
            Self::ArchRefused { arch } => error!(
                arch,
                "Refusing to run etcd on unsupported architecture since ETCD_UNSUPPORTED_ARCH is not set"
            ),
            Self::SpecialVariable { key, value } => {
                warn!(key, value, "cannot set special environment variable");
            }
            Self::VariableUsed { name, value } => info!(
                variable_name = name,
                variable_value = value,
                "recognized and used environment variable"
            ),
            Self::UnknownVariable { variable } => {
                warn!(environment_variable = variable, "unrecognized environment variable");
            }
            Self::UnknownKey { key } => warn!(key, "unrecognized key in the configuration file"),
            Self::TimeoutRaised { flag, to } => info!("{flag} increased to minimum value: {to}"),
            Self::SinglePort => warn!(
                "Running http and grpc server on single port. This is not recommended for production."
            ),
            Self::CheckpointNotPersisted => warn!(
                "Detected that checkpointing is enabled without persistence. \
                 Consider enabling feature gate LeaseCheckpointPersist"
            ),
            Self::DefaultName { name } => warn!(
                name,
                "it isn't recommended to use default name, please set a value for --name. \
                 Note that etcd might run into issue when multiple members have the same default name"
            ),
            Self::FileLoaded { path } => info!(
                path,
                "loaded server configuration, other configuration command line flags and \
                 environment variables will be ignored if provided"
            ),
            Self::Deprecated(text) => warn!("{text}"),
            Self::Running { args } => info!(?args, "Running: "),
            Self::Rejected(error @ ConfigError::Shadowed(variable)) => {
                error!(target: FATAL, environment_variable = variable, "{error}");
            }
            Self::Rejected(error) => warn!(%error, "failed to verify flags"),
            Self::AdvertiseUnset(error) => warn!(%error, "advertise client URLs are not set"),
            Self::NotStarted(error) => error!(target: FATAL, %error, "discovery failed"),
            Self::DefaultHost { host } => info!(host, "detected default host for advertise"),
            Self::NoDefaultHost { error } => info!(error, "failed to detect default host"),
            Self::DefaultDataDir { dir } => {
                warn!(data_dir = dir, "'data-dir' was empty; using default");
            }
            Self::LargeRequests { bytes } => warn!(
                max_request_bytes = bytes,
                max_request_size = human_bytes(*bytes),
                recommended_request_bytes = REQUEST_BYTES_RECOMMENDED,
                recommended_request_size = human_bytes(REQUEST_BYTES_RECOMMENDED),
                "exceeded recommended request limit"
            ),
            Self::LargeQuota { bytes } => warn!(
                quota_size_bytes = bytes,
                quota_size = human_bytes(*bytes),
                quota_maximum_size_bytes = QUOTA_BYTES_RECOMMENDED,
                quota_maximum_size = human_bytes(QUOTA_BYTES_RECOMMENDED),
                "quota exceeds the maximum value"
            ),
            Self::ArrayFreelist => warn!(
                "--backend-bbolt-freelist-type=array changes nothing: free pages are always kept by size, as with map"
            ),
            Self::BcryptCost { given } => warn!(
                min_cost = BCRYPT_COSTS.start(),
                max_cost = BCRYPT_COSTS.end(),
                default_cost = BCRYPT_COST,
                given_cost = given,
                "use default bcrypt cost instead of the invalid given cost"
            ),
            Self::SnapshotCount { updated } => info!(
                given_snapshot_count = 0,
                updated_snapshot_count = updated,
                "updating snapshot-count to default"
            ),
            Self::CatchUpEntries { updated } => info!(
                given_snapshot_catchup_entries = 0,
                updated_snapshot_catchup_entries = updated,
                "updating snapshot catch-up entries to default"
            ),
            Self::AutoTlsIgnored(Audience::Clients) => {
                warn!("ignoring client auto TLS since certs given");
            }
            Self::AutoTlsIgnored(Audience::Peers) => {
                warn!("ignoring peer auto TLS since certs given");
            }
            Self::AutoTlsAlone { audience: Audience::Clients, ignored } => warn!(
                ?ignored,
                "--auto-tls ignores these flags: clients are accepted without a certificate"
            ),
            Self::AutoTlsAlone { audience: Audience::Peers, ignored } => warn!(
                ?ignored,
                "--peer-auto-tls ignores these flags: peers are accepted without a certificate"
            ),
            Self::LocalAddress { urls, address } => {
                info!(
                    advertise_peer_urls = ?urls,
                    "searching for a suitable member local address in AdvertisePeerURLs"
                );
                match address {
                    // Compat: etcd spells this one field in camel case.
                    Some(address) => info!(LocalAddr = %address, "setting member local address"),
                    None => warn!(
                        advertise_peer_urls = ?urls,
                        "unable to set a member local address due to lack of suitable local addresses"
                    ),
                }
            }
            Self::ProgressInterval { min } => warn!(
                min_watch_progress_notify_interval = %min,
                "adjusting watch progress notify interval to minimum period"
            ),
        }
    }
}

/// Prints a number of bytes in powers of 1000, as go-humanize does: `10 MB`, `2.1 GB`.
fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut unit, mut scale) = (0, 1_u64);
    while bytes / scale >= 1000 && unit + 1 < UNITS.len() {
        (unit, scale) = (unit + 1, scale * 1000);
    }
    let tenths = (u128::from(bytes) * 10 + u128::from(scale) / 2) / u128::from(scale);
    match tenths {
        _ if unit == 0 => format!("{bytes} B"),
        0..100 => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
        // Rounds half to even, as Go does.
        _ => format!("{} {}", (tenths + 4 + (tenths / 10) % 2) / 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::human_bytes;

    #[test]
    fn bytes_print_as_in_go_humanize() {
        let cases = [
            (82, "82 B"),
            (1_000, "1.0 kB"),
            (10 * 1024 * 1024, "10 MB"),
            (11_500_000, "12 MB"),
            (11_600_000, "12 MB"),
            (12_500_000, "12 MB"),
            (2 * 1024 * 1024 * 1024, "2.1 GB"),
            (8 * 1024 * 1024 * 1024, "8.6 GB"),
            (u64::MAX, "18 EB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
