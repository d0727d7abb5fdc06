//! Starting a member: TLS, ports, bootstrap, member, API.

use std::sync::{Arc, mpsc};

use api::{Grpc, Http};
use config::{Config, ProfilesBy};
use env::{OsClock, OsDisk, OsRandom};
use net::{Dialer, Runtimes};
use peer::PeerTransport;
use prometheus::Registry;
use server::metrics::Metrics;
use server::{Member, Platform};
use tls::ClientTls;

use super::{ClientApi, Event, Node, start_line};
use crate::bootstrap::{self, Bootstrap, BootstrapError};
use crate::listeners::Listeners;
use crate::tls_setup::{ClientTlsSetup, PeerTlsSetup, TlsSetupError};
use crate::{settings, signals};

/// A failed start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Bind(#[from] net::BindError),
    #[error("{0}")]
    Descriptors(#[from] net::DescriptorError),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    #[error("failed to start the peer transport: {0}")]
    Transport(std::io::Error),
    #[error(transparent)]
    Member(#[from] server::StartError),
    #[error("failed to register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    #[error(transparent)]
    Tracing(#[from] trace::StartError),
    #[error("failed to start a thread: {0}")]
    Thread(std::io::Error),
    #[error("failed to serve a port: {0}")]
    Serve(std::io::Error),
}

impl<'a> Node<'a> {
    /// Starts a member and serves its peer and metrics ports.
    ///
    /// The order matters: a port that is in use or a bad certificate is found before the data
    /// directory is touched.
    pub(super) fn start(config: &'a Config, args: Vec<String>) -> Result<Node<'a>, StartError> {
        // First, so that the allocations of the start are in heap profiles.
        let profiles = settings::profiles(config, &args);
        let connections_max = net::connections_max(net::raise_descriptor_limit())?;
        let registry = Registry::new();
        let tls_metrics = tls::Metrics::new(&registry)?;
        let peer_tls = PeerTlsSetup::load(config, &tls_metrics)?;
        let client_tls = ClientTlsSetup::load(config, &tls_metrics)?;
        let Listeners { peers, clients, metrics } =
            Listeners::bind(config, &client_tls, &peer_tls)?;
        log_profiles(config);
        let (member, transport) = bootstrap_member(config, &peer_tls, &tls_metrics, &registry)?;
        set_feature_metrics(config, member.server().metrics());
        let runtimes =
            Runtimes::start_with_stack("net", Runtimes::count_default(), server::STACK_BYTES)
                .map_err(StartError::Thread)?;
        let events = watch_events(&member, &runtimes)?;
        let (tracer, span_export) = start_tracing(config, &registry)?.unzip();
        let client_api = start_api(
            settings::grpc(config, tracer),
            settings::http(config, args, profiles),
            &member,
            registry,
            &runtimes,
        )?;
        let mut node = Node {
            config,
            member,
            transport,
            runtimes,
            client_api,
            span_export,
            connections: settings::connections(config, connections_max),
            client_tls,
            peer_tls,
            client_ports: clients,
            serving: Vec::new(),
            events,
        };
        node.serve_peers_and_metrics(peers, metrics)?;
        Ok(node)
    }
}

/// Decides how the member starts, and starts it with its transport.
fn bootstrap_member(
    config: &Config,
    peer_tls: &PeerTlsSetup,
    tls_metrics: &tls::Metrics,
    registry: &Registry,
) -> Result<(Member, Arc<PeerTransport>), StartError> {
    let initial = bootstrap::initial_cluster(config)?;
    let server_name = initial.as_ref().and_then(|initial| initial.server_name.as_deref());
    let dial_tls = peer_tls.dial_tls(server_name, tls_metrics)?;
    let transport = start_transport(config, dial_tls, registry)?;
    start_line::log(config, initial.as_ref());
    let bootstrap = Bootstrap::choose(config, initial, &transport.rpc(), tls_metrics)?;
    let member = start_member(config, &bootstrap, Arc::clone(&transport), registry)?;
    transport.attach(member.server().clone());
    Ok((member, transport))
}

/// Starts the transport to the peers.
fn start_transport(
    config: &Config,
    dial_tls: Arc<ClientTls>,
    registry: &Registry,
) -> Result<Arc<PeerTransport>, StartError> {
    let dialer = Dialer {
        local: config.peer.local_address,
        proxies: Arc::new(settings::proxies("peers")),
        ..Dialer::new(dial_tls, config.raft.dial_timeout())
    };
    let settings = peer::Config {
        dialer,
        urls: settings::peer_urls(config),
        read_timeout: config.peer.read_timeout,
        write_timeout: config.peer.write_timeout,
    };
    let transport = PeerTransport::start(settings, registry).map_err(StartError::Transport)?;
    Ok(Arc::new(transport))
}

fn start_member(
    config: &Config,
    bootstrap: &Bootstrap,
    transport: Arc<PeerTransport>,
    registry: &Registry,
) -> Result<Member, StartError> {
    let platform = Platform {
        disk: Arc::new(OsDisk),
        clock: Arc::new(OsClock::default()),
        random: Box::new(OsRandom),
    };
    let settings = settings::server(config, bootstrap);
    Ok(Member::start(settings, platform, transport, registry)?)
}

/// Collects signals and the events of the member in one queue.
fn watch_events(member: &Member, runtimes: &Runtimes) -> Result<mpsc::Receiver<Event>, StartError> {
    let (sender, events) = mpsc::channel();
    signals::watch(sender.clone(), Event::Signal).map_err(StartError::Thread)?;
    let (published, server) = (member.published(), member.server().clone());
    let first = sender.clone();
    // A send fails only when the process is ending.
    runtimes.background().spawn(async move {
        if published.await.is_some() {
            let _ = first.send(Event::Published);
        }
    });
    runtimes.background().spawn(async move {
        let _ = sender.send(Event::Stopped(server.stopped().await));
    });
    Ok(events)
}

/// Creates the API handlers, and starts the task that ends streams of a member without a leader.
fn start_api(
    grpc: api::GrpcConfig,
    http: api::http::Config,
    member: &Member,
    registry: Registry,
    runtimes: &Runtimes,
) -> Result<ClientApi, StartError> {
    let server = member.server();
    let grpc = Grpc::new(server.clone(), grpc, &registry)?;
    let http = Http::new(server.clone(), http, registry)?;
    let background = grpc.clone();
    runtimes.background().spawn(async move { background.run().await });
    Ok(ClientApi { grpc, http: Arc::new(http) })
}

/// Starts distributed tracing, if it is configured.
fn start_tracing(
    config: &Config,
    registry: &Registry,
) -> Result<Option<(trace::Tracer, trace::Export)>, StartError> {
    let Some(settings) = settings::tracing(config) else { return Ok(None) };
    let started = trace::start(&settings, registry)?;
    tracing::info!("distributed tracing setup enabled");
    tracing::debug!(
        address = settings.address,
        service_name = settings.service_name,
        service_instance_id = settings.instance_id.unwrap_or_default(),
        sampling_rate = settings.sampled_per_million,
        "distributed tracing enabled"
    );
    Ok(Some(started))
}

/// Compat: as in etcd, the line is missing if only the log level enables profiles.
fn log_profiles(config: &Config) {
    if config.monitoring.profiles == Some(ProfilesBy::Flag) {
        tracing::info!(path = profile::PREFIX.trim_end_matches('/'), "pprof is enabled");
    }
}

/// Sets the metric that shows which feature gates are enabled.
fn set_feature_metrics(config: &Config, metrics: &Metrics) {
    for (name, stage, enabled) in config.gates.list() {
        let labels = [name, stage.as_str()];
        metrics.feature_enabled.with_label_values(&labels).set(i64::from(enabled));
    }
}
