//! A generator of correct histories: the reference store with concurrent clients, some of which
//! never receive the outcome of their requests.
//!
//! Each operation takes effect at one instant between its request and its response. An operation of
//! unknown outcome takes effect at any time after its request, or never. So the recorded history is
//! correct by construction.

use std::collections::BTreeMap;

use super::{MS, Random, put_op};
use history::record::{
    Body, Compare, Delete, Event, Final, Hash, Kv, Op, Put, Range, Refusal, Relation, Request,
    Response, Span, Target, Txn, Watch, WatchBody, WatchRequest, WatchResponse,
};
use history::{History, Model, Operation, Outcome};

/// The parameters of a generated history.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) clients: u64,
    pub(crate) operations: usize,
    pub(crate) keys: u64,
    /// Percentage of operations with unknown outcome.
    pub(crate) unknown: u64,
    pub(crate) watches: u64,
    pub(crate) leases: bool,
    pub(crate) compactions: bool,
    /// Whether every put has a unique value.
    pub(crate) unique_values: bool,
    pub(crate) serializable: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            clients: 5,
            operations: 200,
            keys: 5,
            unknown: 10,
            watches: 3,
            leases: true,
            compactions: true,
            unique_values: true,
            serializable: true,
        }
    }
}

/// A scheduled step.
#[derive(Clone, Copy)]
enum Scheduled {
    /// A client sends its next request.
    Send(u64),
    /// A request takes effect; `answer_ns` is the time of its response, if the client gets one.
    Effect { operation: usize, answer_ns: Option<u64> },
    /// A lease may have expired.
    Expiry(i64),
}

pub(crate) struct Generator {
    plan: Plan,
    random: Random,
    model: Model,
    due: BTreeMap<(u64, u64), Scheduled>,
    next_due: u64,
    history: History,
    /// The time at which each revision was made, from 2 on.
    made_ns: Vec<u64>,
    /// The end of each lease.
    leases: BTreeMap<i64, u64>,
    values: u64,
}

/// Records a history.
pub(crate) fn record(seed: u64, plan: Plan) -> History {
    let mut generator = Generator {
        plan,
        random: Random(seed),
        model: Model::default(),
        due: BTreeMap::new(),
        next_due: 0,
        history: History::default(),
        made_ns: Vec::new(),
        leases: BTreeMap::new(),
        values: 0,
    };
    for client in 0..plan.clients {
        generator.schedule(client * MS, Scheduled::Send(client));
    }
    while let Some(((now, _), due)) = generator.due.pop_first() {
        generator.handle(now, due);
    }
    generator.finish();
    generator.history
}

impl Generator {
    fn schedule(&mut self, at: u64, due: Scheduled) {
        self.due.insert((at, self.next_due), due);
        self.next_due += 1;
    }

    fn handle(&mut self, now: u64, due: Scheduled) {
        match due {
            Scheduled::Send(_) if self.history.operations.len() >= self.plan.operations => {}
            Scheduled::Send(client) => self.send(now, client),
            Scheduled::Effect { operation, answer_ns } => self.effect(now, operation, answer_ns),
            Scheduled::Expiry(lease) => self.expiry(now, lease),
        }
        while self.made_ns.len() < usize::try_from(self.model.keys().revision() - 1).unwrap() {
            self.made_ns.push(now);
        }
    }

    fn send(&mut self, now: u64, client: u64) {
        let request = self.request();
        let effect = now + 1 + self.random.below(20 * MS);
        let answer = effect + self.random.below(20 * MS);
        let operation = self.history.operations.len();
        let lost = self.random.chance(self.plan.unknown);
        let outcome = Outcome::Unknown { error: "timeout".into() };
        self.history.operations.push(Operation {
            client,
            member: 0,
            invoked_ns: now,
            request,
            outcome,
        });
        if !lost {
            self.schedule(effect, Scheduled::Effect { operation, answer_ns: Some(answer) });
        } else if self.random.chance(50) {
            let late = effect + self.random.below(200 * MS);
            self.schedule(late, Scheduled::Effect { operation, answer_ns: None });
        }
        let pause = 1 + self.random.below(10 * MS);
        self.schedule(answer + pause, Scheduled::Send(client));
    }

