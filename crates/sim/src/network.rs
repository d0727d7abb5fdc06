//! A simulated network that delays, loses, duplicates and reorders messages, and whose links can be
//! cut in one direction or both.
//!
//! Delays are counted in steps of the simulation, independent of the members' clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use env::SeededRandom;
use membership::{Member, Membership};
use proto::etcdserverpb as pb;
use server::{
    Error, OutgoingSnapshot, PeerHash, PeerRequestError, PeerResponse, PeerVersions,
    SERVER_VERSION, Server, Transport,
};
use types::{LeaseId, MemberId};

use crate::digest::Digest;

/// The quality of the network, as probabilities per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkConditions {
    /// Probability that a message is lost.
    pub loss: u64,
    /// Probability that a message is duplicated.
    pub doubling: u64,
    /// Maximum delay in steps.
    pub delay: u64,
}

/// All links between members. Clones share the network.
#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<NetworkState>>);

#[derive(Default)]
struct NetworkState {
    step: u64,
    conditions: NetworkConditions,
    random: Option<SeededRandom>,
    in_flight: BTreeMap<(u64, u64), Packet>,
    numbered: u64,
    members: BTreeMap<MemberId, Connected>,
    /// Links that are cut, as (from, to).
    cut: BTreeSet<(MemberId, MemberId)>,
    /// Digest of all delivered messages.
    digest: Digest,
    snapshots: u64,
}

struct Connected {
    server: Server,
    /// Requests of other members. They are dropped with the member, so that a caller does not keep
    /// it alive.
    asked: Vec<Weak<dyn GivenUp + Send + Sync>>,
    /// Time since when each peer is connected, on this member's clock.
    since: BTreeMap<MemberId, Duration>,
}

/// A request that a member is processing.
struct Question<T>(Mutex<Option<PeerResponse<T>>>);

impl<T> Question<T> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, PeerRequestError>> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(answer) => answer.as_mut().poll(cx),
            None => Poll::Ready(Err(PeerRequestError::Failed("link cut".to_owned()))),
        }
    }
}

trait GivenUp {
    fn give_up(&self);
}

impl<T> GivenUp for Question<T> {
    fn give_up(&self) {
        let given_up = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(given_up);
    }
}

/// Contents of a packet.
struct Packet {
    from: MemberId,
    to: MemberId,
    what: What,
}

enum What {
    Message(Box<raft::Message>),
    Snapshot { message: Box<raft::Message>, database: Vec<u8> },
}

impl Network {
    /// Creates a network whose behaviour follows from a seed.
    pub fn new(seed: u64, conditions: NetworkConditions) -> Network {
        let state = NetworkState {
            conditions,
            random: Some(SeededRandom::new(seed)),
            ..NetworkState::default()
        };
        Network(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the link of a member that has not started yet.
    pub fn link(&self, local: MemberId) -> Link {
        Link { local, network: self.clone() }
    }

    /// Connects a started member.
    pub fn attach(&self, server: &Server) {
        let mut state = self.lock();
        let (server, since) = (server.clone(), BTreeMap::new());
        let local = server.local();
        let connected = Connected { server, asked: Vec::new(), since };
        state.members.insert(local, connected);
        state.note_connections();
    }

    /// Disconnects a member. Its messages in flight may still arrive.
    pub fn detach(&self, member: MemberId) {
        let gone = {
            let mut state = self.lock();
            let gone = state.members.remove(&member);
            state.note_connections();
            gone
        };
        let asked = gone.into_iter().flat_map(|gone| gone.asked);
        asked.filter_map(|asked| asked.upgrade()).for_each(|asked| asked.give_up());
    }

    /// Changes the network conditions.
    pub fn set_weather(&self, conditions: NetworkConditions) {
        self.lock().conditions = conditions;
    }

    /// Cuts the link from one member to another.
    pub fn cut(&self, from: MemberId, to: MemberId) {
        let mut state = self.lock();
        state.cut.insert((from, to));
        state.note_connections();
    }

    /// Heals all links.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.cut.clear();
        state.note_connections();
    }

    /// Returns the digest of all delivered messages.
    pub fn digest(&self) -> Digest {
        self.lock().digest
    }

    /// Returns the number of delivered snapshots.
    pub fn snapshots(&self) -> u64 {
        self.lock().snapshots
    }

    /// Returns the number of packets in flight.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight.len()
    }

