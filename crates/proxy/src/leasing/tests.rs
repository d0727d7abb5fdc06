//! Two proxies and one store, with every order of requests, answers, events and losses that a seed
//! picks.
//!
//! Each step of the protocol is a message in flight that the store executes, or never, or after its
//! sender has given up; answers and events arrive late and in any order between proxies. After
//! every step, each key that a proxy would answer from memory must have the value of the store; at
//! the end, no proxy keeps a key that another one has revoked.

use std::collections::BTreeMap;
use std::time::Duration;

use env::SeededRandom;
use proto::etcdserverpb::compare::TargetUnion;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeResponse, PutRequest, PutResponse, RequestOp, TxnRequest,
};
use proto::mvccpb::Event;
use proto::mvccpb::event::EventType;
use tokio::time::Instant;

use super::keys::{LeasingEvent, Release, WriteTicket};
use super::write::{WriteTargets, finish, guarded, refuse};
use super::*;

const KEYS: [&str; 2] = ["a", "b"];
const SEEDS: u64 = 400;
const STEPS: usize = 400;
/// Rounds of deliveries after which nothing is in flight.
const ROUNDS: usize = 50;

/// A store with the operations that the protocol uses.
#[derive(Default)]
struct Store {
    revision: i64,
    keys: BTreeMap<Bytes, KeyValue>,
    events: Vec<Event>,
}

impl Store {
    fn run(&mut self, txn: &TxnRequest) -> TxnResponse {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        self.revision += 1;
        let responses = ops.iter().map(|op| ResponseOp { response: Some(self.op(op)) }).collect();
        let header = ResponseHeader { revision: self.revision, ..ResponseHeader::default() };
        TxnResponse { header: Some(header), succeeded, responses }
    }

    fn holds(&self, compare: &Compare) -> bool {
        assert!(compare.range_end.is_empty(), "ranges are not modeled");
        let found = self.keys.get(&compare.key).cloned().unwrap_or_default();
        match compare.target_union {
            Some(TargetUnion::CreateRevision(revision)) => found.create_revision == revision,
            Some(TargetUnion::Lease(lease)) => found.lease == lease,
            _ => panic!("{compare:?} is not modeled"),
        }
    }

    fn op(&mut self, op: &RequestOp) -> Response {
        match op.request.as_ref().unwrap() {
            Request::RequestRange(range) => Response::ResponseRange(RangeResponse {
                kvs: self.keys.get(&range.key).cloned().into_iter().collect(),
                ..RangeResponse::default()
            }),
            Request::RequestPut(put) => {
                self.put(put);
                Response::ResponsePut(PutResponse::default())
            }
            Request::RequestDeleteRange(delete) => {
                self.delete(&delete.key);
                Response::ResponseDeleteRange(DeleteRangeResponse::default())
            }
            Request::RequestTxn(_) => panic!("nested transactions are not modeled"),
        }
    }

    fn put(&mut self, put: &PutRequest) {
        let before = self.keys.get(&put.key).cloned();
        let created = KeyValue { create_revision: self.revision, ..KeyValue::default() };
        let before = before.unwrap_or(created);
        let kv = KeyValue {
            key: put.key.clone(),
            value: put.value.clone(),
            mod_revision: self.revision,
            version: before.version + 1,
            lease: if put.ignore_lease { before.lease } else { put.lease },
            ..before
        };
        self.event(EventType::Put, kv.clone());
        self.keys.insert(put.key.clone(), kv);
    }

    fn delete(&mut self, key: &Bytes) {
        if self.keys.remove(key).is_some() {
            let (key, mod_revision) = (key.clone(), self.revision);
            self.event(EventType::Delete, KeyValue { key, mod_revision, ..KeyValue::default() });
        }
    }

    fn expire(&mut self, lease: i64) {
        self.revision += 1;
        let attached: Vec<Bytes> =
            self.keys.values().filter(|kv| kv.lease == lease).map(|kv| kv.key.clone()).collect();
        attached.iter().for_each(|key| self.delete(key));
    }

