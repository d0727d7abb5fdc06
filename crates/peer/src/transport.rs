//! The transport of a member: its thread, its listeners, and what the member asks of it.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use membership::{Member, Membership};
use net::{Dialer, Listener, ListenerHandle, Runtimes};
use proto::etcdserverpb as pb;
use raft::Message;
use server::{OutgoingSnapshot, PeerHash, PeerResponse, PeerVersions, Server, Transport};
use tokio::time::sleep;
use types::{LeaseId, MemberId};

use crate::client::Client;
use crate::contact::Timing;
use crate::handler::Handler;
use crate::local::Local;
use crate::metrics::Metrics;
use crate::questions::Asker;
use crate::shared::Shared;

/// How a member speaks with others.
#[derive(Clone, Debug)]
pub struct Config {
    /// Calls them.
    pub dialer: Dialer,
    /// Where they reach this member: `--initial-advertise-peer-urls`.
    pub urls: Vec<String>,
    /// How long a stream may be silent. `--raft-read-timeout`
    pub read_timeout: Duration,
    /// How long a stream may take nothing. `--raft-write-timeout`
    pub write_timeout: Duration,
}

/// The least that `--raft-read-timeout` and `--raft-write-timeout` may be, and what they are by default.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

impl Config {
    /// The defaults of etcd.
    pub fn new(dialer: Dialer, urls: Vec<String>) -> Config {
        Config { dialer, urls, read_timeout: TIMEOUT_DEFAULT, write_timeout: TIMEOUT_DEFAULT }
    }
}

/// Speaks etcd's peer protocol. It has a thread of its own, so that clients never hold up what members say to each other.
///
/// It comes before the member that it speaks for, which is handed to it by [`PeerTransport::attach`]. Until then nothing is sent, and whoever asks is told to come back. It holds on to the
/// member until [`PeerTransport::stop`], which has to be called.
pub struct PeerTransport {
    shared: Arc<Shared>,
    asker: Asker,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    runtimes: Runtimes,
    serving: Vec<ListenerHandle>,
}

impl PeerTransport {
    /// Starts a thread. Nothing is said before somebody has something to say.
    ///
    /// # Errors
    /// There is no thread to be had, or the registry has the metrics already.
    pub fn start(config: Config, registry: &prometheus::Registry) -> io::Result<PeerTransport> {
        let Config { dialer, urls, read_timeout, write_timeout } = config;
        let metrics = Metrics::new(registry).map_err(io::Error::other)?;
        let runtimes = Runtimes::start_named("peer", 1)?;
        let (client, on) = (Client::new(dialer), runtimes.background().clone());
        let timing = Timing { read: read_timeout, write: write_timeout };
        let asker = Asker::new(client.clone(), on.clone());
        let shared = Arc::new(Shared::new(metrics, client, timing, on.clone(), urls));
        on.spawn(mind(Arc::downgrade(&shared)));
        let running = Mutex::new(Some(Running { runtimes, serving: Vec::new() }));
        Ok(PeerTransport { shared, asker, running })
    }

    /// From now on it speaks for this member.
    pub fn attach(&self, server: Server) {
        self.attach_local(Arc::new(server));
    }

    pub(crate) fn attach_local(&self, local: Arc<dyn Local>) {
        self.shared.attach(local);
    }

    /// Asks others, also before there is a member to speak for.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Serves a peer port. What is not about peers goes to `rest`: the version, and paths that there are not.
    ///
    /// # Errors
    /// It cannot be listened to, or this is stopped.
    pub fn serve<R: net::Handler>(
        &self,
        listener: Listener,
        connections: net::Config,
        rest: Arc<R>,
    ) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running =
            running.as_mut().ok_or_else(|| io::Error::other("the transport is stopped"))?;
        let handler = Arc::new(Handler::new(Arc::clone(&self.shared), rest));
        let serving = net::serve(&running.runtimes, listener, handler, connections)?;
        running.serving.push(serving);
        Ok(())
    }

    /// Members that this one is connected to.
    pub fn active_peers(&self) -> usize {
        self.shared.peers().all().filter(|peer| peer.contact.status.is_active()).count()
    }

    /// Ends all there is, and lets go of the member. Whoever is being answered may be so for as long as `patience`. Not to be called by the thread of the transport.
    pub fn stop(&self, patience: Duration) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Streams end by that, and so do not hold up the listeners.
        self.shared.stop();
        let Some(Running { runtimes, serving }) = running else { return };
        for serving in &serving {
            runtimes.block_on(serving.drain(patience));
        }
        runtimes.stop();
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl fmt::Debug for PeerTransport {
    /// Not the member, which holds this one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerTransport").finish_non_exhaustive()
    }
}

/// Looks after streams that take nothing.
async fn mind(shared: std::sync::Weak<Shared>) {
    loop {
        let Some(write_timeout) = shared.upgrade().map(|shared| shared.timing.write) else {
            return;
        };
        sleep(write_timeout / 5).await;
        let Some(shared) = shared.upgrade() else { return };
        let peers: Vec<_> = shared.peers().all().cloned().collect();
        peers.iter().for_each(|peer| peer.mind());
    }
}

impl Transport for PeerTransport {
    fn send(&self, messages: Vec<Message>) {
        let peers = self.shared.peers();
        // Whoever writes is woken when all is there, and then writes all of it at once.
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
        self.shared.peers().get(member)?.contact.status.active_since()
    }

    fn set_members(&self, members: &Membership) {
        self.shared.set_members(members);
    }

    fn request_versions(&self, of: &Member, within: Duration) -> PeerResponse<PeerVersions> {
        self.asker.version(&of.raft.peer_urls, within)
    }

    fn request_hash(&self, of: &Member, revision: i64, within: Duration) -> PeerResponse<PeerHash> {
        let cluster = self.shared.attached().map(|attached| attached.identity.cluster);
        self.asker.hash(&of.raft.peer_urls, cluster, revision, within)
    }

    fn request_lease_renewal(
        &self,
        leader: &Member,
        lease: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        self.asker.renew(&leader.raft.peer_urls, lease, within)
    }

    fn request_lease_ttl(
        &self,
        leader: &Member,
        request: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        self.asker.lease(&leader.raft.peer_urls, request, within)
    }

    fn request_promotion(
        &self,
        leader: &Member,
        learner: MemberId,
        token: Option<String>,
        within: Duration,
    ) -> PeerResponse<Vec<Member>> {
        self.asker.promote(&leader.raft.peer_urls, learner, token, within)
    }
}
