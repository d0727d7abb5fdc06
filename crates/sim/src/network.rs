//! A simulated network that delays, loses, duplicates and reorders messages, and whose links can be
//! cut in one direction or both.
//!
//! Delays are counted in steps of the simulation, independent of the members' clocks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use env::SeededRandom;
use membership::{Member, Membership};
use parking_lot::Mutex;
use proto::etcdserverpb as pb;
use server::{
    Error, OutgoingSnapshot, PeerHash, PeerRequestError, PeerResponse, PeerVersions,
    SERVER_VERSION, Server, Transport,
};
use simkit::{Digest, EventQueue, Links, NetworkConditions};
use types::{LeaseId, MemberId};

use crate::digest::add_message;

/// All links between members. Clones share the network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<NetworkState>>);

struct NetworkState {
    step: u64,
    conditions: NetworkConditions,
    random: SeededRandom,
    in_flight: EventQueue<Packet>,
    members: BTreeMap<MemberId, Connected>,
    links: Links<MemberId>,
    /// Digest of all delivered messages.
    digest: Digest,
    snapshots: u64,
}

struct Connected {
    server: Server,
    /// Calls from peers that this member is processing. Detaching the member cancels them, since
    /// the future of a call keeps the server alive.
    calls: Vec<Weak<dyn Cancel + Send + Sync>>,
    /// Time at which each peer connected, on this member's clock.
    connected_since: BTreeMap<MemberId, Duration>,
}

/// A peer RPC that a member is processing; empty once it is canceled.
struct PeerCall<T>(Mutex<Option<PeerResponse<T>>>);

impl<T> PeerCall<T> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, PeerRequestError>> {
        match &mut *self.0.lock() {
            Some(response) => response.as_mut().poll(cx),
            None => Poll::Ready(Err(PeerRequestError::Failed("link cut".to_owned()))),
        }
    }
}

/// A [`PeerCall`] with any type of response.
trait Cancel {
    fn cancel(&self);
}

impl<T> Cancel for PeerCall<T> {
    fn cancel(&self) {
        // The lock is released before the future is dropped.
        let canceled = self.0.lock().take();
        drop(canceled);
    }
}

/// A message in flight.
struct Packet {
    from: MemberId,
    to: MemberId,
    payload: Payload,
}

/// The content of a packet.
enum Payload {
    Message(Box<raft::Message>),
    Snapshot { message: Box<raft::Message>, database: Vec<u8> },
}

impl Network {
    /// Creates a network whose behavior follows from a seed.
    pub fn new(seed: u64, conditions: NetworkConditions) -> Network {
        let state = NetworkState {
            step: 0,
            conditions,
            random: SeededRandom::new(seed),
            in_flight: EventQueue::default(),
            members: BTreeMap::new(),
            links: Links::default(),
            digest: Digest::EMPTY,
            snapshots: 0,
        };
        Network(Arc::new(Mutex::new(state)))
    }

    /// Returns the link of a member that has not started yet.
    pub fn link(&self, local: MemberId) -> Link {
        Link { local, network: self.clone() }
    }

    /// Connects a started member.
    pub fn attach(&self, server: &Server) {
        let mut state = self.0.lock();
        let connected = Connected {
            server: server.clone(),
            calls: Vec::new(),
            connected_since: BTreeMap::new(),
        };
        state.members.insert(server.local(), connected);
        state.update_connections();
    }

    /// Disconnects a member. Its messages in flight may still arrive.
    pub fn detach(&self, member: MemberId) {
        let detached = {
            let mut state = self.0.lock();
            let detached = state.members.remove(&member);
            state.update_connections();
            detached
        };
        let calls = detached.into_iter().flat_map(|detached| detached.calls);
        calls.filter_map(|call| call.upgrade()).for_each(|call| call.cancel());
    }

    /// Changes the network conditions.
    pub fn set_conditions(&self, conditions: NetworkConditions) {
        self.0.lock().conditions = conditions;
    }

    /// Cuts the link from one member to another.
    pub fn cut(&self, from: MemberId, to: MemberId) {
        let mut state = self.0.lock();
        state.links.cut(from, to);
        state.update_connections();
    }

    /// Cuts all links between the members for which `is_in_group` holds and the others.
    pub fn partition(&self, members: &[MemberId], is_in_group: impl Fn(MemberId) -> bool) {
        let mut state = self.0.lock();
        state.links.partition(members, is_in_group);
        state.update_connections();
    }

    /// Heals all links.
    pub fn heal(&self) {
        let mut state = self.0.lock();
        state.links.heal();
        state.update_connections();
    }