    fn effect(&mut self, now: u64, operation: usize, answer_ns: Option<u64>) {
        let request = self.history.operations[operation].request.clone();
        let result = match &request {
            Request::Range(range) if range.serializable => self.stale(range),
            _ => self.model.apply(&request),
        };
        self.renew(now, &request, &result);
        if let Some(at_ns) = answer_ns {
            self.history.operations[operation].outcome = match result {
                Ok(response) => Outcome::Answered { at_ns, response },
                Err(refusal) => Outcome::Refused { at_ns, refusal },
            };
        }
    }

    /// Returns the response of a member that lags behind.
    fn stale(&mut self, range: &Range) -> Result<Response, Refusal> {
        let now = self.model.keys().revision();
        let lag = i64::try_from(self.random.below(5)).unwrap();
        self.model.stale(range, (now - lag).max(1))
    }

    fn renew(&mut self, now: u64, request: &Request, result: &Result<Response, Refusal>) {
        let Ok(Response { body, .. }) = result else { return };
        let (lease, ttl_s) = match (request, body) {
            (Request::Grant { lease, .. }, Body::Grant { ttl_s, .. })
            | (Request::KeepAlive { lease }, Body::KeepAlive { ttl_s: ttl_s @ 1.. }) => {
                (lease, ttl_s)
            }
            _ => return,
        };
        let ends = now + u64::try_from(*ttl_s).unwrap() * 1000 * MS;
        self.leases.insert(*lease, ends);
        let late = ends + self.random.below(100 * MS);
        self.schedule(late, Scheduled::Expiry(*lease));
    }

    fn expiry(&mut self, now: u64, lease: i64) {
        if self.leases.get(&lease).is_some_and(|ends| *ends <= now) {
            self.leases.remove(&lease);
            self.model.expire(lease);
        }
    }

    fn request(&mut self) -> Request {
        match self.random.below(100) {
            0..30 => Request::Put(self.put()),
            30..40 => Request::Delete(self.delete()),
            40..75 => Request::Range(self.range()),
            75..90 => Request::Txn(self.txn()),
            90..98 if self.plan.leases => self.lease_request(),
            98..100 if self.plan.compactions => {
                let back = i64::try_from(self.random.below(20)).unwrap();
                Request::Compact { revision: self.model.keys().revision() - back }
            }
            _ => Request::Range(Range::now(Span::all())),
        }
    }

    fn lease_request(&mut self) -> Request {
        let lease = *self.random.pick(&[1, 2, 3]) + 10 * (self.leases_so_far() / 3);
        match self.random.below(4) {
            0 => Request::Revoke { lease },
            1 => Request::KeepAlive { lease },
            _ => {
                let lease = 1 + i64::try_from(self.history.operations.len()).unwrap();
                Request::Grant { lease, ttl_s: 1 }
            }
        }
    }

    fn leases_so_far(&self) -> i64 {
        i64::try_from(self.leases.len()).unwrap()
    }

    fn key(&mut self) -> String {
        let key = self.random.below(self.plan.keys);
        format!("k{key}")
    }

    fn span(&mut self) -> Span {
        match self.random.below(6) {
            0 => Span::all(),
            1 => Span::between(&self.key(), &self.key()),
            _ => Span::one(&self.key()),
        }
    }

    fn value(&mut self) -> String {
        self.values += 1;
        let value = if self.plan.unique_values { self.values } else { self.random.below(3) };
        value.to_string()
    }

    fn put(&mut self) -> Put {
        let known: Vec<i64> = self.leases.keys().copied().collect();
        let lease =
            if known.is_empty() || self.random.chance(70) { 0 } else { *self.random.pick(&known) };
        Put { key: self.key(), value: self.value(), lease, prev_kv: self.random.chance(30) }
    }

    fn delete(&mut self) -> Delete {
        Delete { span: self.span(), prev_kv: self.random.chance(30) }
    }

    fn range(&mut self) -> Range {
        let now = self.model.keys().revision();
        let back = i64::try_from(self.random.below(10)).unwrap();
        Range {
            span: self.span(),
            revision: if self.random.chance(20) { (now - back).max(1) } else { 0 },
            limit: if self.random.chance(20) { 2 } else { 0 },
            count_only: self.random.chance(10),
            serializable: false,
        }
        .maybe_serializable(self.plan.serializable && self.random.chance(20))
    }

