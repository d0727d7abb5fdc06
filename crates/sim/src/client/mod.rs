//! Clients that send requests to any member, time out, go on with another member, and record every
//! request and response.
//!
//! ```text
//!   client 1   put k3="v7" ──► b ────────── revision 12
//!   client 2   read k3 ──────► c ── c killed: connection lost ─► outcome unknown; retries at a
//!   watcher 9  from 5 ───────► a   5: put k1   9: delete k1 ── cut ──► b, from 10
//! ```
//!
//! The recorded history is checked by `history`.

mod generate;
mod observed;
mod send;
mod watcher;

use std::collections::BTreeMap;
use std::time::Duration;

use history::record::{Body, Defragment, Final, Hash, Outcome, Range, Request, Response, Span};
use history::{History, Operation};
use server::{Error, Server};
use simkit::RandomExt as _;
use types::MemberId;

use crate::journal::Journal;
use crate::poll_once;
use generate::RequestGenerator;
pub(crate) use send::{ResponseFuture, anonymous};
use watcher::Watcher;

/// Error of a request whose connection was lost.
const LOST_ERROR: &str = "connection lost";
/// Error of a request that timed out.
const TIMEOUT_ERROR: &str = "client timeout";
/// Minimum timeout of a request.
const TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// Maximum timeout of a request.
const TIMEOUT_MAX: Duration = Duration::from_secs(9);
/// An idle client sends a request once in this many steps, on average.
const IDLE_STEPS: u64 = 5;
/// Client number of the first watcher; other clients have lower numbers.
const WATCHERS_FROM: u64 = 100;

/// All clients and their history.
pub(crate) struct Clients {
    generator: RequestGenerator,
    /// The request in flight of each client, by client number.
    in_flight: BTreeMap<u64, Option<InFlight>>,
    watchers: Vec<Watcher>,
    defragments: Vec<PendingDefragment>,
    history: History,
}

/// A request in flight.
struct InFlight {
    member: MemberId,
    request: Request,
    invoked: Duration,
    deadline: Duration,
    response: ResponseFuture<Response>,
}

/// A defragmentation in flight.
struct PendingDefragment {
    member: MemberId,
    /// Position of its record in the history.
    record: usize,
    response: ResponseFuture<()>,
}

/// The members that clients can reach, at the current time.
pub(crate) struct Reachable<'a> {
    pub(crate) now: Duration,
    pub(crate) servers: Vec<&'a Server>,
}

impl<'a> Reachable<'a> {
    /// Returns a random member.
    fn any(&self, generator: &mut RequestGenerator) -> Option<&'a Server> {
        generator.random.pick_any(&self.servers)
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").field("clients", &self.in_flight.len()).finish_non_exhaustive()
    }
}

impl Clients {
    pub(crate) fn new(seed: u64, clients: u64, watchers: u64) -> Clients {
        Clients {
            generator: RequestGenerator::new(seed),
            in_flight: (1..=clients).map(|client| (client, None)).collect(),
            watchers: (0..watchers).map(|number| Watcher::new(WATCHERS_FROM + number)).collect(),
            defragments: Vec::new(),
            history: History::default(),
        }
    }

    /// Receives responses and sends new requests.
    pub(crate) fn step(&mut self, reachable: &Reachable<'_>, journal: &mut Journal) {
        self.receive_all(reachable, journal);
        let idle: Vec<u64> = self
            .in_flight
            .iter()
            .filter(|(_, in_flight)| in_flight.is_none())
            .map(|(client, _)| *client)
            .collect();
        for client in idle {
            if self.generator.random.chance(1, IDLE_STEPS) {
                let request = self.generator.request();
                self.send(client, request, reachable);
            }
        }
        self.step_watchers(reachable, journal);
    }

    /// Receives responses without sending new requests.
    pub(crate) fn receive_all(&mut self, reachable: &Reachable<'_>, journal: &mut Journal) {
        let clients: Vec<u64> = self.in_flight.keys().copied().collect();
        for client in clients {
            self.receive(client, reachable.now, journal);
        }
        let records = &mut self.history.defragments;
        self.defragments.retain_mut(|pending| {
            let Some(result) = poll_once(&mut pending.response) else { return true };
            records[pending.record].at_ns = result.is_ok().then(|| nanos(reachable.now));
            false
        });
    }

    /// Advances only the watchers.
    pub(crate) fn step_watchers(&mut self, reachable: &Reachable<'_>, journal: &mut Journal) {
        for watcher in &mut self.watchers {
            watcher.step(reachable, &mut self.generator, &mut self.history, journal);
        }
    }

    /// Sends a request to a random member.
    fn send(&mut self, client: u64, request: Request, reachable: &Reachable<'_>) {
        if let Some(server) = reachable.any(&mut self.generator) {
            self.send_to(client, request, server, reachable.now);
        }
    }

    /// Sends a request to a member. Its timeout is random, and short ones are more frequent.
    fn send_to(&mut self, client: u64, request: Request, server: &Server, now: Duration) {
        let share = self.generator.random.below(1000) as f64 / 1000.0;
        let deadline = now + TIMEOUT_MIN + (TIMEOUT_MAX - TIMEOUT_MIN).mul_f64(share * share);
        let is_physical = self.generator.random.chance(1, 2);
        let response = send::send(server.clone(), &request, is_physical);
        let member = server.local();
        let in_flight = InFlight { member, request, invoked: now, deadline, response };
        self.in_flight.insert(client, Some(in_flight));
    }

    /// Puts a key through a member as a separate client. [`Clients::has_succeeded`] returns the
    /// outcome.
    pub(crate) fn put_through(&mut self, client: u64, server: &Server, now: Duration) {
        let put = self.generator.plain_put();
        self.send_to(client, put, server, now);
    }

