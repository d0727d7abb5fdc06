//! A linearizability checker for recorded client histories of an etcd-compatible store.
//!
//! Clients record what they do as a [`History`]: each operation with its request, its times and its
//! outcome, and each watch with every response it received. [`check`] decides whether a single
//! store that executes one request after another, each at one instant between its invocation and
//! its response, could have produced exactly these observations. It also checks etcd's watch
//! guarantees and that no acknowledged write is missing at the end.
//!
//! ```text
//! client 1   |- put a="1" → 2 -|      |- put a="2" → 3 -|
//! client 2                                                  |- read a → "1" (mod 2), at 2 -|
//!
//! stale read: client 2 (5..6 ms): read a -> revision 2: 1 found:
//!             [a="1" (mod 2, created 2, version 1)]; yet, before it began,
//!             client 1 (3..4 ms): put a="2" -> revision 3: put
//! ```
//!
//! ```
//! use history::record::{Body, Kv, Put, Range, Request, Response, Span};
//! use history::{History, Operation, Options, Outcome, Record, Rule, check};
//!
//! fn answered(client: u64, at_ms: u64, request: Request, revision: i64, body: Body) -> Record {
//!     let (invoked_ns, at_ns) = (at_ms * 1_000_000, (at_ms + 1) * 1_000_000);
//!     let outcome = Outcome::Answered { at_ns, response: Response { revision, body } };
//!     Record::Operation(Operation { client, member: 0, invoked_ns, request, outcome })
//! }
//! let put = |value: &str| {
//!     Request::Put(Put { key: "a".into(), value: value.into(), lease: 0, prev_kv: false })
//! };
//! let read = Request::Range(Range::now(Span::one("a")));
//! let (key, value) = ("a".into(), "1".into());
//! let old = Kv { key, value, create: 2, modified: 2, version: 1, lease: 0 };
//!
//! let mut history = History::default();
//! history.push(answered(1, 1, put("1"), 2, Body::Put { prev: None }));
//! history.push(answered(1, 3, put("2"), 3, Body::Put { prev: None }));
//! history.push(answered(2, 5, read, 2, Body::Range { kvs: vec![old], count: 1, more: false }));
//!
//! let violations = check(&history, &Options::default()).unwrap_err();
//! assert_eq!(violations[0].rule, Rule::StaleRead);
//! ```
//!
//! Invariants:
//!
//! - An accepted history has an order that explains it; [`check`] returns that order as a [`Log`].
//! - A rejected history has no such order, except for [`Rule::Undecided`]: there the search hit its
//!   step limit.
//! - The verdict and its text depend only on the history and the options, never on time or
//!   randomness.
//!
//! The crate does not record histories or inject faults, and it knows no network, process, protobuf
//! or clock. See `linear` for the search, `watch` for the watch guarantees, `durability` for the
//! final states, and `docs/decisions/2026-11-16-own-history-checker.md` for why we do not use an
//! existing checker.

pub mod record;

mod durability;
mod linear;
mod log;
mod model;
mod options;
mod violation;
mod watch;

pub use log::{Log, RevisionWriter};
pub use model::{Change, KeyHistory, Model};
pub use options::Options;
pub use record::{History, Operation, Outcome, ReadError, Record};
pub use violation::{Rule, Violation};

use watch::Coverage;

/// Checks a history. Returns the order that explains it, or every violation found.
pub fn check(history: &History, options: &Options) -> Result<Log, Vec<Violation>> {
    let mut violations = watch::check_streams(history, options);
    violations.extend(durability::check(history));
    // Events of a watch that contradicts itself must not constrain the search.
    let coverages: Vec<Coverage<'_>> = match violations.is_empty() {
        true => (0..).zip(&history.watches).map(|(i, watch)| Coverage::new(i, watch)).collect(),
        false => Vec::new(),
    };
    match linear::check(history, options, coverages) {
        Err(violation) => violations.insert(0, violation),
        Ok(log) if violations.is_empty() => {
            violations = watch::check_against_log(history, options, &log);
            if violations.is_empty() {
                return Ok(log);
            }
        }
        Ok(_) => {}
    }
    Err(violations)
}
