//! The transport of a member: its thread, its listeners and its peers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use membership::{Member, Membership};
use net::{Dialer, Listener, ListenerHandle, Runtimes};
use parking_lot::Mutex;
use proto::etcdserverpb as pb;
use raft::Message;
use server::{OutgoingSnapshot, PeerHash, PeerResponse, PeerVersions, Server, Transport};
use tokio::time::sleep;
use types::{LeaseId, MemberId};

use crate::client::Client;
use crate::handler::Handler;
use crate::local_member::LocalMember;
use crate::metrics::Metrics;
use crate::peers::context::Timing;
use crate::rpc::PeerRpcClient;
use crate::shared::TransportShared;

/// The settings of a transport.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connects to peers.
    pub dialer: Dialer,
    /// The advertised URLs: `--initial-advertise-peer-urls`.
    pub urls: Vec<String>,
    /// The longest silence of a stream: `--raft-read-timeout`.
    pub read_timeout: Duration,
    /// The longest time that a stream may accept nothing: `--raft-write-timeout`.
    pub write_timeout: Duration,
}

/// The default and least value of `--raft-read-timeout` and `--raft-write-timeout`.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

impl Config {
    /// Creates settings with etcd's defaults.
    pub fn new(dialer: Dialer, urls: Vec<String>) -> Config {
        Config { dialer, urls, read_timeout: TIMEOUT_DEFAULT, write_timeout: TIMEOUT_DEFAULT }
    }
}

/// Speaks etcd's peer protocol on its own thread, so that client load does not delay peer traffic.
///
/// The transport is created before its member, which [`PeerTransport::attach`] provides. Until then
/// nothing is sent, and requests are answered with 503. It holds the member until
/// [`PeerTransport::stop`], which must be called.
pub struct PeerTransport {
    shared: Arc<TransportShared>,
    rpc: PeerRpcClient,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    runtimes: Runtimes,
    listeners: Vec<ListenerHandle>,
}

impl PeerTransport {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started, or the metrics are already registered.
    pub fn start(config: Config, registry: &prometheus::Registry) -> io::Result<PeerTransport> {
        let Config { dialer, urls, read_timeout, write_timeout } = config;
        let metrics = Metrics::new(registry).map_err(io::Error::other)?;
        let runtimes = Runtimes::start_named("peer", 1)?;
        let (client, on) = (Client::new(dialer), runtimes.background().clone());
        let timing = Timing { read: read_timeout, write: write_timeout };
        let rpc = PeerRpcClient::new(client.clone(), on.clone());
        let shared = Arc::new(TransportShared::new(metrics, client, timing, on.clone(), urls));
        on.spawn(cut_stalled_streams(Arc::downgrade(&shared)));
        let running = Mutex::new(Some(Running { runtimes, listeners: Vec::new() }));
        Ok(PeerTransport { shared, rpc, running })
    }

    /// Attaches the local member.
    pub fn attach(&self, server: Server) {
        self.attach_local(Arc::new(server));
    }

    pub(crate) fn attach_local(&self, local: Arc<dyn LocalMember>) {
        self.shared.attach(local);
    }

    /// Returns a client for requests to members. Works before a member is attached.
    pub fn rpc(&self) -> PeerRpcClient {
        self.rpc.clone()
    }

    /// Serves a peer port. `fallback` answers the paths that do not belong to the peer protocol.
    ///
    /// # Errors
    /// If the listener cannot be served, or the transport is stopped.
    pub fn serve<R: net::Handler>(
        &self,
        listener: Listener,
        connections: net::Config,
        fallback: Arc<R>,
    ) -> io::Result<()> {
        let mut running = self.running.lock();
        let running =
            running.as_mut().ok_or_else(|| io::Error::other("the transport is stopped"))?;
        let handler = Arc::new(Handler::new(Arc::clone(&self.shared), fallback));
        // A stream whose peer has disconnected must end at once, so that messages take another way.
        let connections = net::Config { half_closed_grace: Duration::ZERO, ..connections };
        let handle = net::serve(&running.runtimes, listener, handler, connections)?;
        running.listeners.push(handle);
        Ok(())
    }

    /// Returns the number of active peers.
    pub fn active_peers(&self) -> usize {
        self.shared.peers().all().filter(|peer| peer.context.status.is_active()).count()
    }

    /// Stops everything and releases the member. Requests in flight may finish within `time_limit`.
    /// Must not be called on the transport's thread.
    pub fn stop(&self, time_limit: Duration) {
        let running = self.running.lock().take();
        // Ends the streams, which would hold up the drain of the listeners.
        self.shared.stop();
        let Some(Running { runtimes, listeners }) = running else { return };
        for listener in &listeners {
            runtimes.block_on(listener.drain(time_limit));
        }
        runtimes.stop();
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<TransportShared> {
        &self.shared
    }
}

impl fmt::Debug for PeerTransport {
    /// Omits the member, which holds this transport.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerTransport").finish_non_exhaustive()
    }
}

/// Periodically cuts streams that accept nothing.
async fn cut_stalled_streams(shared: std::sync::Weak<TransportShared>) {
    loop {
        let Some(write_timeout) = shared.upgrade().map(|shared| shared.timing.write) else {
            return;
        };
        sleep(write_timeout / 5).await;
        let Some(shared) = shared.upgrade() else { return };
        let peers: Vec<_> = shared.peers().all().cloned().collect();
        peers.iter().for_each(|peer| peer.cut_stalled_streams());
    }
}

impl Transport for PeerTransport {
    fn send(&self, messages: Vec<Message>) {
        let peers = self.shared.peers();
        // Writers are woken once all messages are queued, so that each writes them in one go.
        let wakers: Vec<_> =
            messages.into_iter().filter_map(|message| peers.send(message)).collect();
        drop(peers);
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    fn send_snapshot(&self, snapshot: OutgoingSnapshot) {
        let OutgoingSnapshot { message, image } = snapshot;
        let to = message.to;
        let peer = self.shared.peers().get(to).cloned();
        match (peer, self.shared.attached()) {
            (Some(peer), _) => peer.send_snapshot(message, image),
            (None, Some(attached)) => attached.local.report_snapshot(to, false),
            (None, None) => {}
        }
    }

    fn active_since(&self, member: MemberId) -> Option<Duration> {
        self.shared.peers().get(member)?.context.status.active_since()
    }

    fn set_members(&self, members: &Membership) {
        self.shared.set_members(members);
    }

    fn request_versions(&self, of: &Member, within: Duration) -> PeerResponse<PeerVersions> {
        self.rpc.version(&of.raft.peer_urls, within)
    }

    fn request_hash(&self, of: &Member, revision: i64, within: Duration) -> PeerResponse<PeerHash> {
        let cluster = self.shared.attached().map(|attached| attached.identity.cluster);
        self.rpc.hash(&of.raft.peer_urls, cluster, revision, within)
    }

    fn request_lease_renewal(
        &self,
        leader: &Member,
        lease: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        self.rpc.renew(&leader.raft.peer_urls, lease, within)
    }

    fn request_lease_ttl(
        &self,
        leader: &Member,
        request: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        self.rpc.lease(&leader.raft.peer_urls, request, within)
    }

    fn request_promotion(
        &self,
        leader: &Member,
        learner: MemberId,
        token: Option<String>,
        within: Duration,
    ) -> PeerResponse<Vec<Member>> {
        self.rpc.promote(&leader.raft.peer_urls, learner, token, within)
    }
}
