//! The discovery flags: where the members of a new cluster are found.
//!
//! ```text
//!     --discovery-srv example.com                                 DNS records
//!     --discovery-token t --discovery-endpoints http://d:2379     a list kept by a running cluster
//! ```

use std::time::Duration;

use gocompat::GoDuration;

use crate::error::ConfigError;
use crate::flags::Flags;
use crate::resolved::{Discovery, DiscoveryService, DiscoveryUser};

/// The dial timeout if the flag is zero.
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Resolves the discovery flags.
pub(super) fn discovery(flags: &Flags) -> Result<Option<Discovery>, ConfigError> {
    if !flags.discovery_endpoints.is_empty() {
        return Ok(Some(Discovery::Service(Box::new(service(flags)?))));
    }
    let (domain, service_name) = (flags.discovery_srv.clone(), flags.discovery_srv_name.clone());
    Ok((!domain.is_empty()).then_some(Discovery::Srv { domain, service_name }))
}

fn service(flags: &Flags) -> Result<DiscoveryService, ConfigError> {
    let time = |value: GoDuration| Some(value.non_negative()).filter(|time| !time.is_zero());
    let request_timeout = time(flags.discovery_request_timeout).ok_or_else(|| {
        let value = flags.discovery_request_timeout.to_string();
        ConfigError::NotPositive { flag: "discovery-request-timeout", value }
    })?;
    Ok(DiscoveryService {
        token: flags.discovery_token.clone(),
        endpoints: flags.discovery_endpoints.clone(),
        dial_timeout: time(flags.discovery_dial_timeout).unwrap_or(DIAL_TIMEOUT),
        request_timeout,
        keepalive_time: flags.discovery_keepalive_time.non_negative(),
        keepalive_timeout: flags.discovery_keepalive_timeout.non_negative(),
        tls: tls(flags),
        request_bytes_max: limit(flags.discovery_request_bytes_max),
        answer_bytes_max: limit(flags.discovery_answer_bytes_max),
        user: DiscoveryUser {
            name: flags.discovery_user.clone(),
            password: flags.discovery_password.clone(),
            token: flags.discovery_user_token.clone(),
        },
    })
}

/// Returns a limit in bytes. Compat: as in etcd's client, zero and less are the default.
fn limit(bytes: i64) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Returns the TLS settings. Compat: as in etcd, one file or a server name is enough to use TLS,
/// even with `--discovery-insecure-transport`.
fn tls(flags: &Flags) -> Option<tls::Info> {
    let path = |text: &String| (!text.is_empty()).then(|| text.into());
    let info = tls::Info {
        cert_file: path(&flags.discovery_cert),
        key_file: path(&flags.discovery_key),
        trusted_ca_file: path(&flags.discovery_cacert),
        insecure_skip_verify: flags.discovery_insecure_skip_tls_verify,
        server_name: Some(flags.discovery_server_name.clone()).filter(|name| !name.is_empty()),
        ..tls::Info::default()
    };
    let speaks = !flags.discovery_insecure_transport || info != tls::Info::default();
    speaks.then_some(info)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::{Config, HostInfo, NoDefaultHost, parse};

    const HOST_INFO: HostInfo = HostInfo { arch: "amd64", default_host: || Err(NoDefaultHost) };

    fn config(args: &[&str]) -> Config {
        let args = std::iter::once("bowline").chain(args.iter().copied()).map(OsString::from);
        parse(args, [], &HOST_INFO).expect("valid flags").config
    }

    fn list(more: &[&str]) -> DiscoveryService {
        let flags = ["--discovery-token=t", "--discovery-endpoints=d:1,e:1"];
        match config(&[&flags, more].concat()).cluster.discovery {
            Some(Discovery::Service(settings)) => *settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_flags_configure_the_discovery_service() {
        let settings = list(&[]);
        assert_eq!((settings.token.as_str(), settings.endpoints.len()), ("t", 2));
        assert_eq!(
            (settings.dial_timeout, settings.request_timeout),
            (Duration::from_secs(2), Duration::from_secs(5))
        );
        assert_eq!((&settings.tls, &settings.user), (&None, &DiscoveryUser::default()));
        let user = list(&["--discovery-user=u", "--discovery-password=p"]).user;
        assert_eq!(
            user,
            DiscoveryUser { name: "u".into(), password: "p".into(), token: String::new() }
        );
    }

    #[test]
    fn any_tls_flag_enables_tls() {
        assert_eq!(list(&["--discovery-insecure-transport=false"]).tls, Some(tls::Info::default()));
        let with_ca = list(&["--discovery-cacert=ca"]).tls.expect("TLS");
        assert_eq!(with_ca.trusted_ca_file, Some("ca".into()));
        assert!(
            list(&["--discovery-insecure-skip-tls-verify"]).tls.expect("TLS").insecure_skip_verify
        );
    }
}
