//! Hand-written histories, and histories generated from the reference store.

pub(crate) mod exhaustive;
pub(crate) mod generator;

use history::record::{
    Body, Delete, Event, Kv, Op, Put, Range, Refusal, Request, Response, Span, Watch, WatchBody,
    WatchRequest, WatchResponse,
};
use history::{History, Operation, Options, Outcome, Rule, check};

/// Nanoseconds per millisecond; tests give times in milliseconds.
pub(crate) const MS: u64 = 1_000_000;

/// A seeded random number generator (SplitMix64).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[usize::try_from(self.below(items.len() as u64)).unwrap()]
    }
}

pub(crate) fn put(key: &str, value: &str) -> Request {
    Request::Put(Put { key: key.into(), value: value.into(), lease: 0, prev_kv: false })
}

pub(crate) fn put_on(key: &str, value: &str, lease: i64) -> Request {
    Request::Put(Put { key: key.into(), value: value.into(), lease, prev_kv: false })
}

pub(crate) fn put_op(key: &str, value: &str) -> Op {
    Op::Put(Put { key: key.into(), value: value.into(), lease: 0, prev_kv: false })
}

pub(crate) fn delete(key: &str) -> Request {
    Request::Delete(Delete { span: Span::one(key), prev_kv: false })
}

pub(crate) fn read(key: &str) -> Request {
    Request::Range(Range::now(Span::one(key)))
}

pub(crate) fn read_all() -> Request {
    Request::Range(Range::now(Span::all()))
}

pub(crate) fn kv(key: &str, value: &str, create: i64, modified: i64, version: i64) -> Kv {
    Kv { key: key.into(), value: value.into(), create, modified, version, lease: 0 }
}

pub(crate) fn found(kvs: &[Kv]) -> Body {
    Body::Range { kvs: kvs.to_vec(), count: i64::try_from(kvs.len()).unwrap(), more: false }
}

pub(crate) const PUT: Body = Body::Put { prev: None };

/// Returns an operation of `client` from `from` to `to` milliseconds, answered at `revision`.
pub(crate) fn answered(
    client: u64,
    from: u64,
    to: u64,
    request: Request,
    revision: i64,
    body: Body,
) -> Operation {
    let response = Response { revision, body };
    let outcome = Outcome::Answered { at_ns: to * MS, response };
    Operation { client, member: 0, invoked_ns: from * MS, request, outcome }
}

/// Returns a refused operation.
pub(crate) fn refused(
    client: u64,
    from: u64,
    to: u64,
    request: Request,
    refusal: Refusal,
) -> Operation {
    let outcome = Outcome::Refused { at_ns: to * MS, refusal };
    Operation { client, member: 0, invoked_ns: from * MS, request, outcome }
}

/// Returns an operation of unknown outcome.
pub(crate) fn unknown(client: u64, from: u64, request: Request) -> Operation {
    let outcome = Outcome::Unknown { error: "timeout".into() };
    Operation { client, member: 0, invoked_ns: from * MS, request, outcome }
}

/// Returns a watch that received responses, each given as time, header revision and body.
pub(crate) fn watch(
    client: u64,
    request: WatchRequest,
    responses: Vec<(u64, i64, WatchBody)>,
) -> Watch {
    let response = |(at, revision, body)| WatchResponse { at_ns: at * MS, revision, body };
    Watch { client, member: 0, request, responses: responses.into_iter().map(response).collect() }
}

pub(crate) fn events(events: &[Event]) -> WatchBody {
    WatchBody::Events(events.to_vec())
}

pub(crate) fn history(operations: Vec<Operation>) -> History {
    History { operations, ..History::default() }
}

/// Checks that the history is accepted.
pub(crate) fn accept(history: &History) -> history::Log {
    match check(history, &Options::default()) {
        Ok(log) => log,
        Err(violations) => panic!("rejected a correct history: {violations:#?}"),
    }
}

/// Checks that the first violation is of this rule and returns its text.
pub(crate) fn reject(history: &History, rule: Rule) -> String {
    let violations = check(history, &Options::default()).expect_err("accepted a wrong history");
    assert_eq!(violations[0].rule, rule, "{violations:#?}");
    violations[0].text.clone()
}
