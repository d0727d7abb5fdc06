//! What the log is to be told about the configuration, once there is a log.

use std::net::IpAddr;

use gocompat::GoDuration;
use logging::FATAL_TARGET as FATAL;
use tracing::{error, info, warn};

use crate::error::ConfigError;
use crate::resolve::tls::Audience;

/// Something for the log, in etcd's words where etcd has some.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Runs where nobody promised that it would.
    ArchAllowed {
        /// The architecture.
        arch: String,
    },
    /// Would run where nobody promised that it would.
    ArchRefused {
        /// The architecture.
        arch: String,
    },
    /// A variable that would be a flag which nobody can mean.
    SpecialVariable {
        /// The variable.
        key: String,
        /// Its value.
        value: String,
    },
    /// A variable was taken.
    VariableUsed {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// A variable that looks like a flag.
    UnknownVariable {
        /// With its value: `ETCD_NMAE=m1`.
        variable: String,
    },
    /// A key of the configuration file that stands for nothing.
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A timeout that was too short.
    TimeoutRaised {
        /// Its flag.
        flag: &'static str,
        /// What it is now.
        to: GoDuration,
    },
    /// No listener for HTTP alone.
    SinglePort,
    /// Leases are told of, and forgotten.
    CheckpointNotKept,
    /// Nobody gave the member a name.
    DefaultName {
        /// Its name.
        name: String,
    },
    /// A configuration file was taken.
    FileLoaded {
        /// Where it is.
        path: String,
    },
    /// A flag that will go away.
    Deprecated(&'static str),
    /// How the process was started.
    Running {
        /// With the name of the program.
        args: Vec<String>,
    },
    /// The configuration is refused.
    Refused(ConfigError),
    /// A hint at how to mend that.
    AdvertiseUnset(ConfigError),
    /// The configuration is sound, but cannot be started with.
    NotStarted(ConfigError),
    /// An address of this machine was found to advertise.
    DefaultHost {
        /// The address.
        host: String,
    },
    /// None was found.
    NoDefaultHost {
        /// Why.
        error: String,
    },
    /// Nobody said where the data is to be.
    DefaultDataDir {
        /// Where it is.
        dir: String,
    },
    /// Requests may be larger than is good.
    LargeRequests {
        /// As large as that.
        bytes: u64,
    },
    /// The database may be larger than is good.
    LargeQuota {
        /// As large as that.
        bytes: u64,
    },
    /// A cost that bcrypt does not have.
    BcryptCost {
        /// The cost.
        given: u64,
    },
    /// Entries until a snapshot: none were said.
    SnapshotCount {
        /// What it is now.
        updated: u64,
    },
    /// Entries behind a snapshot: none were said.
    CatchUpEntries {
        /// What it is now.
        updated: u64,
    },
    /// A certificate was given, so none is made.
    AutoTlsIgnored(Audience),
    /// A certificate is made, and nothing else about TLS is heeded.
    AutoTlsAlone {
        /// Who is at the other end.
        audience: Audience,
        /// The flags that have no effect.
        ignored: Vec<&'static str>,
    },
    /// An address to call other members from was looked for.
    LocalAddress {
        /// In these.
        urls: Vec<String>,
        /// And found.
        address: Option<IpAddr>,
    },
    /// Progress notes would come too often.
    ProgressInterval {
        /// What it is now.
        min: GoDuration,
    },
}

/// The most that a request should have, in bytes; etcd's recommendation.
pub(crate) const REQUEST_BYTES_RECOMMENDED: u64 = 10 * 1024 * 1024;
/// The most that a database should have, in bytes; etcd's recommendation.
pub(crate) const QUOTA_BYTES_RECOMMENDED: u64 = 8 * 1024 * 1024 * 1024;
/// The costs that bcrypt has.
pub(crate) const BCRYPT_COSTS: std::ops::RangeInclusive<u64> = 4..=31;
/// The cost if a given one is none.
pub(crate) const BCRYPT_COST: u32 = 10;

impl Notice {
    /// Whether etcd tells it before it opens the logs that were asked for.
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

    /// Tells the log. A list, with an arm for each.
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
            Self::CheckpointNotKept => warn!(
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
            Self::Refused(error @ ConfigError::Shadowed(variable)) => {
                error!(target: FATAL, environment_variable = variable, "{error}");
            }
            Self::Refused(error) => warn!(%error, "failed to verify flags"),
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
                warn!("ignoring peer auto TLS since certs given")
            }
            Self::AutoTlsAlone { audience: Audience::Clients, ignored } => warn!(
                ?ignored,
                "--auto-tls stands alone: clients are let in without a certificate, whatever these say"
            ),
            Self::AutoTlsAlone { audience: Audience::Peers, ignored } => warn!(
                ?ignored,
                "--peer-auto-tls stands alone: members are let in without a certificate, whatever these say"
            ),
            Self::LocalAddress { urls, address } => {
                info!(
                    advertise_peer_urls = ?urls,
                    "searching for a suitable member local address in AdvertisePeerURLs"
                );
                match address {
                    // Compat: only this one field of etcd's logs is written so.
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

/// A number of bytes for people, in powers of a thousand: `10 MB`, `2.1 GB`.
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
        // A half goes to the even side, as Go prints it.
        _ => format!("{} {}", (tenths + 4 + (tenths / 10) % 2) / 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::human_bytes;

    #[test]
    fn bytes_for_people() {
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
