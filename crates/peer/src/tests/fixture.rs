//! A transport with a fake member that records what it receives.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use membership::{ClusterId, ConfChangeRefusal, Member, Membership, RaftAttributes};
use mvcc::KeyValueHash;
use net::{Address, Dialer, Listener, LocalAddr, SocketOptions};
use parking_lot::Mutex;
use proto::etcdserverpb as pb;
use raft::{Entry, Message, MessageType};
use server::{Error, PeerHash, ReceiveError, ReceiveSnapshotError, Transport as _};
use testkit::waiting::{TIMEOUT, wait_until};
use types::{ETCD_VERSION, Index, LeaseId, MemberId, Term};

use crate::local_member::{LocalFuture, LocalMember};
use crate::{Config, PeerTransport};

pub(super) const CLUSTER: ClusterId = ClusterId(0xc1);

/// A call to the fake member.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Received(Message),
    Database(Message, Result<Vec<u8>, String>),
    Unreachable(MemberId),
    Snapshot(MemberId, bool),
    Removed,
}

/// A member that records all calls.
#[derive(Debug)]
pub(super) struct FakeMember {
    id: MemberId,
    cluster: ClusterId,
    started: Instant,
    events: Mutex<Sender<Event>>,
    pub(super) members: Mutex<Vec<Member>>,
    pub(super) removed: Mutex<BTreeSet<MemberId>>,
    /// The error returned for received messages.
    pub(super) refusal: Mutex<Option<ReceiveError>>,
}

impl FakeMember {
    fn record(&self, event: Event) {
        // The test may have ended.
        let _ = self.events.lock().send(event);
    }
}

fn ready<T: Send + 'static>(answer: Result<T, Error>) -> LocalFuture<'static, T> {
    Box::pin(std::future::ready(answer))
}

impl LocalMember for FakeMember {
    fn id(&self) -> MemberId {
        self.id
    }

    fn cluster_id(&self) -> ClusterId {
        self.cluster
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn members(&self) -> Vec<Member> {
        self.members.lock().clone()
    }

    fn is_removed(&self, member: MemberId) -> bool {
        self.removed.lock().contains(&member)
    }

    fn receive(&self, message: Message) -> Result<(), ReceiveError> {
        if let Some(refusal) = *self.refusal.lock() {
            return Err(refusal);
        }
        self.record(Event::Received(message));
        Ok(())
    }

    fn receive_snapshot(
        &self,
        message: Message,
        database: &mut dyn Read,
    ) -> Result<u64, ReceiveSnapshotError> {
        let mut bytes = Vec::new();
        let read = database.read_to_end(&mut bytes).map_err(|error| error.to_string());
        let length = bytes.len() as u64;
        let failed = read.as_ref().err().cloned();
        self.record(Event::Database(message, read.map(|_| bytes)));
        failed.map_or(Ok(length), |error| Err(ReceiveSnapshotError::Database(error)))
    }

    fn report_unreachable(&self, member: MemberId) {
        self.record(Event::Unreachable(member));
    }

    fn report_snapshot(&self, to: MemberId, arrived: bool) {
        self.record(Event::Snapshot(to, arrived));
    }

    fn removed_by_others(&self) {
        self.record(Event::Removed);
    }

    fn renew(&self, id: LeaseId) -> LocalFuture<'_, i64> {
        ready(match id.0 {
            7 => Ok(60),
            8 => Err(Error::TimeoutWaitAppliedIndex),
            9 => Err(lease::RenewError::NotPrimary.into()),
            _ => Err(lease::RenewError::NotFound.into()),
        })
    }

    fn lease(&self, r: pb::LeaseTimeToLiveRequest) -> LocalFuture<'_, pb::LeaseTimeToLiveResponse> {
        let keys = if r.keys { vec![Bytes::from_static(b"key")] } else { Vec::new() };
        ready(match r.id {
            7 => Ok(pb::LeaseTimeToLiveResponse {
                header: Some(pb::ResponseHeader::default()),
                id: 7,
                ttl: 55,
                granted_ttl: 60,
                keys,
            }),
            9 => Err(lease::RenewError::NotPrimary.into()),
            _ => Err(lease::RenewError::NotFound.into()),
        })
    }

    fn promote(&self, token: Option<String>, id: MemberId) -> LocalFuture<'_, Vec<Member>> {
        ready(match id.0 {
            3 if token.as_deref() == Some("secret") => Ok(self.members()),
            4 => Err(ConfChangeRefusal::MemberNotLearner.into()),
            5 => Err(membership::reconfig::UnsafeReconfig::LearnerNotReady.into()),
            6 => Err(Error::Timeout),
            _ => Err(ConfChangeRefusal::IdNotFound.into()),
        })
    }

    fn hash(&self, revision: i64) -> LocalFuture<'_, PeerHash> {
        ready(match revision {
            1 => Err(mvcc::Error::Compacted.into()),
            100 => Err(mvcc::Error::FutureRevision.into()),
            revision => {
                let hash = KeyValueHash { hash: 12345, compact_revision: 2, revision };
                Ok(PeerHash { revision: 50, hash })
            }
        })
    }

    fn is_downgrading(&self) -> LocalFuture<'_, bool> {
        ready(Ok(true))
    }
}

