//! The network: what members say to each other is late, lost, doubled and overtaken, as its weather has it; links are cut, one way or both.
//!
//! Time is counted in steps of the simulation here, so that a message that is late by seven steps is so whatever the clocks of the members say.

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

/// How bad it is, in chances of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// That a message is lost.
    pub loss: u64,
    /// That it arrives twice.
    pub doubling: u64,
    /// How many steps it takes, at most.
    pub delay: u64,
}

/// All links between members. Clones are the same network.
#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<Wires>>);

#[derive(Default)]
struct Wires {
    step: u64,
    weather: Weather,
    random: Option<SeededRandom>,
    under_way: BTreeMap<(u64, u64), Parcel>,
    numbered: u64,
    members: BTreeMap<MemberId, Connected>,
    /// From whom to whom nothing arrives.
    cut: BTreeSet<(MemberId, MemberId)>,
    /// All that arrived.
    digest: Digest,
    snapshots: u64,
}

struct Connected {
    server: Server,
    /// What is asked of it. It goes with it: whoever asked must not keep a member alive.
    asked: Vec<Weak<dyn GivenUp + Send + Sync>>,
    /// By when each other one is connected, on this member's clock.
    since: BTreeMap<MemberId, Duration>,
}

/// A question that a member is at.
struct Question<T>(Mutex<Option<PeerResponse<T>>>);

impl<T> Question<T> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, PeerRequestError>> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(answer) => answer.as_mut().poll(cx),
            None => Poll::Ready(Err(PeerRequestError::Failed("cut off".to_owned()))),
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

/// What is on its way.
struct Parcel {
    from: MemberId,
    to: MemberId,
    what: What,
}

enum What {
    Message(Box<raft::Message>),
    Snapshot { message: Box<raft::Message>, database: Vec<u8> },
}

impl Network {
    /// A network whose moods follow from a seed.
    pub fn new(seed: u64, weather: Weather) -> Network {
        let wires = Wires { weather, random: Some(SeededRandom::new(seed)), ..Wires::default() };
        Network(Arc::new(Mutex::new(wires)))
    }

    fn lock(&self) -> MutexGuard<'_, Wires> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of a member that has not started yet.
    pub fn link(&self, local: MemberId) -> Link {
        Link { local, network: self.clone() }
    }

    /// A member has started.
    pub fn attach(&self, server: &Server) {
        let mut wires = self.lock();
        let (server, since) = (server.clone(), BTreeMap::new());
        let local = server.local();
        let connected = Connected { server, asked: Vec::new(), since };
        wires.members.insert(local, connected);
        wires.note_connections();
    }

    /// A member is gone. What it had sent may still arrive.
    pub fn detach(&self, member: MemberId) {
        let gone = {
            let mut wires = self.lock();
            let gone = wires.members.remove(&member);
            wires.note_connections();
            gone
        };
        let asked = gone.into_iter().flat_map(|gone| gone.asked);
        asked.filter_map(|asked| asked.upgrade()).for_each(|asked| asked.give_up());
    }

    /// Changes the weather.
    pub fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    /// Cuts what one member says to another.
    pub fn cut(&self, from: MemberId, to: MemberId) {
        let mut wires = self.lock();
        wires.cut.insert((from, to));
        wires.note_connections();
    }

    /// Mends all links.
    pub fn heal(&self) {
        let mut wires = self.lock();
        wires.cut.clear();
        wires.note_connections();
    }

    /// All that arrived, as a number.
    pub fn digest(&self) -> Digest {
        self.lock().digest
    }

    /// How many snapshots arrived.
    pub fn snapshots(&self) -> u64 {
        self.lock().snapshots
    }

    /// How much is under way.
    pub fn under_way(&self) -> usize {
        self.lock().under_way.len()
    }

    /// A step passes, and what is due arrives.
    pub fn step(&self) {
        let due = {
            let mut wires = self.lock();
            wires.step += 1;
            let next = (wires.step + 1, 0);
            let later = wires.under_way.split_off(&next);
            std::mem::replace(&mut wires.under_way, later)
        };
        due.into_values().for_each(|parcel| self.deliver(parcel));
    }

    /// Without a lock: whoever gets it may send something.
    fn deliver(&self, parcel: Parcel) {
        let Parcel { from, to, what } = parcel;
        let (sender, receiver) = {
            let mut wires = self.lock();
            wires.note_arrival(&what);
            let is_cut = wires.cut.contains(&(from, to));
            let server = |id| wires.members.get(&id).map(|it| it.server.clone());
            (server(from), server(to).filter(|_| !is_cut))
        };
        match what {
            What::Message(message) => match receiver {
                // What it does not want is lost.
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

    /// A server that another one reaches, both ways.
    fn reached(&self, from: MemberId, to: MemberId) -> Option<Server> {
        let wires = self.lock();
        let is_connected = wires.is_connected(from, to);
        wires.members.get(&to).filter(|_| is_connected).map(|it| it.server.clone())
    }

    /// Asks another server something, for as long as it can be reached and there is time.
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
                return Poll::Ready(Err(PeerRequestError::Failed("cut off".to_owned())));
            }
            if clock.monotonic() >= until {
                return Poll::Ready(Err(PeerRequestError::Timeout("too late".to_owned())));
            }
            answer.poll(cx)
        }))
    }

    /// Notes what is asked of a member.
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

impl Wires {
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

    /// Whether both hear each other.
    fn is_connected(&self, a: MemberId, b: MemberId) -> bool {
        let is_there = |id| self.members.contains_key(id);
        is_there(&a) && is_there(&b) && !self.cut.contains(&(a, b)) && !self.cut.contains(&(b, a))
    }

    /// Notes since when who is connected to whom.
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
        if self.chance(self.weather.loss) {
            return;
        }
        // A proposal is the one thing that may not come twice: whoever carries messages sees to it that it does not.
        let may_double = message.kind != raft::MessageType::MsgProp;
        if may_double && self.chance(self.weather.doubling) {
            self.put(Parcel { from, to, what: What::Message(Box::new(message.clone())) });
        }
        self.put(Parcel { from, to, what: What::Message(Box::new(message)) });
    }

    fn put(&mut self, parcel: Parcel) {
        let late = self.random.as_mut().map_or(0, |it| it.below(self.weather.delay + 1));
        self.numbered += 1;
        self.under_way.insert((self.step + 1 + late, self.numbered), parcel);
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

/// A member's end of the network.
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
        let mut wires = self.network.lock();
        messages.into_iter().for_each(|message| wires.send(self.local, message));
    }

    fn send_snapshot(&self, snapshot: OutgoingSnapshot) {
        let OutgoingSnapshot { message, image } = snapshot;
        let mut database = Vec::new();
        // Nothing can go wrong in writing to memory.
        let _ = image.write_to(&mut database);
        let (to, message) = (message.to, Box::new(message));
        let what = What::Snapshot { message, database };
        self.network.lock().put(Parcel { from: self.local, to, what });
    }

    fn active_since(&self, member: MemberId) -> Option<Duration> {
        let wires = self.network.lock();
        wires.members.get(&self.local)?.since.get(&member).copied()
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

/// An error as it comes over the wire.
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