    fn event(&mut self, event_type: EventType, kv: KeyValue) {
        self.events.push(Event { r#type: event_type.into(), kv: Some(kv), prev_kv: None });
    }
}

/// The sender of a message, which waits for the answer.
enum Sender {
    Acquire(AcquireTicket),
    Write(WriteTicket),
    /// The leasing key is read first.
    Find(Release),
    Release(Release),
    Revoke,
    /// The sender has given up.
    Gone,
}

/// A message in flight.
struct Message {
    proxy: usize,
    txn: TxnRequest,
    sender: Sender,
    answer: Option<TxnResponse>,
}

struct ProxyModel {
    keys: Arc<OwnedKeys>,
    lease: i64,
    /// The number of events that it has received.
    received: usize,
}

struct Model {
    leasing_keys: LeasingKeys,
    store: Store,
    proxies: [ProxyModel; 2],
    messages: Vec<Message>,
    /// Leases of sessions that have ended.
    ended: Vec<i64>,
    last_lease: i64,
    random: SeededRandom,
    /// Reads that were answered from memory.
    local_reads: usize,
}

impl Model {
    fn new(seed: u64) -> Model {
        let proxy = |_| ProxyModel { keys: Arc::default(), lease: 0, received: 0 };
        let mut model = Model {
            leasing_keys: LeasingKeys::new("l/"),
            store: Store::default(),
            proxies: [0, 1].map(proxy),
            messages: Vec::new(),
            ended: Vec::new(),
            last_lease: 0,
            random: SeededRandom::new(seed),
            local_reads: 0,
        };
        (0..2).for_each(|proxy| model.start_session(proxy));
        model
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap()
    }

    fn start_session(&mut self, proxy: usize) {
        self.last_lease += 1;
        let proxy = &mut self.proxies[proxy];
        proxy.lease = self.last_lease;
        // The watch of a session starts with it.
        proxy.received = self.store.events.len();
        proxy.keys.start_session(proxy.lease, Instant::now() + Duration::from_secs(3600));
    }

    fn send(&mut self, proxy: usize, txn: TxnRequest, sender: Sender) {
        self.messages.push(Message { proxy, txn, sender, answer: None });
    }

    async fn step(&mut self) {
        let proxy = self.below(2);
        let key = Bytes::from(KEYS[self.below(2)]);
        match self.below(100) {
            0..15 => self.read(proxy, &key),
            15..30 => self.write(proxy, &key),
            30..55 => self.execute(),
            55..80 => self.answer(),
            80..90 => (0..=self.below(8)).for_each(|_| self.receive(proxy)),
            90..95 => self.release(proxy),
            95..97 => self.give_up(),
            97 => self.end_session(proxy),
            98 => self.expire(),
            // Longer than a key is left alone after a revocation.
            _ => tokio::time::advance(Duration::from_secs(3)).await,
        }
        self.check();
    }

    fn read(&mut self, proxy: usize, key: &Bytes) {
        match self.proxies[proxy].keys.lookup(key, true) {
            Lookup::Owned(..) => self.local_reads += 1,
            Lookup::Free(ticket) => {
                let txn = self.leasing_keys.acquire(key, ticket.lease());
                self.send(proxy, txn, Sender::Acquire(ticket));
            }
            Lookup::PassOn => {}
        }
    }

    fn write(&mut self, proxy: usize, key: &Bytes) {
        let request = match self.below(4) {
            0 => Request::RequestDeleteRange(proto::etcdserverpb::DeleteRangeRequest {
                key: key.clone(),
                ..Default::default()
            }),
            _ => Request::RequestPut(PutRequest {
                key: key.clone(),
                value: self.below(1_000_000).to_string().into(),
                ..PutRequest::default()
            }),
        };
        let targets = WriteTargets::of(&request);
        let ticket = self.proxies[proxy].keys.begin_write(std::slice::from_ref(key));
        let write = RequestOp { request: Some(request) };
        let txn = guarded(&self.leasing_keys, write, &targets, &ticket);
        self.send(proxy, txn, Sender::Write(ticket));
    }

    /// Executes a message at the store.
    fn execute(&mut self) {
        let waiting: Vec<usize> =
            (0..self.messages.len()).filter(|at| self.messages[*at].answer.is_none()).collect();
        if waiting.is_empty() {
            return;
        }
        let at = waiting[self.below(waiting.len())];
        let answer = self.store.run(&self.messages[at].txn);
        self.messages[at].answer = Some(answer);
    }

    /// Delivers an answer.
    fn answer(&mut self) {
        let answered: Vec<usize> =
            (0..self.messages.len()).filter(|at| self.messages[*at].answer.is_some()).collect();
        if answered.is_empty() {
            return;
        }
        let at = answered[self.below(answered.len())];
        let Message { proxy, sender, answer, .. } = self.messages.swap_remove(at);
        let answer = answer.unwrap();
        match sender {
            Sender::Acquire(ticket) => drop(settle(ticket, answer)),
            Sender::Write(ticket) => self.answer_write(proxy, answer, ticket),
            Sender::Find(release) => self.answer_find(proxy, answer, release),
            Sender::Release(release) => self.proxies[proxy].keys.released(&release),
            Sender::Revoke | Sender::Gone => {}
        }
    }

    fn answer_write(&mut self, proxy: usize, answer: TxnResponse, ticket: WriteTicket) {
        if answer.succeeded {
            let header = answer.header.unwrap();
            finish(answer, header, ticket).unwrap();
            return;
        }
        let owners = refuse(&self.leasing_keys, answer, ticket);
        for owner in owners.iter().filter(|owner| owner.value != REVOKE) {
            let txn = requests::revoke(&owner.key, owner.create_revision);
            self.send(proxy, txn, Sender::Revoke);
        }
    }

    fn answer_find(&mut self, proxy: usize, answer: TxnResponse, release: Release) {
        let found = answer.responses.into_iter().next().and_then(only_key);
        match found.filter(|kv| kv.lease == release.lease) {
            Some(own) => {
                let txn = self.leasing_keys.release(&release.key, own.create_revision);
                self.send(proxy, txn, Sender::Release(release));
            }
            None => self.proxies[proxy].keys.released(&release),
        }
    }

    /// Delivers the next event to a proxy.
    fn receive(&mut self, proxy: usize) {
        let proxy = &mut self.proxies[proxy];
        let Some(event) = self.store.events.get(proxy.received) else { return };
        proxy.received += 1;
        let Some(key) = self.leasing_keys.owned_by(&event.kv.as_ref().unwrap().key) else { return };
        proxy.keys.apply(&key, LeasingEvent::parse(event, REVOKE).unwrap());
    }

    fn release(&mut self, proxy: usize) {
        let Some(release) = self.proxies[proxy].keys.next_release() else { return };
        match release.owned_since {
            Some(since) => {
                let txn = self.leasing_keys.release(&release.key, since);
                self.send(proxy, txn, Sender::Release(release));
            }
            None => {
                let key = self.leasing_keys.of(&release.key);
                let range = RangeRequest { key, ..RangeRequest::default() };
                let read = RequestOp { request: Some(Request::RequestRange(range)) };
                let txn = TxnRequest { success: vec![read], ..TxnRequest::default() };
                self.send(proxy, txn, Sender::Find(release));
            }
        }
    }

    /// Has a client cancel its call. The message is executed later, or was before.
    fn give_up(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let at = self.below(self.messages.len());
        let message = &mut self.messages[at];
        match std::mem::replace(&mut message.sender, Sender::Gone) {
            // Repeated until it is answered: a second message, and the first one still on its way.
            again @ (Sender::Find(_) | Sender::Release(_)) => {
                let (proxy, txn) = (message.proxy, message.txn.clone());
                self.send(proxy, txn, again);
            }
            gone => drop(gone),
        }
    }

    /// Ends a session. Its lease expires later, and another session begins.
    fn end_session(&mut self, proxy: usize) {
        self.proxies[proxy].keys.end_session();
        self.ended.push(self.proxies[proxy].lease);
        // Its releases are no longer repeated.
        for message in self.messages.iter_mut().filter(|message| message.proxy == proxy) {
            if matches!(message.sender, Sender::Find(_) | Sender::Release(_)) {
                message.sender = Sender::Gone;
            }
        }
        self.start_session(proxy);
    }

    fn expire(&mut self) {
        if let Some(lease) = self.ended.pop() {
            self.store.expire(lease);
            // A lease that does not exist cannot be put with.
            let lost = |message: &Message| matches!(&message.sender, Sender::Acquire(ticket) if ticket.lease() == lease);
            self.messages.retain(|message| message.answer.is_some() || !lost(message));
            let puts_with = |message: &Message| {
                message.txn.success.iter().any(|op| {
                    matches!(&op.request, Some(Request::RequestPut(put)) if put.lease == lease)
                })
            };
            self.messages.retain(|message| message.answer.is_some() || !puts_with(message));
        }
    }

    /// Delivers all that is in flight. No proxy then keeps a key that was revoked.
    fn drain(&mut self) {
        for _ in 0..ROUNDS {
            while self.messages.iter().any(|message| message.answer.is_none()) {
                self.execute();
            }
            while self.messages.iter().any(|message| message.answer.is_some()) {
                self.answer();
            }
            for proxy in 0..2 {
                while self.proxies[proxy].received < self.store.events.len() {
                    self.receive(proxy);
                }
                self.release(proxy);
            }
            self.check();
        }
        assert!(self.messages.is_empty(), "messages are in flight after {ROUNDS} rounds");
        let live = self.proxies.each_ref().map(|proxy| proxy.lease);
        let revoked = self.store.keys.values().find(|kv| kv.value == REVOKE);
        assert_eq!(revoked.filter(|kv| live.contains(&kv.lease)), None, "writers wait forever");
    }

    fn check(&self) {
        for (number, proxy) in self.proxies.iter().enumerate() {
            for key in KEYS.map(Bytes::from) {
                let stored = self.store.keys.get(&key);
                proxy.keys.view(|view| {
                    view.get(&key).inspect(|found| {
                        assert_eq!(*found, stored, "proxy {number} has a stale {key:?}");
                    });
                    None::<()>
                });
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_is_stale_in_any_order_of_messages() {
    let mut local_reads = 0;
    for seed in 0..SEEDS {
        let mut model = Model::new(seed);
        for _ in 0..STEPS {
            model.step().await;
        }
        model.drain();
        local_reads += model.local_reads;
    }
    assert!(local_reads > 1000, "only {local_reads} reads were answered from memory");
}
