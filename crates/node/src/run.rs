//! A member from its start to its end.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use api::http::Surface;
use api::{Api, Grpc, Http};
use env::{Disk, OsClock, OsDisk, OsRandom};
use net::{Runtimes, Serving};
use prometheus::Registry;
use server::metrics::Metrics;
use server::{Alone, Machine, Member, Server, StopReason};

use crate::config::{ClusterState, Config, InitialCluster};
use crate::listeners::{Listeners, Port, texts};
use crate::logging::{self, Logs};
use crate::security::{ClientSecurity, SecurityError, Speaks};
use crate::signals::Signal;
use crate::{settings, signals};

/// How long the end of the process waits for a collector to take the last spans.
const LAST_SPANS_PATIENCE: Duration = Duration::from_secs(5);

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
    InitialCluster(#[from] crate::config::BootstrapError),
    #[error(
        "--initial-cluster-state=existing is not yet supported by Bowline: clusters of more than one member are still to come"
    )]
    Join,
    #[error(transparent)]
    Log(#[from] wal::OpenError),
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
pub(crate) fn run(config: &Config, args: Vec<String>, logs: &Logs) -> ExitCode {
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
    runtimes: Runtimes,
    edge: Edge,
    /// Sends what is traced.
    export: Option<trace::Export>,
    connections: net::Config,
    security: ClientSecurity,
    /// Those that are bound and not served yet.
    listeners: Option<Listeners>,
    serving: Vec<Serving>,
    events: mpsc::Receiver<Event>,
}

impl<'a> Running<'a> {
    fn start(config: &'a Config, args: Vec<String>) -> Result<Running<'a>, StartError> {
        let connections_max = net::connections_max(net::raise_descriptor_limit())?;
        let registry = Registry::new();
        let security = ClientSecurity::load(config, &tls::Metrics::new(&registry)?)?;
        let listeners = Listeners::bind(config, &security)?;
        let initial = initial_cluster(config)?;
        tell_start(config, initial.is_none());
        let member = start_member(config, initial.as_ref(), &registry)?;
        let server = member.server().clone();
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
        let (listeners, serving) = (Some(listeners), Vec::new());
        Ok(Running {
            config,
            member,
            runtimes,
            edge,
            export,
            connections,
            security,
            listeners,
            serving,
            events,
        })
    }

    fn serve(&mut self) -> Result<(), StartError> {
        let Some(Listeners { peers, clients, metrics }) = self.listeners.take() else {
            return Ok(());
        };
        let peers = peers.into_iter().map(|listener| {
            let (surface, speaks) = (Surface::Peer, Speaks::Plain);
            Port { listener, surface, speaks }
        });
        self.security.tell();
        for port in peers.chain(clients).chain(metrics) {
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
        let connections = net::Config { security, ..self.connections.clone() };
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
        let Running { config, member, runtimes, serving, edge, export, .. } = self;
        tracing::info!(name = config.name, data_dir = %config.data_dir.display(), "closing etcd server");
        // Streams never end by themselves: they are told to, and their clients go elsewhere.
        edge.grpc.close();
        let patience = config.raft.request_timeout();
        runtimes.block_on(drain(&serving, patience));
        drop(edge);
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
async fn drain(serving: &[Serving], patience: Duration) {
    let mut drains: Vec<_> = serving.iter().map(|port| Box::pin(port.drain(patience))).collect();
    std::future::poll_fn(|cx| {
        drains.retain_mut(|drain| drain.as_mut().poll(cx).is_pending());
        if drains.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The cluster to begin with; none if the member has data already, and whatever it says about that does not matter.
fn initial_cluster(config: &Config) -> Result<Option<InitialCluster>, StartError> {
    let server = settings::server(config, None);
    let disk: &dyn Disk = &OsDisk;
    if wal::exists(disk, &server.wal_path())? {
        return Ok(None);
    }
    if config.cluster.state == ClusterState::Existing {
        return Err(StartError::Join);
    }
    Ok(Some(config.initial_cluster(&resolve)?))
}

fn resolve(host: &str) -> Result<IpAddr, String> {
    let mut addresses = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().map(|address| address.ip()).ok_or_else(|| format!("{host} has no address"))
}

fn start_member(
    config: &Config,
    initial: Option<&InitialCluster>,
    registry: &Registry,
) -> Result<Member, StartError> {
    let machine = Machine {
        disk: Arc::new(OsDisk),
        clock: Arc::new(OsClock::default()),
        random: Box::new(OsRandom),
    };
    let settings = settings::server(config, initial);
    Ok(Member::start(settings, machine, Arc::new(Alone), registry)?)
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
        etcd_version = crate::config::ETCD_VERSION,
        bowline_version = crate::config::BOWLINE_VERSION,
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

fn tell_serving(surface: Surface, speaks: Speaks, local: &net::Local) {
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