/// The fallback handler.
pub(super) struct Fallback;

impl net::Handler for Fallback {
    type Body = Full<Bytes>;

    async fn call(
        &self,
        _: &Arc<net::Connection>,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        let body = match request.uri().path() {
            "/version" => r#"{"etcdserver":"3.7.0","etcdcluster":"3.7.0","storage":"3.7.0"}"#,
            _ => "fallback",
        };
        Response::new(Full::from(body))
    }
}

/// A fake member with its transport.
pub(super) struct TransportFixture {
    pub(super) fake: Arc<FakeMember>,
    pub(super) transport: PeerTransport,
    pub(super) events: Receiver<Event>,
    pub(super) address: SocketAddr,
    url: String,
    registry: prometheus::Registry,
}

/// The settings of a fixture.
pub(super) struct FixtureConfig {
    pub(super) id: u64,
    pub(super) cluster: ClusterId,
    /// Zero for any free port.
    pub(super) port: u16,
    pub(super) timeout: Duration,
    /// Set if TLS is used.
    pub(super) info: Option<tls::Info>,
}

impl FixtureConfig {
    pub(super) fn of(id: u64) -> FixtureConfig {
        FixtureConfig { id, cluster: CLUSTER, port: 0, timeout: crate::TIMEOUT_DEFAULT, info: None }
    }

    pub(super) fn start(self) -> TransportFixture {
        let listener = Listener::bind(
            &Address::Tcp(format!("127.0.0.1:{}", self.port)),
            SocketOptions { reuse_address: true, ..SocketOptions::default() },
        );
        let listener = listener.unwrap();
        let LocalAddr::Tcp(address) = listener.local() else { panic!("the listener is not TCP") };
        let scheme = if self.info.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}");
        let config = Config {
            read_timeout: self.timeout,
            write_timeout: self.timeout,
            ..Config::new(dialer(self.info.clone()), vec![url.clone()])
        };
        let registry = prometheus::Registry::new();
        let transport = PeerTransport::start(config, &registry).unwrap();
        let (sender, events) = channel();
        let fake = Arc::new(FakeMember {
            id: MemberId(self.id),
            cluster: self.cluster,
            started: Instant::now(),
            events: Mutex::new(sender),
            members: Mutex::default(),
            removed: Mutex::default(),
            refusal: Mutex::default(),
        });
        let connections = net::Config { tls: security(self.info), ..net::Config::default() };
        transport.serve(listener, connections, Arc::new(Fallback)).unwrap();
        TransportFixture { fake, transport, events, address, url, registry }
    }
}

/// The TLS mode of the fixture's port.
fn security(info: Option<tls::Info>) -> net::TlsMode {
    let Some(info) = info else { return net::TlsMode::Disabled };
    let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
    let side = Arc::new(tls::ServerTls::load("peer", info, &metrics).unwrap());
    net::TlsMode::Required(net::ListenerTls { server: side, checks_origin: false })
}

fn dialer(info: Option<tls::Info>) -> Dialer {
    let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
    let info = tls::Info { protocol: tls::Protocol::Http1, ..info.unwrap_or_default() };
    let side = tls::ClientTls::load("peer-client", info, &metrics).unwrap();
    Dialer::new(Arc::new(side), Duration::from_secs(2))
}