    /// Returns whether the last request of a client succeeded; none while it is in flight.
    pub(crate) fn has_succeeded(&self, client: u64) -> Option<bool> {
        match self.in_flight.get(&client) {
            Some(Some(_)) => None,
            _ => {
                let is_of_client = |operation: &&Operation| operation.client == client;
                let last = self.history.operations.iter().rev().find(is_of_client);
                Some(last.is_some_and(|operation| operation.answer().is_some()))
            }
        }
    }

    /// Defragments a member.
    pub(crate) fn defragment(&mut self, server: &Server, now: Duration) {
        let (record, member) = (self.history.defragments.len(), server.local());
        let invoked_ns = nanos(now);
        self.history.defragments.push(Defragment { member: member.0, invoked_ns, at_ns: None });
        let server = server.clone();
        let response = Box::pin(async move { server.defragment(&anonymous()).await });
        self.defragments.push(PendingDefragment { member, record, response });
    }

    /// Returns whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.values().all(Option::is_none)
    }

    /// Closes all connections to a member that has stopped.
    pub(crate) fn disconnect(&mut self, member: MemberId, now: Duration, journal: &mut Journal) {
        let is_to_member = |in_flight: &Option<InFlight>| {
            in_flight.as_ref().is_some_and(|in_flight| in_flight.member == member)
        };
        let clients: Vec<u64> = self
            .in_flight
            .iter()
            .filter(|(_, in_flight)| is_to_member(in_flight))
            .map(|(client, _)| *client)
            .collect();
        for client in clients {
            // The member may have responded before it stopped.
            self.receive(client, now, journal);
            if let Some(lost) = self.in_flight.get_mut(&client).and_then(Option::take) {
                let outcome = Outcome::Unknown { error: LOST_ERROR.into() };
                self.record(client, lost, outcome, now, journal);
            }
        }
        self.defragments.retain(|pending| pending.member != member);
        self.watchers.iter_mut().for_each(|watcher| watcher.disconnect(member, &mut self.history));
    }

    /// Receives the response of a client, if there is one, or times the request out.
    fn receive(&mut self, client: u64, now: Duration, journal: &mut Journal) {
        let Some(slot) = self.in_flight.get_mut(&client) else { return };
        let Some(in_flight) = slot else { return };
        let outcome = match poll_once(&mut in_flight.response) {
            Some(result) => outcome(result, now),
            None if now >= in_flight.deadline => Outcome::Unknown { error: TIMEOUT_ERROR.into() },
            None => return,
        };
        if let Some(in_flight) = slot.take() {
            self.record(client, in_flight, outcome, now, journal);
        }
    }

    /// Records a request with its outcome.
    fn record(
        &mut self,
        client: u64,
        in_flight: InFlight,
        outcome: Outcome,
        now: Duration,
        journal: &mut Journal,
    ) {
        let InFlight { member, request, invoked, .. } = in_flight;
        let operation =
            Operation { client, member: member.0, invoked_ns: nanos(invoked), request, outcome };
        if let Some((_, response)) = operation.answer() {
            self.generator.revision = self.generator.revision.max(response.revision);
        }
        journal.note(now, || format!("{member}: {operation}"));
        self.history.operations.push(operation);
    }

    /// Records the hash of a member at a revision, unless the member cannot compute it.
    pub(crate) fn record_hash(&mut self, server: &Server, revision: i64) {
        if let Ok((hash, _)) = server.state().store().hash_kv(revision) {
            let member = server.local().0;
            let (revision, compact_revision) = (hash.revision, hash.compact_revision);
            self.history.hashes.push(Hash { member, revision, compact_revision, hash: hash.hash });
        }
    }

    /// Returns whether every watcher has received all events up to a revision.
    pub(crate) fn watchers_have_reached(&self, revision: i64) -> bool {
        self.watchers.iter().all(|watcher| watcher.has_reached(revision))
    }

    /// Records the final state of a member, and its hash.
    ///
    /// # Errors
    /// The member does not respond at once.
    pub(crate) fn record_final(&mut self, server: &Server, now: Duration) -> Result<(), String> {
        let range = Range { serializable: true, ..Range::now(Span::all()) };
        let mut response = send::send(server.clone(), &Request::Range(range), false);
        // A serializable read does not wait for other members, so one poll completes it.
        let response = poll_once(&mut response).ok_or("no response")?;
        let Response { revision, body } = response.map_err(|error| error.to_string())?;
        let Body::Range { kvs, .. } = body else {
            return Err(format!("unexpected response: {body}"));
        };
        let member = server.local().0;
        self.history.finals.push(Final { member, at_ns: nanos(now), revision, kvs });
        self.record_hash(server, 0);
        Ok(())
    }

    /// Returns the highest revision seen by any client.
    pub(crate) fn revision(&self) -> i64 {
        self.generator.revision
    }

    /// Returns the history. Open watches are ended.
    pub(crate) fn into_history(mut self) -> History {
        self.watchers.iter_mut().for_each(|watcher| watcher.end(&mut self.history));
        self.history
    }
}

/// Converts the result of a request to its recorded outcome.
fn outcome(result: Result<Response, Error>, now: Duration) -> Outcome {
    let at_ns = nanos(now);
    match result {
        Ok(response) => Outcome::Answered { at_ns, response },
        Err(error) => match observed::refusal(&error) {
            Some(refusal) => Outcome::Refused { at_ns, refusal },
            None => Outcome::Unknown { error: error.to_string() },
        },
    }
}

/// Converts a time to nanoseconds.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