    fn txn(&mut self) -> Txn {
        let key = self.key();
        let current = self.model.keys().get(&key).cloned();
        let to = match (&current, self.random.below(4)) {
            (Some(kv), 0) => Target::Value(kv.value.clone()),
            (Some(kv), 1) => Target::Version(kv.version),
            (Some(kv), 2) => Target::Create(kv.create),
            (it, _) => Target::Mod(it.as_ref().map_or(0, |kv| kv.modified)),
        };
        let is = *self.random.pick(&[Relation::Equal, Relation::NotEqual, Relation::Less]);
        let compares = vec![Compare { span: Span::one(&key), is, to }];
        let then = vec![
            put_op(&key, &self.value()),
            put_op("txn", &self.value()),
            Op::Range(Range::now(Span::all())),
        ];
        let otherwise = match self.random.below(3) {
            0 => vec![Op::Range(Range { limit: 1, ..Range::now(Span::all()) })],
            1 => vec![Op::Delete(Delete { span: Span::one(&key), prev_kv: true })],
            _ => vec![],
        };
        Txn { compares, then, otherwise }
    }

    /// Adds the watches and the final states of the members.
    fn finish(&mut self) {
        for client in 0..self.plan.watches {
            let watch = self.watch(1000 + client);
            self.history.watches.push(watch);
        }
        let revision = self.model.keys().revision();
        let all = Span::all();
        let kvs: Vec<Kv> =
            self.model.keys().range_at(&all, revision).map(|kv| Kv::clone(kv)).collect();
        for member in 1..=3 {
            let at_ns = 1 << 60;
            self.history.finals.push(Final { member, at_ns, revision, kvs: kvs.clone() });
            self.history.hashes.push(Hash { member, revision, compact_revision: -1, hash: 7 });
        }
    }

    fn watch(&mut self, client: u64) -> Watch {
        let last = self.model.keys().revision();
        let created_at =
            i64::try_from(self.random.below(u64::try_from(last).unwrap())).unwrap() + 1;
        let start = if self.random.chance(50) {
            0
        } else {
            1 + i64::try_from(self.random.below(u64::try_from(last + 3).unwrap())).unwrap()
        };
        let request = WatchRequest {
            span: self.span(),
            start,
            prev_kv: self.random.chance(50),
            no_put: self.random.chance(10),
            no_delete: self.random.chance(10),
        };
        let made = |generator: &Generator, revision: i64| match usize::try_from(revision - 2) {
            Ok(i) => generator.made_ns.get(i).copied().unwrap_or(0),
            Err(_) => 0,
        };
        let mut now = made(self, created_at) + 1;
        let mut responses =
            vec![WatchResponse { at_ns: now, revision: created_at, body: WatchBody::Created }];
        let mut next = if start == 0 { created_at + 1 } else { start };
        while next <= last {
            let upto = (next + i64::try_from(self.random.below(5)).unwrap()).min(last);
            now = now.max(made(self, upto)) + 1 + self.random.below(MS);
            let events = self.events(&request, next, upto);
            let body = match events.is_empty() {
                false => WatchBody::Events(events),
                true if self.random.chance(50) => WatchBody::Progress,
                true => {
                    next = upto + 1;
                    continue;
                }
            };
            responses.push(WatchResponse { at_ns: now, revision: upto, body });
            next = upto + 1;
        }
        Watch { client, member: 0, request, responses }
    }

    fn events(&self, request: &WatchRequest, from: i64, to: i64) -> Vec<Event> {
        let changes = (from..=to).flat_map(|revision| {
            self.model.keys().changes(revision).map(move |change| (revision, change))
        });
        let wanted = changes.filter(|(_, it)| request.wants(&it.key, it.after.is_none()));
        wanted
            .map(|(revision, change)| {
                let event = match &change.after {
                    Some(kv) => Event::put(Kv::clone(kv)),
                    None => Event::delete(&change.key, revision),
                };
                let prev = change.before.as_deref().filter(|_| request.prev_kv).cloned();
                Event { prev, ..event }
            })
            .collect()
    }
}

trait MaybeSerializable {
    fn maybe_serializable(self, serializable: bool) -> Range;
}

impl MaybeSerializable for Range {
    /// A serializable read never has a revision here: it reads the member's newest.
    fn maybe_serializable(self, serializable: bool) -> Range {
        let revision = if serializable { 0 } else { self.revision };
        Range { serializable, revision, ..self }
    }
}