    /// Advances by one step and delivers the packets that are due.
    pub fn step(&self) {
        let due = {
            let mut state = self.lock();
            state.step += 1;
            let next = (state.step + 1, 0);
            let later = state.in_flight.split_off(&next);
            std::mem::replace(&mut state.in_flight, later)
        };
        due.into_values().for_each(|packet| self.deliver(packet));
    }

    /// Delivers without holding the lock, since the receiver may send.
    fn deliver(&self, packet: Packet) {
        let Packet { from, to, what } = packet;
        let (sender, receiver) = {
            let mut state = self.lock();
            state.note_arrival(&what);
            let is_cut = state.cut.contains(&(from, to));
            let server = |id| state.members.get(&id).map(|it| it.server.clone());
            (server(from), server(to).filter(|_| !is_cut))
        };
        match what {
            What::Message(message) => match receiver {
                // A rejected message is lost.
                Some(receiver) => drop(receiver.receive(*message)),
                None => sender.into_iter().for_each(|sender| sender.report_unreachable(to)),
            },
            What::Snapshot { message, database } => {
                let arrived = receiver
                    .is_some_and(|it| it.receive_snapshot(*message, &mut &database[..]).is_ok());
                sender.into_iter().for_each(|sender| sender.report_snapshot(to, arrived));
            }
        }
    }

    /// Returns a server if both directions are connected.
    fn reached(&self, from: MemberId, to: MemberId) -> Option<Server> {
        let state = self.lock();
        let is_connected = state.is_connected(from, to);
        state.members.get(&to).filter(|_| is_connected).map(|it| it.server.clone())
    }

    /// Sends a request to another server, with a timeout.
    fn ask<T, F>(
        &self,
        from: MemberId,
        to: MemberId,
        within: Duration,
        question: F,
    ) -> PeerResponse<T>
    where
        T: Send + 'static,
        F: FnOnce(Server) -> PeerResponse<T>,
    {
        let clock = self.lock().members.get(&from).map(|it| Arc::clone(it.server.clock()));
        let (Some(clock), Some(asked)) = (clock, self.reached(from, to)) else {
            return Box::pin(std::future::ready(Err(PeerRequestError::Failed(
                "unreachable".to_owned(),
            ))));
        };
        let until = clock.monotonic().saturating_add(within);
        let (network, answer) = (self.clone(), self.keep(to, question(asked)));
        Box::pin(std::future::poll_fn(move |cx| {
            if network.reached(from, to).is_none() {
                return Poll::Ready(Err(PeerRequestError::Failed("link cut".to_owned())));
            }
            if clock.monotonic() >= until {
                return Poll::Ready(Err(PeerRequestError::Timeout("timed out".to_owned())));
            }
            answer.poll(cx)
        }))
    }

    /// Records a request to a member.
    fn keep<T: 'static>(&self, of: MemberId, answer: PeerResponse<T>) -> Arc<Question<T>> {
        let question = Arc::new(Question(Mutex::new(Some(answer))));
        let weak: Weak<Question<T>> = Arc::downgrade(&question);
        if let Some(connected) = self.lock().members.get_mut(&of) {
            connected.asked.retain(|asked| asked.strong_count() > 0);
            connected.asked.push(weak);
        }
        question
    }
}

impl NetworkState {
    fn note_arrival(&mut self, what: &What) {
        self.digest.add_number(self.step);
        match what {
            What::Message(message) => self.digest.add_message(message),
            What::Snapshot { message, database } => {
                self.digest.add_message(message);
                self.digest.add(database);
                self.snapshots += 1;
            }
        }
    }

    /// Whether both directions are connected.
    fn is_connected(&self, a: MemberId, b: MemberId) -> bool {
        let is_there = |id| self.members.contains_key(id);
        is_there(&a) && is_there(&b) && !self.cut.contains(&(a, b)) && !self.cut.contains(&(b, a))
    }