    /// Returns the digest of all delivered messages.
    pub fn digest(&self) -> Digest {
        self.0.lock().digest
    }

    /// Returns the number of delivered snapshots.
    pub fn snapshots(&self) -> u64 {
        self.0.lock().snapshots
    }

    /// Returns the number of packets in flight.
    pub fn in_flight(&self) -> usize {
        self.0.lock().in_flight.len()
    }

    /// Advances by one step and delivers the packets that are due.
    pub fn step(&self) {
        let due = {
            let mut state = self.0.lock();
            state.step += 1;
            let now = state.step;
            state.in_flight.take_due(now)
        };
        due.for_each(|packet| self.deliver(packet));
    }

    /// Delivers a packet, without holding the lock, since the receiver may send.
    fn deliver(&self, packet: Packet) {
        let Packet { from, to, payload } = packet;
        let (sender, receiver) = {
            let mut state = self.0.lock();
            state.record_arrival(&payload);
            let is_cut = state.links.is_cut(from, to);
            let server_of = |id| state.members.get(&id).map(|it| it.server.clone());
            (server_of(from), server_of(to).filter(|_| !is_cut))
        };
        match payload {
            Payload::Message(message) => match receiver {
                // Raft retries, so a message that the receiver rejects is only lost.
                Some(receiver) => drop(receiver.receive(*message)),
                None => sender.into_iter().for_each(|sender| sender.report_unreachable(to)),
            },
            Payload::Snapshot { message, database } => {
                let arrived = receiver
                    .is_some_and(|it| it.receive_snapshot(*message, &mut &database[..]).is_ok());
                sender.into_iter().for_each(|sender| sender.report_snapshot(to, arrived));
            }
        }
    }

    /// Returns the server of `to` if it is connected with `from` in both directions.
    fn connected_server(&self, from: MemberId, to: MemberId) -> Option<Server> {
        let state = self.0.lock();
        let is_connected = state.is_connected(from, to);
        state.members.get(&to).filter(|_| is_connected).map(|it| it.server.clone())
    }

    /// Sends a peer RPC. It fails at its timeout on the caller's clock, or once a link is cut.
    fn request<T, F>(
        &self,
        from: MemberId,
        to: MemberId,
        timeout: Duration,
        call: F,
    ) -> PeerResponse<T>
    where
        T: Send + 'static,
        F: FnOnce(Server) -> PeerResponse<T>,
    {
        let clock = self.0.lock().members.get(&from).map(|it| Arc::clone(it.server.clock()));
        let (Some(clock), Some(server)) = (clock, self.connected_server(from, to)) else {
            return Box::pin(std::future::ready(Err(PeerRequestError::Failed(
                "unreachable".to_owned(),
            ))));
        };
        let deadline = clock.monotonic().saturating_add(timeout);
        let (network, call) = (self.clone(), self.track_call(to, call(server)));
        Box::pin(std::future::poll_fn(move |cx| {
            if network.connected_server(from, to).is_none() {
                return Poll::Ready(Err(PeerRequestError::Failed("link cut".to_owned())));
            }
            if clock.monotonic() >= deadline {
                return Poll::Ready(Err(PeerRequestError::Timeout("timed out".to_owned())));
            }
            call.poll(cx)
        }))
    }

    /// Records a call to a member, so that detaching the member cancels it.
    fn track_call<T: 'static>(&self, to: MemberId, response: PeerResponse<T>) -> Arc<PeerCall<T>> {
        let call = Arc::new(PeerCall(Mutex::new(Some(response))));
        let weak: Weak<PeerCall<T>> = Arc::downgrade(&call);
        if let Some(connected) = self.0.lock().members.get_mut(&to) {
            connected.calls.retain(|call| call.strong_count() > 0);
            connected.calls.push(weak);
        }
        call
    }
}

impl NetworkState {
    /// Adds an arrived packet to the digest.
    fn record_arrival(&mut self, payload: &Payload) {
        self.digest.add_number(self.step);
        match payload {
            Payload::Message(message) => add_message(&mut self.digest, message),
            Payload::Snapshot { message, database } => {
                add_message(&mut self.digest, message);
                self.digest.add(database);
                self.snapshots += 1;
            }
        }
    }

    /// Returns whether two members are connected in both directions.
    fn is_connected(&self, a: MemberId, b: MemberId) -> bool {
        let is_attached = |id| self.members.contains_key(id);
        is_attached(&a) && is_attached(&b) && !self.links.is_cut(a, b) && !self.links.is_cut(b, a)
    }

