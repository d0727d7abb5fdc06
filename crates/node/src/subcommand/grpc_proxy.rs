//! `bowline grpc-proxy start`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use config::{ProxyFlags, ProxyTls};
use gocompat::{GoDuration, GoUrl};
use logging::{Level, LogConfig};
use net::{Address, Listener, ListenerTls, Runtimes, SocketOptions, TlsMode};
use profile::Profiles;
use prometheus::Registry;
use proxy::{GrpcProxy, ProxySettings, RegistrySettings, SrvSettings, UpstreamSettings, discover};
use tls::rustls::pki_types::CertificateDer;
use tls::rustls::pki_types::pem::PemObject as _;
use tls::{ClientTls, Info, LoadError, PeerCertificate, Protocol, ServerTls};

/// The time to connect to a member. As in etcd.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The time for a member to answer a ping if the flag is zero. As in grpc-go.
const KEEPALIVE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

/// Runs the proxy until the process ends.
pub(super) fn run(flags: &ProxyFlags, args: &[String]) -> ExitCode {
    let level = if flags.debug { Level::Debug } else { Level::Info };
    let logs = match super::start_logs(&LogConfig { level, ..LogConfig::default() }) {
        Ok(logs) => logs,
        Err(code) => return code,
    };
    let ended = serve(flags, args);
    // What was logged so far stands before the error.
    logs.flush(logging::SHUTDOWN_FLUSH_MAX);
    match ended {
        Ok(()) => {}
        // Compat: as in etcd, this error alone is a line of the log.
        Err(Failure::ServerTls(error)) => {
            tracing::error!(target: logging::FATAL_TARGET, error, "failed to create TLS listener");
        }
        Err(error) => {
            // A closed standard error is not an error.
            let _ = writeln!(std::io::stderr(), "{error}");
        }
    }
    logs.flush(logging::SHUTDOWN_FLUSH_MAX);
    ExitCode::FAILURE
}

