//! The TCP gateway: copies bytes between clients and members.
//!
//! ```text
//!   accept ─► pick a remote ─► dial ── failed ──► deactivate it, pick another
//!                                │
//!                                ▼  copy in both directions until both have ended
//!   monitor: every --retry-delay, dials the inactive remotes and activates those that answer
//! ```
//!
//! The gateway neither speaks TLS nor reads what it copies, so any protocol passes. At most
//! half of the descriptors that the process may open serve accepted connections, since each needs a
//! second one; further clients wait in the backlog.

mod remotes;

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use discovery::srv::{ClientEndpoint, SrvRecord};
use gocompat::{GoDuration, GoUrl, join_host_port, split_host_port};
use net::{Address, Listener, SocketOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use remotes::{Remote, Remotes};

/// The time to connect to a remote, name resolution included.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept call, which otherwise would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The retry delay in place of zero. As in etcd.
const RETRY_DELAY_DEFAULT: GoDuration = GoDuration::from_nanos(5 * 60 * 1_000_000_000);

/// The settings of a gateway.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// The address to listen on.
    pub listen_addr: String,
    /// Endpoints from SRV records; if there are any, they replace `endpoints`.
    pub discovered: Vec<ClientEndpoint>,
    /// Endpoints: `host:port` or URLs.
    pub endpoints: Vec<String>,
    /// The interval between attempts to reach an inactive remote.
    pub retry_delay: GoDuration,
}

/// The reason a gateway cannot start. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An endpoint is not `host:port`.
    #[error("error parsing endpoint {}", gocompat::quote(.0))]
    Endpoint(String),
    /// The listen address is not `host:port`.
    #[error("failed to validate listen address: {0}")]
    ListenAddress(String),
    /// The host of the listen address is unknown.
    #[error("failed to resolve listen host: {0}")]
    ListenHost(String),
    /// The host of an endpoint is unknown.
    #[error("failed to resolve endpoint host: {0}")]
    EndpointHost(String),
    /// An endpoint is the gateway itself.
    #[error(
        "SRV or endpoint ({host}:{port}->{address}:{port}) should not resolve to the gateway listen addr ({listen})"
    )]
    Loop {
        /// The host of the endpoint.
        host: String,
        /// The port of the endpoint and of the gateway.
        port: u16,
        /// The address of both.
        address: IpAddr,
        /// The listen address as given.
        listen: String,
    },
    /// There are no endpoints.
    #[error("no endpoints found")]
    NoEndpoints,
    /// The address cannot be bound.
    #[error(transparent)]
    Bind(#[from] net::BindError),
    /// The runtime or its listener failed.
    #[error("failed to serve: {0}")]
    Serve(#[from] std::io::Error),
    /// The process may not open enough descriptors.
    #[error(transparent)]
    Descriptors(#[from] net::DescriptorError),
}

/// A gateway that listens and does not serve yet.
#[derive(Debug)]
pub struct Gateway {
    listener: std::net::TcpListener,
    remotes: Vec<SrvRecord>,
    retry_delay: GoDuration,
}

impl Gateway {
    /// Checks the settings, and binds the address.
    ///
    /// # Errors
    /// The settings are invalid, or the address is taken.
    pub fn bind(settings: &GatewaySettings) -> Result<Gateway, GatewayError> {
        let remotes: Vec<SrvRecord> = match settings.discovered.is_empty() {
            true => settings.endpoints.iter().map(|url| record(url)).collect::<Result<_, _>>()?,
            false => settings.discovered.iter().map(|found| found.record.clone()).collect(),
        };
        reject_loop(&settings.listen_addr, &remotes)?;
        if remotes.is_empty() {
            return Err(GatewayError::NoEndpoints);
        }
        let address = Address::Tcp(settings.listen_addr.clone());
        let listener = Listener::bind(&address, SocketOptions::default())?;
        let listener = listener.into_tcp()?;
        let retry_delay = match settings.retry_delay.nanos() {
            0 => RETRY_DELAY_DEFAULT,
            _ => settings.retry_delay,
        };
        Ok(Gateway { listener, remotes, retry_delay })
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn serve(self) -> Result<(), GatewayError> {
        let descriptors = net::connections_max(net::raise_descriptor_limit())?;
        let connections_max = (descriptors / 2).max(1);
        let endpoints: Vec<String> = self.remotes.iter().map(address).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        tracing::info!(?endpoints, "ready to proxy client requests");
        runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener)?;
            let shared = Arc::new(GatewayState {
                remotes: Remotes::new(self.remotes),
                retry_delay: self.retry_delay,
            });
            tokio::spawn(monitor(Arc::clone(&shared)));
            accept(&listener, &shared, connections_max).await;
            Ok(())
        })
    }
}

/// The state that all connections share.
struct GatewayState {
    remotes: Remotes,
    retry_delay: GoDuration,
}

