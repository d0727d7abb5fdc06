//! How the members of a cluster are found that nobody was told of.
//!
//! ```text
//!     --discovery-srv example.com                                 records of DNS, now
//!     --discovery-token t --discovery-endpoints http://d:2379     a list that a running cluster keeps: the member writes itself there, and waits
//! ```
//!
//! The second is asked only once it is known that the member is new ([`Config::discover`]).

use std::time::Duration;

use discovery::srv::{self, Lookup, Own, Wanted};
use discovery::{JoinError, Settings, User};

use super::bootstrap::{BootstrapError, InitialCluster};
use super::meant::{Config, Discovery};
use super::refusal::Refusal;
use super::table::Flags;
use super::url::Url;
use super::url::list::UrlsMap;
use gocompat::GoDuration;

/// How long calling somebody may take if no time was given.
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// What the flags say about it.
pub(super) fn meant(flags: &Flags) -> Result<Option<Discovery>, Refusal> {
    if !flags.discovery_endpoints.is_empty() {
        return Ok(Some(Discovery::List(Box::new(settings(flags)?))));
    }
    let (domain, service_name) = (flags.discovery_srv.clone(), flags.discovery_srv_name.clone());
    Ok((!domain.is_empty()).then_some(Discovery::Srv { domain, service_name }))
}

fn settings(flags: &Flags) -> Result<Settings, Refusal> {
    let time = |value: GoDuration| Some(value.non_negative()).filter(|time| !time.is_zero());
    let request_timeout = time(flags.discovery_request_timeout).ok_or_else(|| {
        let value = flags.discovery_request_timeout.to_string();
        Refusal::NotPositive { flag: "discovery-request-timeout", value }
    })?;
    Ok(Settings {
        token: flags.discovery_token.clone(),
        endpoints: flags.discovery_endpoints.clone(),
        dial_timeout: time(flags.discovery_dial_timeout).unwrap_or(DIAL_TIMEOUT),
        request_timeout,
        keepalive_time: flags.discovery_keepalive_time.non_negative(),
        keepalive_timeout: flags.discovery_keepalive_timeout.non_negative(),
        tls: tls(flags),
        request_bytes_max: limit(flags.discovery_request_bytes_max),
        answer_bytes_max: limit(flags.discovery_answer_bytes_max),
        user: User {
            name: flags.discovery_user.clone(),
            password: flags.discovery_password.clone(),
            token: flags.discovery_user_token.clone(),
        },
    })
}

/// Compat: as in etcd's client, what is no number of bytes is what is usual.
fn limit(bytes: i64) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// Compat: as in etcd, one file or a name is enough to speak TLS, whatever `--discovery-insecure-transport` says.
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

/// The members that DNS knows.
pub(super) fn by_dns(
    config: &Config,
    domain: &str,
    service_name: &str,
    lookup: &dyn Lookup,
) -> Result<InitialCluster, BootstrapError> {
    let own: Vec<Own> = config.advertise.peer.iter().map(own).collect();
    let wanted = Wanted { name: &config.name, domain, service_name, own: &own };
    let found = srv::find(&wanted, lookup);
    let errors = found.errors.join("\n");
    if !errors.is_empty() {
        tracing::warn!(error = errors, "failed to resolve during SRV discovery");
    }
    if found.members.is_empty() {
        return Err(BootstrapError::Srv(errors));
    }
    for node in &found.members {
        tracing::info!(node, "got bootstrap from DNS for etcd-server");
    }
    let text = found.members.join(",");
    let members = UrlsMap::parse(&text)?;
    if members.get(&config.name).is_none() {
        return Err(BootstrapError::NotInSrv(config.name.clone()));
    }
    // Compat: as in etcd, where the authorities of the system are trusted, the domain is what the certificates of members must be for.
    let by_domain = text.contains("https://") && config.peer.tls.info.trusted_ca_file.is_none();
    let server_name = by_domain.then(|| domain.to_owned());
    Ok(InitialCluster { members, token: config.cluster.token.clone(), server_name })
}