impl TransportFixture {
    pub(super) fn attach(&self) {
        let local: Arc<FakeMember> = Arc::clone(&self.fake);
        self.transport.attach_local(local);
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    pub(super) fn urls(&self) -> Vec<String> {
        vec![self.url()]
    }

    pub(super) fn member(&self) -> Member {
        member(self.fake.id.0, &[&self.url()])
    }

    pub(super) fn set_members(&self, members: &[Member]) {
        *self.fake.members.lock() = members.to_vec();
        self.transport.set_members(&Membership::of(members.iter().cloned()));
    }

    /// Waits for the next event that matches.
    pub(super) fn next(&self, is_wanted: impl Fn(&Event) -> bool) -> Event {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).expect("timed out waiting for an event");
            if is_wanted(&event) {
                return event;
            }
        }
    }

    /// Waits for the next received message.
    pub(super) fn received(&self) -> Message {
        match self.next(|event| matches!(event, Event::Received(_))) {
            Event::Received(message) => message,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until both streams to a peer are attached.
    pub(super) fn until_streams(&self, to: u64) {
        wait_until("both streams are attached", || self.streams(to) == 2);
    }

    /// Returns whether a stream to a peer is attached.
    pub(super) fn has_streams(&self, to: u64) -> bool {
        self.streams(to) > 0
    }

    fn streams(&self, to: u64) -> usize {
        let peers = self.transport.shared().peers();
        let peer = peers.get(MemberId(to)).expect("the peer is known");
        let queues = crate::stream::StreamKind::ALL.map(|kind| peer.stream_queue(kind));
        queues.iter().filter(|queue| queue.is_attached()).count()
    }

    pub(super) fn is_active(&self, to: u64) -> bool {
        self.transport.active_since(MemberId(to)).is_some()
    }

    /// Returns the metrics in text format.
    pub(super) fn metrics(&self) -> String {
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }

    pub(super) fn stop(self) -> SocketAddr {
        self.transport.stop(TIMEOUT);
        self.address
    }

    /// Connects to the fixture's port.
    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends a request and returns the response without its date.
    pub(super) fn request(&self, head: &str, headers: &str, body: &[u8]) -> String {
        let mut stream = self.connect();
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head =
            format!("{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}{length}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let kept = |line: &&str| !line.starts_with("Date: ");
        answer.split("\r\n").filter(kept).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for TransportFixture {
    fn drop(&mut self) {
        self.transport.stop(Duration::ZERO);
    }
}

/// Starts members that know each other.
pub(super) fn cluster<const N: usize>() -> [TransportFixture; N] {
    let fixtures: [TransportFixture; N] =
        std::array::from_fn(|n| FixtureConfig::of(n as u64 + 1).start());
    let members: Vec<Member> = fixtures.iter().map(TransportFixture::member).collect();
    for fixture in &fixtures {
        fixture.set_members(&members);
        fixture.attach();
    }
    fixtures
}

pub(super) fn member(id: u64, urls: &[&str]) -> Member {
    let peer_urls = urls.iter().map(ToString::to_string).collect();
    let raft = RaftAttributes { peer_urls, is_learner: false };
    Member { id: MemberId(id), raft, ..Member::default() }
}

/// A `MsgApp` with one entry.
pub(super) fn append(from: u64, to: u64, index: u64, data: Bytes) -> Message {
    Message {
        kind: MessageType::MsgApp,
        from: MemberId(from),
        to: MemberId(to),
        term: Term(1),
        log_term: Term(1),
        index: Index(index - 1),
        commit: Index(index - 1),
        entries: vec![Entry { term: Term(1), index: Index(index), data, ..Entry::default() }],
        ..Message::default()
    }
}

/// A `MsgHeartbeat`.
pub(super) fn heartbeat(from: u64, to: u64, commit: u64) -> Message {
    Message {
        kind: MessageType::MsgHeartbeat,
        from: MemberId(from),
        to: MemberId(to),
        term: Term(1),
        commit: Index(commit),
        ..Message::default()
    }
}

/// The headers of a member's request.
pub(super) fn headers(from: u64, to: u64) -> String {
    format!(
        "X-Server-From: {from:x}\r\nX-Server-Version: {ETCD_VERSION}\r\nX-Min-Cluster-Version: 3.0.0\r\nX-Etcd-Cluster-ID: {CLUSTER}\r\nX-Raft-To: {to:x}\r\n"
    )
}

/// Accepts the next connection. Reads from it are bounded, too.
pub(super) fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    wait_until("a connection arrives", || {
        accepted = match listener.accept() {
            Ok((stream, _)) => Some(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        };
        accepted.is_some()
    });
    let stream = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    BufReader::new(stream)
}

/// Reads the head of a request or response.
pub(super) fn read_head(stream: &mut BufReader<TcpStream>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => return lines,
            line => lines.push(line.to_owned()),
        }
    }
}
