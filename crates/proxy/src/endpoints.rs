//! The endpoints of the cluster, from SRV records.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use discovery::srv::{ClientEndpoint, Lookup, find_clients};
use gocompat::quote;
use net::{Dialer, Target};
use tls::{ClientTls, Info};

/// The time to connect to a discovered endpoint. As in etcd.
const VALIDATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The flags about SRV records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SrvSettings {
    /// The domain, `--discovery-srv`; empty for none.
    pub domain: String,
    /// The suffix of the service names, `--discovery-srv-name`; may be empty.
    pub service_name: String,
    /// The CAs of the endpoints' certificates; the system's without it.
    pub trusted_ca_file: Option<PathBuf>,
    /// Whether endpoints without TLS are used too.
    pub insecure: bool,
}

/// Returns the endpoints in SRV records; none without a domain. Blocks the caller.
///
/// Endpoints that offer no TLS, or whose certificate is not valid for the domain, are left out
/// with a warning, unless insecure ones are accepted.
///
/// # Errors
/// The records cannot be read.
pub fn discover(
    settings: &SrvSettings,
    lookup: &dyn Lookup,
    metrics: &tls::Metrics,
) -> Result<Vec<ClientEndpoint>, String> {
    let domain = &settings.domain;
    if domain.is_empty() {
        return Ok(Vec::new());
    }
    let found = find_clients(domain, &settings.service_name, lookup)?;
    let endpoints = urls(&found);
    tracing::info!(srv_server = domain, ?endpoints, "discovered cluster from SRV");
    if settings.insecure {
        return Ok(found);
    }
    tracing::info!(srv_server = domain, ?endpoints, "validating discovered SRV endpoints");
    let (valid, errors) = validate(settings, found, metrics);
    let endpoints = urls(&valid);
    match errors.is_empty() {
        true => {
            tracing::info!(
                srv_server = domain,
                ?endpoints,
                "using validated discovered SRV endpoints"
            );
        }
        false => {
            let error = errors.join(",");
            tracing::warn!(
                srv_server = domain,
                ?endpoints,
                error,
                "failed to validate discovered endpoints"
            );
        }
    }
    Ok(valid)
}

fn urls(endpoints: &[ClientEndpoint]) -> Vec<&str> {
    endpoints.iter().map(|endpoint| endpoint.url.as_str()).collect()
}

/// Splits endpoints into those with a valid certificate and the errors about the others.
fn validate(
    settings: &SrvSettings,
    found: Vec<ClientEndpoint>,
    metrics: &tls::Metrics,
) -> (Vec<ClientEndpoint>, Vec<String>) {
    let info = Info {
        trusted_ca_file: settings.trusted_ca_file.clone(),
        server_name: Some(settings.domain.clone()),
        ..Info::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (dialer, runtime) = match (ClientTls::load("srv-client", info, metrics), runtime) {
        (Ok(tls), Ok(runtime)) => (Dialer::new(Arc::new(tls), VALIDATION_TIMEOUT), runtime),
        (Err(error), _) => return (Vec::new(), vec![error.to_string()]),
        (_, Err(error)) => return (Vec::new(), vec![error.to_string()]),
    };
    let (mut valid, mut errors) = (Vec::new(), Vec::new());
    for endpoint in found {
        match runtime.block_on(check(&dialer, &endpoint.url)) {
            Ok(()) => valid.push(endpoint),
            Err(error) => errors.push(error),
        }
    }
    (valid, errors)
}

async fn check(dialer: &Dialer, url: &str) -> Result<(), String> {
    if !url.starts_with("https://") {
        return Err(format!("{} is insecure", quote(url)));
    }
    let failed = |error: &dyn std::fmt::Display| format!("{} failed to dial ({error})", quote(url));
    let target = Target::parse(url).map_err(|error| failed(&error))?;
    dialer.dial(&target).await.map_err(|error| failed(&error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use discovery::srv::SrvRecord;

    use super::*;

    struct Zone(Vec<SrvRecord>);

    impl Lookup for Zone {
        fn srv(&self, service: &str, _: &str) -> Result<Vec<SrvRecord>, String> {
            match service {
                "etcd-client" => Ok(self.0.clone()),
                other => Err(format!("lookup {other}: no such host")),
            }
        }

        fn address(&self, _: &str, _: u16) -> Result<SocketAddr, String> {
            Err("no such host".to_owned())
        }
    }

    fn found(settings: &SrvSettings) -> Vec<String> {
        let record =
            SrvRecord { priority: 1, target: "m1.example.com.".into(), port: 2379, weight: 5 };
        let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
        let found = discover(settings, &Zone(vec![record]), &metrics).unwrap();
        found.into_iter().map(|endpoint| endpoint.url).collect()
    }

    #[test]
    fn endpoints_without_tls_are_used_only_on_request() {
        let settings = SrvSettings { domain: "example.com".into(), ..SrvSettings::default() };
        assert!(found(&settings).is_empty());
        let settings = SrvSettings { insecure: true, ..settings };
        assert_eq!(found(&settings), ["http://m1.example.com:2379"]);
        assert!(found(&SrvSettings::default()).is_empty(), "no domain");
    }
}