fn own(url: &Url) -> Own {
    Own {
        scheme: url.scheme().as_str().to_owned(),
        host: url.hostname().to_owned(),
        port: url.port().parse().unwrap_or(0),
    }
}

impl Config {
    /// The cluster on a list, if there is one to be asked: writes the member there, and waits for the others, for ever if need be. `alone` is what
    /// [`Config::initial_cluster`] gave, and `id` the id of the member in it.
    ///
    /// # Errors
    /// If it does not work out.
    pub fn discover(
        &self,
        alone: InitialCluster,
        id: u64,
        metrics: &tls::Metrics,
    ) -> Result<InitialCluster, BootstrapError> {
        let Some(Discovery::List(settings)) = &self.cluster.discovery else { return Ok(alone) };
        tracing::info!("Bootstrapping cluster using v3 discovery.");
        let failed = |error: JoinError| BootstrapError::Discovery(error.to_string());
        let is_sound = |text: &str| UrlsMap::parse(text).is_ok();
        let info = alone.members.to_string();
        let text = discovery::join_blocking(settings, metrics, id, &info, is_sound);
        self.discovered(&text.map_err(failed)?, alone.token)
    }

    fn discovered(&self, text: &str, token: String) -> Result<InitialCluster, BootstrapError> {
        let members = UrlsMap::parse(text)?;
        if members.has_duplicate_url() {
            return Err(BootstrapError::DuplicateDiscovered(members.to_string()));
        }
        Ok(InitialCluster { members, token, server_name: None })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::config::{Machine, NoDefaultHost, parse};

    const MACHINE: Machine = Machine { arch: "amd64", default_host: || Err(NoDefaultHost) };

    fn config(args: &[&str]) -> Config {
        let args = std::iter::once("bowline").chain(args.iter().copied()).map(OsString::from);
        parse(args, [], &MACHINE).expect("sound").config
    }

    fn list(more: &[&str]) -> Settings {
        let flags = ["--discovery-token=t", "--discovery-endpoints=d:1,e:1"];
        match config(&[&flags, more].concat()).cluster.discovery {
            Some(Discovery::List(settings)) => *settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_is_asked_as_the_flags_say() {
        let settings = list(&[]);
        assert_eq!((settings.token.as_str(), settings.endpoints.len()), ("t", 2));
        assert_eq!(
            (settings.dial_timeout, settings.request_timeout),
            (Duration::from_secs(2), Duration::from_secs(5))
        );
        assert_eq!((&settings.tls, &settings.user), (&None, &User::default()));
        let user = list(&["--discovery-user=u", "--discovery-password=p"]).user;
        assert_eq!(user, User { name: "u".into(), password: "p".into(), token: String::new() });
    }

    #[test]
    fn tls_is_spoken_if_anything_asks_for_it() {
        assert_eq!(list(&["--discovery-insecure-transport=false"]).tls, Some(tls::Info::default()));
        let with_ca = list(&["--discovery-cacert=ca"]).tls.expect("TLS");
        assert_eq!(with_ca.trusted_ca_file, Some("ca".into()));
        assert!(
            list(&["--discovery-insecure-skip-tls-verify"]).tls.expect("TLS").insecure_skip_verify
        );
    }

    #[test]
    fn what_is_on_a_list_must_be_a_cluster() {
        let config = config(&["--name=m"]);
        let of = |text: &str| {
            let found = config.discovered(text, "t".to_owned());
            found.map(|found| found.members.len()).map_err(|error| error.to_string())
        };
        assert_eq!(of("a=http://1:1,b=http://2:1"), Ok(2));
        assert_eq!(
            of("a=http://1:1,b=http://1:1").unwrap_err(),
            "discovery cluster a=http://1:1,b=http://1:1 has duplicate url"
        );
    }
}