/// Accepts connections forever.
async fn accept(listener: &TcpListener, shared: &Arc<GatewayState>, connections_max: u32) {
    let permits = Arc::new(Semaphore::new(connections_max as usize));
    loop {
        // The semaphore is never closed.
        let permit = Arc::clone(&permits).acquire_owned().await;
        match listener.accept().await {
            Ok((client, _)) => {
                let shared = Arc::clone(shared);
                tokio::spawn(async move {
                    let _permit = permit;
                    shared.serve(client).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl GatewayState {
    /// Connects a client to the first remote that answers. Without one, the client is disconnected.
    async fn serve(&self, mut client: TcpStream) {
        while let Some(remote) = self.remotes.pick(random) {
            match dial(remote.address()).await {
                Ok(mut member) => {
                    // An error of either connection ends both, and needs no handling.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut member).await;
                    return;
                }
                Err(error) => {
                    remote.deactivate();
                    let (address, interval) = (remote.address(), self.retry_delay.to_string());
                    tracing::warn!(address, interval, error, "deactivated endpoint");
                }
            }
        }
    }

    async fn try_activate(&self, remote: &Remote) {
        let (address, interval) = (remote.address(), self.retry_delay.to_string());
        match dial(address).await {
            Ok(_) => {
                remote.activate();
                tracing::info!(address, "activated");
            }
            Err(error) => {
                tracing::warn!(
                    address,
                    interval,
                    error,
                    "failed to activate endpoint (stay inactive for another interval)"
                );
            }
        }
    }
}

/// Dials the inactive remotes at intervals, forever.
async fn monitor(shared: Arc<GatewayState>) {
    loop {
        // A negative interval would spin.
        let interval = shared.retry_delay.non_negative().max(Duration::from_millis(1));
        tokio::time::sleep(interval).await;
        let inactive = shared.remotes.inactive();
        let attempts = inactive.into_iter().map(|remote| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move { shared.try_activate(&remote).await })
        });
        for attempt in attempts.collect::<Vec<_>>() {
            // An attempt does not panic.
            let _ = attempt.await;
        }
    }
}

async fn dial(address: &str) -> Result<TcpStream, String> {
    let connected = timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let reason = gocompat::os_error_text(&error);
            return Err(format!("dial tcp {address}: connect: {reason}"));
        }
        Err(_) => return Err(format!("dial tcp {address}: i/o timeout")),
    };
    // Without it, small requests wait for acknowledgements; an error only costs that time.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Returns a random number below a bound.
fn random(below: u32) -> u32 {
    // Each RandomState has random keys.
    let random = RandomState::new().hash_one(()) % u64::from(below.max(1));
    u32::try_from(random).unwrap_or_default()
}

/// Parses an endpoint, with or without a scheme.
fn record(endpoint: &str) -> Result<SrvRecord, GatewayError> {
    let host_port = match GoUrl::parse(endpoint) {
        Ok(url) if !url.host().is_empty() => url.host().to_owned(),
        _ => endpoint.to_owned(),
    };
    let invalid = || GatewayError::Endpoint(host_port.clone());
    let (host, port) = split_host_port(&host_port).ok_or_else(invalid)?;
    let port = port.parse().map_err(|_| invalid())?;
    Ok(SrvRecord { priority: 0, weight: 0, target: host.to_owned(), port })
}

fn address(record: &SrvRecord) -> String {
    join_host_port(record.target.trim_end_matches('.'), record.port)
}

/// Rejects unknown hosts, and endpoints that are the gateway itself.
fn reject_loop(listen: &str, remotes: &[SrvRecord]) -> Result<(), GatewayError> {
    let (host, port) =
        split_host_port(listen).ok_or_else(|| GatewayError::ListenAddress(listen.to_owned()))?;
    let own = resolve(host).ok_or_else(|| GatewayError::ListenHost(host.to_owned()))?;
    for remote in remotes {
        let host = remote.target.trim_end_matches('.');
        let addresses = resolve(host).ok_or_else(|| GatewayError::EndpointHost(host.to_owned()))?;
        if remote.port.to_string() != port {
            continue;
        }
        if let Some(address) = addresses.intersection(&own).next() {
            return Err(GatewayError::Loop {
                host: host.to_owned(),
                port: remote.port,
                address: *address,
                listen: listen.to_owned(),
            });
        }
    }
    Ok(())
}

/// Resolves a host. Compat: as in Go, an empty name has no address.
fn resolve(host: &str) -> Option<BTreeSet<IpAddr>> {
    if host.is_empty() {
        return None;
    }
    let addresses = (host, 0).to_socket_addrs().ok()?;
    Some(addresses.map(|address: SocketAddr| address.ip()).collect())
}

#[cfg(test)]
mod tests;
