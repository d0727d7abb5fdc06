//! A member from its start to its end.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use api::http::Surface;
use api::{Api, Grpc, Http};
use env::{OsClock, OsDisk, OsRandom};
use net::{Dialer, ListenerHandle, Runtimes};
use peer::PeerTransport;
use prometheus::Registry;
use server::metrics::Metrics;
use server::{Machine, Member, Server, StopReason};
use tls::ClientTls;

use crate::bootstrap::{self, Bootstrap, BootstrapError};
use crate::listeners::{Listeners, Port, texts};
use crate::security::{ClientSecurity, PeerSecurity, SecurityError, Speaks};
use crate::signals::Signal;
use crate::{settings, signals};
use config::Config;
use logging::LogGuard;

/// How long the end of the process waits for a collector to take the last spans.
const LAST_SPANS_PATIENCE: Duration = Duration::from_secs(5);
/// How long the end of the process waits for other members to take an answer.
const PEERS_PATIENCE: Duration = Duration::from_secs(1);

/// What happens to a running member.
enum Event {
    /// Others can know where it is, so clients may be served.
    Published,
    Signal(Signal),
    Stopped(StopReason),
}

/// Why it did not begin.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Bind(#[from] net::BindError),
    #[error("{0}")]
    Descriptors(#[from] net::DescriptorError),
    #[error(transparent)]
    Begin(#[from] BootstrapError),
    #[error("start the transport: {0}")]
    Transport(std::io::Error),
    #[error(transparent)]
    Member(#[from] server::StartError),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    Tracing(#[from] trace::StartError),
    #[error("start a thread: {0}")]
    Thread(std::io::Error),
    #[error("serve: {0}")]
    Serve(std::io::Error),
}

/// Runs until a signal, or until the member stops by itself.
pub(crate) fn run(config: &Config, args: Vec<String>, logs: &LogGuard) -> ExitCode {
    let end = Running::start(config, args).and_then(Running::until_the_end);
    let end = end.unwrap_or_else(|error| {
        tracing::error!(target: logging::FATAL_TARGET, %error, "failed to start");
        End::Code(ExitCode::FAILURE)
    });
    match end {
        End::Code(code) => code,
        End::Signal(signal) => {
            // Nothing is dropped any more.
            logs.flush(logging::SHUTDOWN_FLUSH_MAX);
            signal.end_process()
        }
    }
}

enum End {
    Code(ExitCode),
    Signal(Signal),
}

/// A member that runs, and from when it is published serves.
struct Running<'a> {
    config: &'a Config,
    member: Member,
    transport: Arc<PeerTransport>,
    runtimes: Runtimes,
    edge: Edge,
    /// Sends what is traced.
    export: Option<trace::Export>,
    connections: net::Config,
    security: ClientSecurity,
    peer_security: PeerSecurity,
    /// Those that are bound and not served yet.
    clients: Vec<Port>,
    serving: Vec<ListenerHandle>,
    events: mpsc::Receiver<Event>,
}

impl<'a> Running<'a> {
    fn start(config: &'a Config, args: Vec<String>) -> Result<Running<'a>, StartError> {
        let connections_max = net::connections_max(net::raise_descriptor_limit())?;
        let registry = Registry::new();
        let tls_metrics = tls::Metrics::new(&registry)?;
        let peer_security = PeerSecurity::load(config, &tls_metrics)?;
        let security = ClientSecurity::load(config, &tls_metrics)?;
        let listeners = Listeners::bind(config, &security, &peer_security)?;
        let told = bootstrap::initial_cluster(config)?;
        let server_name = told.as_ref().and_then(|told| told.server_name.as_deref());
        let caller = peer_security.caller(server_name, &tls_metrics)?;
        let transport = start_transport(config, caller, &registry)?;
        let bootstrap = Bootstrap::choose(config, told, &transport.asker(), &tls_metrics)?;
        tell_start(config, bootstrap.has_data());
        let member = start_member(config, &bootstrap, Arc::clone(&transport), &registry)?;
        let server = member.server().clone();
        transport.attach(server.clone());
        note_gates(config, server.metrics());
        let runtimes = Runtimes::start(Runtimes::count_default()).map_err(StartError::Thread)?;
        let (sender, events) = mpsc::channel();
        signals::watch(sender.clone(), Event::Signal).map_err(StartError::Thread)?;
        tell_of(&member, &runtimes, sender);
        let (tracer, export) = start_tracing(config, &registry)?.unzip();
        let edge = Edge::new(config, args, &server, tracer, registry)?;
        let leaderless = edge.grpc.clone();
        runtimes.background().spawn(async move { leaderless.run().await });
        let connections = settings::connections(config, connections_max);
        let Listeners { peers, clients, metrics } = listeners;
        let mut running = Running {
            config,
            member,
            transport,
            runtimes,
            edge,
            export,
            connections,
            security,
            peer_security,
            clients,
            serving: Vec::new(),
            events,
        };
        // Without the others there may be no leader, and without a leader nothing is published.
        peers.into_iter().try_for_each(|port| running.serve_peers(port))?;
        metrics.into_iter().try_for_each(|port| running.serve_port(port))?;
        Ok(running)
    }

    fn serve_peers(&self, port: Port) -> Result<(), StartError> {
        let Port { listener, surface, speaks } = port;
        let (local, rest) = (listener.local(), Arc::new(self.edge.port(surface)));
        let security = self.peer_security.of_peers(speaks);
        let connections = net::Config {
            tls: security,
            detection_timeout: self.config.peer.read_timeout,
            log_protocol_errors: true,
            ..self.connections.clone()
        };
        self.transport.serve(listener, connections, rest).map_err(StartError::Serve)?;
        tell_serving(surface, speaks, &local);
        Ok(())
    }

    fn serve(&mut self) -> Result<(), StartError> {
        self.security.tell();
        for port in std::mem::take(&mut self.clients) {
            self.serve_port(port)?;
        }
        tracing::info!(
            local_member_id = %self.member.server().local(),
            listen_client_urls = ?texts(&self.config.listen.client),
            listen_metrics_urls = ?texts(&self.config.listen.metrics),
            "now serving peer/client/metrics"
        );
        logging::notify_ready();
        Ok(())
    }

    fn serve_port(&mut self, port: Port) -> Result<(), StartError> {
        let Port { listener, surface, speaks } = port;
        let local = listener.local();
        let handler = Arc::new(self.edge.port(surface));
        let security = match surface {
            Surface::Metrics => self.security.of_metrics(speaks),
            _ => self.security.of_clients(speaks),
        };
        let connections = net::Config { tls: security, ..self.connections.clone() };
        let serving = net::serve(&self.runtimes, listener, handler, connections);
        self.serving.push(serving.map_err(StartError::Serve)?);
        tell_serving(surface, speaks, &local);
        Ok(())
    }

    fn until_the_end(mut self) -> Result<End, StartError> {
        loop {
            match self.events.recv() {
                Ok(Event::Published) => self.serve()?,
                Ok(Event::Signal(signal)) => {
                    tracing::info!(signal = signal.name(), "received signal; shutting down");
                    return Ok(self.close(Some(signal)));
                }
                Ok(Event::Stopped(reason)) => {
                    tracing::warn!(%reason, "the member has stopped; shutting down");
                    return Ok(self.close(None));
                }
                Err(mpsc::RecvError) => return Ok(self.close(None)),
            }
        }
    }

    fn close(self, signal: Option<Signal>) -> End {
        let Running { config, member, transport, runtimes, serving, edge, export, .. } = self;
        tracing::info!(name = config.name, data_dir = %config.data_dir.display(), "closing etcd server");
        // Streams never end by themselves: they are told to, and their clients go elsewhere.
        edge.grpc.close();
        let patience = config.raft.request_timeout();
        runtimes.block_on(drain(&serving, patience));
        drop(edge);
        resign(&member, &runtimes);
        // It holds on to the member.
        transport.stop(PEERS_PATIENCE);
        let reason = member.stop();
        drop(serving);
        runtimes.stop();
        // Now that no call can end any more.
        export.into_iter().for_each(|export| export.close(LAST_SPANS_PATIENCE));
        tracing::info!(name = config.name, %reason, "closed etcd server");
        match (signal, reason) {
            (Some(signal), _) => End::Signal(signal),
            (None, StopReason::Fault(_)) => End::Code(ExitCode::FAILURE),
            (None, StopReason::Asked | StopReason::Removed) => End::Code(ExitCode::SUCCESS),
        }
    }
}

/// Lets another member lead, if this one does, and there is another.
fn resign(member: &Member, runtimes: &Runtimes) {
    let server = member.server();
    if server.is_stopping() {
        return;
    }
    if let Err(error) = runtimes.block_on(server.resign()) {
        tracing::warn!(local_member_id = %server.local(), %error, "leadership transfer failed");
    }
}

/// Begins to trace, if that is asked for.
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

/// Passes on what a member says of itself.
fn tell_of(member: &Member, runtimes: &Runtimes, to: mpsc::Sender<Event>) {
    let (published, server) = (member.published(), member.server().clone());
    let first = to.clone();
    // If nobody listens any more, the process is ending.
    runtimes.background().spawn(async move {
        if published.await.is_some() {
            let _ = first.send(Event::Published);
        }
    });
    runtimes.background().spawn(async move {
        let _ = to.send(Event::Stopped(server.stopped().await));
    });
}

/// Lets clients finish what they have begun, on all ports at once.
async fn drain(serving: &[ListenerHandle], patience: Duration) {
    let mut drains: Vec<_> = serving.iter().map(|port| Box::pin(port.drain(patience))).collect();
    std::future::poll_fn(|cx| {
        drains.retain_mut(|drain| drain.as_mut().poll(cx).is_pending());
        if drains.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// How other members are reached.
fn start_transport(
    config: &Config,
    caller: Arc<ClientTls>,
    registry: &Registry,
) -> Result<Arc<PeerTransport>, StartError> {
    let dialer = Dialer {
        local: config.peer.local_address,
        ..Dialer::new(caller, config.raft.dial_timeout())
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
    let machine = Machine {
        disk: Arc::new(OsDisk),
        clock: Arc::new(OsClock::default()),
        random: Box::new(OsRandom),
    };
    let settings = settings::server(config, bootstrap);
    Ok(Member::start(settings, machine, transport, registry)?)
}

/// What clients speak.
struct Edge {
    grpc: Grpc,
    http: Arc<Http<Server>>,
}

impl Edge {
    fn new(
        config: &Config,
        args: Vec<String>,
        server: &Server,
        tracer: Option<trace::Tracer>,
        registry: Registry,
    ) -> Result<Edge, StartError> {
        let grpc = Grpc::new(server.clone(), settings::grpc(config, tracer), &registry)?;
        let http = Http::new(server.clone(), settings::http(config, args), registry)?;
        Ok(Edge { grpc, http: Arc::new(http) })
    }

    fn port(&self, surface: Surface) -> Api<Server> {
        Api::new(surface, self.grpc.clone(), Arc::clone(&self.http))
    }
}

/// Which features are on is told with what is counted.
fn note_gates(config: &Config, metrics: &Metrics) {
    for (name, stage, enabled) in config.gates.list() {
        let labels = [name, stage.as_str()];
        metrics.feature_enabled.with_label_values(&labels).set(i64::from(enabled));
    }
}

fn tell_start(config: &Config, has_data: bool) {
    tracing::info!(
        etcd_version = config::ETCD_VERSION,
        bowline_version = config::BOWLINE_VERSION,
        max_cpu_available = Runtimes::count_default(),
        member_initialized = has_data,
        name = config.name,
        data_dir = %config.data_dir.display(),
        heartbeat_interval = ?config.raft.tick,
        election_timeout = ?config.raft.election_timeout(),
        snapshot_count = config.raft.snapshot_count,
        listen_peer_urls = ?texts(&config.listen.peer),
        listen_client_urls = ?texts(&config.listen.client),
        initial_cluster = config.cluster.initial,
        initial_cluster_state = config.cluster.state.as_str(),
        initial_cluster_token = config.cluster.token,
        quota_backend_bytes = config.backend.quota_bytes,
        max_request_bytes = config.limits.request_bytes,
        pre_vote = config.raft.pre_vote,
        "starting an etcd server"
    );
}

fn tell_serving(surface: Surface, speaks: Speaks, local: &net::LocalAddr) {
    let traffic = match surface {
        Surface::Client => "grpc+http",
        Surface::ClientGrpcOnly => "grpc",
        Surface::ClientHttpOnly => "http",
        Surface::Metrics => return tracing::info!(address = %local, "serving metrics"),
        Surface::Peer => return tracing::info!(address = %local, "serving peer traffic"),
    };
    tracing::info!("ready to serve client requests");
    if speaks != Speaks::Tls {
        tracing::info!(
            traffic,
            address = %local,
            "serving client traffic insecurely; this is strongly discouraged!"
        );
    }
    if speaks != Speaks::Plain {
        tracing::info!(traffic, address = %local, "serving client traffic securely");
    }
}