/// The reason a proxy has ended.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Bind(#[from] net::BindError),
    #[error("{0}")]
    Descriptors(#[from] net::DescriptorError),
    #[error("failed to create TLS listener: {0}")]
    ServerTls(String),
    #[error(transparent)]
    ClientTls(#[from] tls::LoadError),
    #[error(transparent)]
    AutoTls(#[from] tls::SelfSignedError),
    #[error("cannot parse {}", gocompat::quote(.0))]
    MetricsAddress(String),
    #[error("cannot listen on TLS for {0}: KeyFile and CertFile are not presented")]
    NoCertificate(String),
    #[error("failed to register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Proxy(#[from] proxy::ProxyError),
    #[error("failed to serve: {0}")]
    Serve(#[from] std::io::Error),
    #[error("{0}")]
    Other(String),
}

/// Starts the proxy, and serves until the process is ended by a signal.
fn serve(flags: &ProxyFlags, args: &[String]) -> Result<(), Failure> {
    // Responses that clients did not read must not stay with the process.
    env::limit_retained_memory();
    let profiles = profiles(flags, args);
    let connections_max = net::connections_max(net::raise_descriptor_limit())?;
    let registry = Registry::new();
    registry.register(Box::new(api::http::ProcessMetrics::new()?))?;
    let tls_metrics = tls::Metrics::new(&registry)?;
    let ProxyTls { serving, members } = flags.tls().map_err(Failure::Other)?;
    let serving = serving.map(|info| generated(flags, info)).transpose()?;
    if let Some(info) = &serving {
        tracing::info!(tls_info = %info, "gRPC proxy server TLS");
    }
    let listen = Address::Tcp(flags.listen_addr.clone());
    let listener = Listener::bind(&listen, SocketOptions::default())?;
    let server_tls = server_tls(flags, serving.as_ref(), &tls_metrics)?;
    tracing::info!(address = flags.listen_addr, "listening for gRPC proxy client requests");
    let metrics_listener = metrics_listener(flags, server_tls.clone())?;
    let settings = settings(flags, serving, members, &tls_metrics)?;
    let settings = ProxySettings { profiles, ..settings };
    let runtimes =
        Runtimes::start_with_stack("net", Runtimes::count_default(), server::STACK_BYTES)?;
    let proxy = GrpcProxy::start(settings, registry, &runtimes)?;
    if flags.experimental_serializable_ordering {
        runtimes.block_on(proxy.recover_ordering());
    }
    let connections = connections(flags, connections_max, server_tls);
    let clients = Arc::new(proxy.clients());
    let _clients = net::serve(&runtimes, listener, clients, connections.clone())?;
    let _metrics = match metrics_listener {
        Some((listener, tls)) => {
            let port = Arc::new(proxy.metrics());
            let serving =
                net::serve(&runtimes, listener, port, net::Config { tls, ..connections })?;
            tracing::info!("gRPC proxy server metrics URL serving");
            Some(serving)
        }
        None => None,
    };
    tracing::info!(address = flags.listen_addr, "started gRPC proxy");
    logging::notify_ready();
    loop {
        // A signal ends the process.
        std::thread::park();
    }
}

/// Returns the TLS settings for clients, with a generated certificate if none is given.
fn generated(flags: &ProxyFlags, info: Info) -> Result<Info, tls::SelfSignedError> {
    if !flags.auto_tls || !info.is_empty() || info.trusted_ca_file.is_some() {
        return Ok(info);
    }
    let dir = Path::new(&flags.data_dir).join("fixtures").join("proxy");
    let host = gocompat::split_host_port(&flags.listen_addr).map_or("", |(host, _)| host);
    let years = flags.self_signed_cert_validity;
    let made = tls::generate_self_signed(&dir, &[host.to_owned()], years)?;
    let Info { suites, versions, crl_file, .. } = info;
    Ok(Info { suites, versions, crl_file, ..made })
}

fn server_tls(
    flags: &ProxyFlags,
    serving: Option<&Info>,
    metrics: &tls::Metrics,
) -> Result<Option<Arc<ServerTls>>, Failure> {
    let Some(info) = serving else { return Ok(None) };
    if info.is_empty() {
        let address = flags.listen_addr.clone();
        return Err(Failure::ServerTls(Failure::NoCertificate(address).to_string()));
    }
    let loaded = ServerTls::load("client", info.clone(), metrics);
    let loaded = loaded.map_err(|error| Failure::ServerTls(error.to_string()))?;
    Ok(Some(Arc::new(loaded)))
}

/// Binds the address for metrics, if there is one.
fn metrics_listener(
    flags: &ProxyFlags,
    server_tls: Option<Arc<ServerTls>>,
) -> Result<Option<(Listener, TlsMode)>, Failure> {
    let given = &flags.metrics_addr;
    if given.is_empty() {
        return Ok(None);
    }
    let invalid = || Failure::MetricsAddress(given.clone());
    let url = GoUrl::parse(given).map_err(|_| invalid())?;
    let address = match url.scheme() {
        "http" | "https" => Address::Tcp(url.host().to_owned()),
        "unix" | "unixs" => Address::Unix(format!("{}{}", url.host(), url.path()).into()),
        _ => return Err(invalid()),
    };
    let tls = match (url.scheme(), server_tls) {
        ("http" | "unix", _) => TlsMode::Disabled,
        // Compat: as in etcd, only this listener compares certificates with addresses.
        (_, Some(server)) => TlsMode::Required(ListenerTls { server, checks_origin: true }),
        (_, None) => return Err(Failure::NoCertificate(url.host().to_owned())),
    };
    let listener = Listener::bind(&address, SocketOptions::default())?;
    tracing::info!(address = given, "gRPC proxy listening for metrics");
    Ok(Some((listener, tls)))
}

/// Returns the settings of connections from clients.
fn connections(
    flags: &ProxyFlags,
    connections_max: u32,
    server_tls: Option<Arc<ServerTls>>,
) -> net::Config {
    let tls = match server_tls {
        Some(server) => TlsMode::Required(ListenerTls { server, checks_origin: false }),
        None => TlsMode::Disabled,
    };
    net::Config {
        tls,
        connections_max,
        streams_max: flags.max_concurrent_streams,
        keep_alive: net::KeepAlive::from_flags(
            flags.grpc_keepalive_min_time.non_negative(),
            flags.grpc_keepalive_interval.non_negative(),
            flags.grpc_keepalive_timeout.non_negative(),
        ),
        prints_http2_headers: crate::settings::prints_http2_headers(),
        ..net::Config::default()
    }
}

fn settings(
    flags: &ProxyFlags,
    serving: Option<Info>,
    members: Option<Info>,
    metrics: &tls::Metrics,
) -> Result<ProxySettings, Failure> {
    let endpoints = endpoints(flags, metrics)?;
    let is_secure = members.is_some();
    let info = members.unwrap_or_default();
    let over_http1 = Info { protocol: Protocol::Http1, ..info.clone() };
    let tls = ClientTls::load("proxy-client", info.clone(), metrics)?;
    reject_name(&info)?;
    if flags.insecure_skip_tls_verify {
        tracing::warn!(
            "--insecure-skip-tls-verify was given, this grpc proxy process skips authentication of etcd server TLS certificates. This option should be enabled only for testing purposes."
        );
    }
    if is_secure {
        tracing::info!(tls_info = %info, "gRPC proxy client TLS");
    }
    let upstream = UpstreamSettings {
        endpoints,
        tls: Arc::new(tls),
        secure_by_default: is_secure,
        dial_timeout: DIAL_TIMEOUT,
        proxies: Arc::new(crate::settings::proxies("members").for_grpc()),
        keepalive_time: positive(flags.dial_keepalive_time),
        keepalive_timeout: keepalive_timeout(flags.dial_keepalive_timeout),
        keepalive_when_idle: flags.permit_without_stream,
        send_bytes_max: flags.max_send_bytes,
        recv_bytes_max: flags.max_recv_bytes,
    };
    Ok(ProxySettings {
        own: own(flags, serving, &upstream, metrics)?,
        upstream,
        metrics_tls: Arc::new(ClientTls::load("proxy-metrics-client", over_http1, metrics)?),
        advertised: flags.advertise_client_url.clone(),
        host_name: host_name(),
        registry: registration(flags),
        namespace: flags.namespace.clone(),
        leasing_prefix: flags.experimental_leasing_prefix.clone(),
        ordered: flags.experimental_serializable_ordering,
        log_calls: flags.experimental_enable_grpc_logging,
        auto_sync: positive(flags.endpoints_auto_sync_interval),
        profiles: None,
    })
}

/// Enables profiles, if the flag asks for them.
fn profiles(flags: &ProxyFlags, args: &[String]) -> Option<Profiles> {
    if !flags.enable_pprof {
        return None;
    }
    tracing::info!(path = profile::PREFIX.trim_end_matches('/'), "gRPC proxy enabled pprof");
    Some(Profiles::new(args.to_vec()))
}

/// Rejects a certificate with a common name: members would take it for the name of the user of
/// every client.
fn reject_name(info: &Info) -> Result<(), Failure> {
    let Some(file) = info.cert_file.clone() else { return Ok(()) };
    let pem = match std::fs::read(&file) {
        Ok(pem) => pem,
        Err(source) => return Err(LoadError::Open { file, source }.into()),
    };
    let Ok(certificate) = CertificateDer::from_pem_slice(&pem) else {
        return Err(LoadError::NoCertificate { file }.into());
    };
    match PeerCertificate::parse(&certificate) {
        Ok(parsed) if parsed.common_name.is_empty() => Ok(()),
        Ok(parsed) => Err(Failure::Other(format!(
            "cert has non empty Common Name ({}): {}",
            parsed.common_name,
            file.display()
        ))),
        Err(error) => Err(LoadError::Certificate { file, reason: error.to_string() }.into()),
    }
}

/// Returns the time for a member to answer a ping. With none, every ping would end the connection.
fn keepalive_timeout(flag: GoDuration) -> Duration {
    positive(flag).unwrap_or(KEEPALIVE_TIMEOUT_DEFAULT)
}

/// Returns the endpoints in SRV records, or those of the flag.
fn endpoints(flags: &ProxyFlags, metrics: &tls::Metrics) -> Result<Vec<String>, Failure> {
    let srv = SrvSettings {
        domain: flags.discovery_srv.clone(),
        service_name: flags.discovery_srv_name.clone(),
        trusted_ca_file: super::path(&flags.cacert),
        insecure: flags.insecure_discovery,
    };
    let found =
        discover(&srv, &discovery::SystemDns::default(), metrics).map_err(Failure::Other)?;
    match found.is_empty() {
        true => Ok(flags.endpoints.clone()),
        false => Ok(found.into_iter().map(|endpoint| endpoint.url).collect()),
    }
}

/// Returns the settings of the connection to the proxy itself.
fn own(
    flags: &ProxyFlags,
    serving: Option<Info>,
    upstream: &UpstreamSettings,
    metrics: &tls::Metrics,
) -> Result<Option<UpstreamSettings>, Failure> {
    if flags.advertise_client_url.is_empty() {
        return Ok(None);
    }
    let is_secure = serving.is_some();
    // The suites and versions are those for clients, of which this is one.
    let tls = ClientTls::load("proxy-own-client", serving.unwrap_or_default(), metrics)?;
    Ok(Some(UpstreamSettings {
        endpoints: vec![flags.advertise_client_url.clone()],
        tls: Arc::new(tls),
        secure_by_default: is_secure,
        keepalive_time: None,
        ..upstream.clone()
    }))
}

fn registration(flags: &ProxyFlags) -> Option<RegistrySettings> {
    let prefix = flags.resolver_prefix.clone();
    (!prefix.is_empty()).then_some(RegistrySettings { prefix, ttl: flags.resolver_ttl })
}

fn positive(duration: GoDuration) -> Option<Duration> {
    Some(duration.non_negative()).filter(|duration| !duration.is_zero())
}

/// Returns the name of the machine; empty if it is unknown, as in etcd.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keepalive_timeout_of_zero_is_the_default_of_grpc_go() {
        let seconds =
            |seconds: i64| keepalive_timeout(GoDuration::from_nanos(seconds * 1_000_000_000));
        assert_eq!(seconds(0), Duration::from_secs(20));
        assert_eq!(seconds(3), Duration::from_secs(3));
    }

    #[test]
    fn a_certificate_that_cannot_be_checked_for_a_name_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("client.pem");
        let info = Info { cert_file: Some(file.clone()), ..Info::default() };
        let rejection = || reject_name(&info).unwrap_err().to_string();
        assert_eq!(rejection(), format!("open {}: no such file or directory", file.display()));
        let begin = "-----BEGIN CERTIFICATE-----";
        for (pem, reason) in [
            ("no certificate".to_owned(), "tls: failed to find any PEM data"),
            (format!("{begin}\nAAAA\n-----END CERTIFICATE-----\n"), "x509: malformed certificate"),
        ] {
            std::fs::write(&file, pem).unwrap();
            let rejection = rejection();
            assert!(rejection.contains(reason), "{rejection}");
        }
    }
}