    /// Updates the times since when peers are connected.
    fn note_connections(&mut self) {
        let ids: Vec<_> = self.members.keys().copied().collect();
        for a in &ids {
            let now = self.members[a].server.now();
            for b in ids.iter().filter(|b| *b != a) {
                let is_connected = self.is_connected(*a, *b);
                let Some(connected) = self.members.get_mut(a) else { continue };
                if is_connected {
                    connected.since.entry(*b).or_insert(now);
                } else {
                    connected.since.remove(b);
                }
            }
            let Some(connected) = self.members.get_mut(a) else { continue };
            connected.since.retain(|b, _| ids.contains(b));
        }
    }

    fn chance(&mut self, of_a_thousand: u64) -> bool {
        self.random.as_mut().is_some_and(|random| random.chance(of_a_thousand, 1000))
    }

    fn send(&mut self, from: MemberId, message: raft::Message) {
        let to = message.to;
        if self.chance(self.conditions.loss) {
            return;
        }
        // Proposals must not be duplicated; the real transport guarantees this.
        let may_double = message.kind != raft::MessageType::MsgProp;
        if may_double && self.chance(self.conditions.doubling) {
            self.put(Packet { from, to, what: What::Message(Box::new(message.clone())) });
        }
        self.put(Packet { from, to, what: What::Message(Box::new(message)) });
    }

    fn put(&mut self, packet: Packet) {
        let late = self.random.as_mut().map_or(0, |it| it.below(self.conditions.delay + 1));
        self.numbered += 1;
        self.in_flight.insert((self.step + 1 + late, self.numbered), packet);
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
        let mut state = self.network.lock();
        messages.into_iter().for_each(|message| state.send(self.local, message));
    }

    fn send_snapshot(&self, snapshot: OutgoingSnapshot) {
        let OutgoingSnapshot { message, image } = snapshot;
        let mut database = Vec::new();
        // Writing to memory cannot fail.
        let _ = image.write_to(&mut database);
        let (to, message) = (message.to, Box::new(message));
        let what = What::Snapshot { message, database };
        self.network.lock().put(Packet { from: self.local, to, what });
    }

    fn active_since(&self, member: MemberId) -> Option<Duration> {
        let state = self.network.lock();
        state.members.get(&self.local)?.since.get(&member).copied()
    }

    fn set_members(&self, _: &Membership) {}

    fn request_versions(&self, of: &Member, within: Duration) -> PeerResponse<PeerVersions> {
        self.network.ask(self.local, of.id, within, |asked| {
            let cluster = asked.state().cluster.now().version();
            let cluster = cluster.map_or("not_decided".to_owned(), |version| version.to_string());
            let server = SERVER_VERSION.to_owned();
            Box::pin(std::future::ready(Ok(PeerVersions { server, cluster })))
        })
    }

    fn request_hash(&self, of: &Member, revision: i64, within: Duration) -> PeerResponse<PeerHash> {
        self.network.ask(self.local, of.id, within, |asked| {
            Box::pin(async move { asked.hash_for_peer(revision).await.map_err(ask_error) })
        })
    }

    fn request_lease_renewal(
        &self,
        leader: &Member,
        lease: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        self.network.ask(self.local, leader.id, within, |asked| {
            Box::pin(async move { asked.renew_for_peer(lease).await.map_err(ask_error) })
        })
    }

    fn request_lease_ttl(
        &self,
        leader: &Member,
        request: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        self.network.ask(self.local, leader.id, within, |asked| {
            Box::pin(async move { asked.lease_for_peer(request).await.map_err(ask_error) })
        })
    }

    fn request_promotion(
        &self,
        leader: &Member,
        learner: MemberId,
        token: Option<String>,
        within: Duration,
    ) -> PeerResponse<Vec<Member>> {
        self.network.ask(self.local, leader.id, within, |asked| {
            Box::pin(async move { asked.promote_for_peer(token, learner).await.map_err(ask_error) })
        })
    }
}

/// Converts an error to its form on the wire.
fn ask_error(error: Error) -> PeerRequestError {
    match error {
        Error::Renew(lease) if lease.to_string() == "lease not found" => {
            PeerRequestError::LeaseNotFound
        }
        Error::Members(refused) => PeerRequestError::Members(refused),
        Error::Unsafe(refused) => PeerRequestError::Unsafe(refused),
        other => PeerRequestError::Failed(other.to_string()),
    }
}
