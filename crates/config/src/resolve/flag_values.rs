//! The flags as etcd logs them at a start.

use gocompat::GoDuration;

use super::{QUOTA_BYTES, retention_nanos};
use crate::error::ConfigError;
use crate::flags::Flags;
use crate::host_info::HostInfo;
use crate::resolved::{DiscoveryFlags, FlagValues};

/// Keeps the values that the rest of the configuration holds in another form.
pub(super) fn flag_values(flags: &Flags, host_info: &HostInfo) -> Result<FlagValues, ConfigError> {
    let mode = &flags.auto_compaction_mode;
    let retention = retention_nanos(mode, &flags.auto_compaction_retention)?;
    Ok(FlagValues {
        arch: host_info.arch,
        snapshot_count: flags.snapshot_count,
        snapshot_catchup_entries: flags.snapshot_catchup_entries,
        quota_backend_bytes: match flags.quota_backend_bytes {
            0 => i64::try_from(QUOTA_BYTES).unwrap_or(i64::MAX),
            bytes => bytes,
        },
        auto_compaction_mode: mode.clone(),
        auto_compaction_retention: GoDuration::from_nanos(retention),
        discovery: discovery(flags),
    })
}

fn discovery(flags: &Flags) -> DiscoveryFlags {
    DiscoveryFlags {
        token: flags.discovery_token.clone(),
        endpoints: flags.discovery_endpoints.clone(),
        dial_timeout: flags.discovery_dial_timeout,
        request_timeout: flags.discovery_request_timeout,
        keepalive_time: flags.discovery_keepalive_time,
        keepalive_timeout: flags.discovery_keepalive_timeout,
        insecure_transport: flags.discovery_insecure_transport,
        insecure_skip_tls_verify: flags.discovery_insecure_skip_tls_verify,
        cert: flags.discovery_cert.clone(),
        key: flags.discovery_key.clone(),
        cacert: flags.discovery_cacert.clone(),
        // The flag may contain a password: `name:password`.
        user: flags.discovery_user.split(':').next().unwrap_or_default().to_owned(),
    }
}