    /// Updates the time at which each member's peers connected.
    fn update_connections(&mut self) {
        let ids: Vec<_> = self.members.keys().copied().collect();
        for a in &ids {
            let now = self.members[a].server.now();
            for b in ids.iter().filter(|b| *b != a) {
                let is_connected = self.is_connected(*a, *b);
                let Some(connected) = self.members.get_mut(a) else { continue };
                if is_connected {
                    connected.connected_since.entry(*b).or_insert(now);
                } else {
                    connected.connected_since.remove(b);
                }
            }
            let Some(connected) = self.members.get_mut(a) else { continue };
            connected.connected_since.retain(|b, _| ids.contains(b));
        }
    }

    fn send(&mut self, from: MemberId, message: &raft::Message) {
        let to = message.to;
        // The real transport never duplicates proposals.
        let may_repeat = message.kind != raft::MessageType::MsgProp;
        for delay in self.conditions.draw_copies(&mut self.random, may_repeat) {
            let payload = Payload::Message(Box::new(message.clone()));
            self.schedule(delay, Packet { from, to, payload });
        }
    }

    fn send_snapshot(&mut self, from: MemberId, message: Box<raft::Message>, database: Vec<u8>) {
        let (to, payload) = (message.to, Payload::Snapshot { message, database });
        let delay = self.conditions.draw_delay(&mut self.random);
        self.schedule(delay, Packet { from, to, payload });
    }

    /// Schedules the arrival of a packet.
    fn schedule(&mut self, delay: u64, packet: Packet) {
        self.in_flight.schedule(self.step + delay, packet);
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

/// The transport of one member.
#[derive(Clone)]
pub struct Link {
    local: MemberId,
    network: Network,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("local", &self.local).finish_non_exhaustive()
    }
}

impl Transport for Link {
    fn send(&self, messages: Vec<raft::Message>) {
        let mut state = self.network.0.lock();
        messages.iter().for_each(|message| state.send(self.local, message));
    }

    fn send_snapshot(&self, snapshot: OutgoingSnapshot) {
        let OutgoingSnapshot { message, image } = snapshot;
        let mut database = Vec::new();
        // Writing to memory cannot fail.
        let _ = image.write_to(&mut database);
        self.network.0.lock().send_snapshot(self.local, Box::new(message), database);
    }

    fn active_since(&self, member: MemberId) -> Option<Duration> {
        let state = self.network.0.lock();
        state.members.get(&self.local)?.connected_since.get(&member).copied()
    }

    fn set_members(&self, _: &Membership) {}

    fn request_versions(&self, of: &Member, within: Duration) -> PeerResponse<PeerVersions> {
        self.network.request(self.local, of.id, within, |server| {
            let cluster = server.membership().version();
            let cluster = cluster.map_or("not_decided".to_owned(), |version| version.to_string());
            let versions = PeerVersions { server: SERVER_VERSION.to_owned(), cluster };
            Box::pin(std::future::ready(Ok(versions)))
        })
    }

    fn request_hash(&self, of: &Member, revision: i64, within: Duration) -> PeerResponse<PeerHash> {
        self.network.request(self.local, of.id, within, |server| {
            Box::pin(async move { server.hash_for_peer(revision).await.map_err(to_peer_error) })
        })
    }

    fn request_lease_renewal(
        &self,
        leader: &Member,
        lease: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        self.network.request(self.local, leader.id, within, |server| {
            Box::pin(async move { server.renew_for_peer(lease).await.map_err(to_peer_error) })
        })
    }

    fn request_lease_ttl(
        &self,
        leader: &Member,
        request: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        self.network.request(self.local, leader.id, within, |server| {
            Box::pin(async move { server.lease_for_peer(request).await.map_err(to_peer_error) })
        })
    }

    fn request_promotion(
        &self,
        leader: &Member,
        learner: MemberId,
        token: Option<String>,
        within: Duration,
    ) -> PeerResponse<Vec<Member>> {
        self.network.request(self.local, leader.id, within, |server| {
            Box::pin(
                async move { server.promote_for_peer(token, learner).await.map_err(to_peer_error) },
            )
        })
    }
}

/// Converts an error to the form in which a peer receives it.
fn to_peer_error(error: Error) -> PeerRequestError {
    match error {
        Error::Renew(lease) if lease.to_string() == "lease not found" => {
            PeerRequestError::LeaseNotFound
        }
        Error::Members(refused) => PeerRequestError::Members(refused),
        Error::Unsafe(refused) => PeerRequestError::Unsafe(refused),
        other => PeerRequestError::Failed(other.to_string()),
    }
}
