//! Clients: send requests to any member, time out, retry elsewhere, and record every request and
//! response.
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
use types::MemberId;

use crate::journal::Journal;
use crate::poll;
use generate::RequestGenerator;
pub(crate) use send::{Answer, anonymous};
use watcher::Watcher;

/// Error of a lost connection.
const LOST: &str = "connection lost";
/// Error of a client that timed out.
const TIMEOUT: &str = "client timeout";
/// Minimum and maximum time that a client waits for a response.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(9));
/// An idle client sends a request once in this many steps, on average.
const IDLE_STEPS: u64 = 5;
/// Number of the first watcher; clients have smaller numbers.
const WATCHERS_FROM: u64 = 100;

/// All clients and their history.
pub(crate) struct Clients {
    generator: RequestGenerator,
    asked: BTreeMap<u64, Option<Asked>>,
    watchers: Vec<Watcher>,
    defragments: Vec<(usize, MemberId, Answer<()>)>,
    history: History,
}

/// A request in flight.
struct Asked {
    of: MemberId,
    request: Request,
    invoked: Duration,
    until: Duration,
    answer: Answer<Response>,
}

/// The reachable members, and the time.
pub(crate) struct Reach<'a> {
    pub(crate) now: Duration,
    pub(crate) servers: Vec<&'a Server>,
}

impl<'a> Reach<'a> {
    fn any(&self, generator: &mut RequestGenerator) -> Option<&'a Server> {
        let count = self.servers.len() as u64;
        if count == 0 {
            return None;
        }
        let place = usize::try_from(generator.random.below(count)).unwrap_or(0);
        self.servers.get(place).copied()
    }
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").field("asked", &self.asked.len()).finish_non_exhaustive()
    }
}

impl Clients {
    pub(crate) fn new(seed: u64, clients: u64, watchers: u64) -> Clients {
        Clients {
            generator: RequestGenerator::new(seed),
            asked: (1..=clients).map(|number| (number, None)).collect(),
            watchers: (0..watchers).map(|number| Watcher::new(WATCHERS_FROM + number)).collect(),
            defragments: Vec::new(),
            history: History::default(),
        }
    }

    /// Receives responses and sends new requests.
    pub(crate) fn step(&mut self, reach: &Reach<'_>, journal: &mut Journal) {
        self.listen(reach, journal);
        let idle: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.is_none())
            .map(|(number, _)| *number)
            .collect();
        for number in idle {
            if self.generator.random.chance(1, IDLE_STEPS) {
                let request = self.generator.request();
                self.ask(number, request, reach);
            }
        }
        for watcher in &mut self.watchers {
            watcher.step(reach, &mut self.generator, &mut self.history, journal);
        }
    }

    /// Receives responses without sending new requests.
    pub(crate) fn listen(&mut self, reach: &Reach<'_>, journal: &mut Journal) {
        let numbers: Vec<u64> = self.asked.keys().copied().collect();
        for number in numbers {
            self.hear(number, reach.now, journal);
        }
        let records = &mut self.history.defragments;
        self.defragments.retain_mut(|(place, _, done)| {
            let Some(done) = poll(done) else { return true };
            records[*place].at_ns = done.is_ok().then(|| nanos(reach.now));
            false
        });
    }

    /// Advances only the watchers.
    pub(crate) fn watch(&mut self, reach: &Reach<'_>, journal: &mut Journal) {
        for watcher in &mut self.watchers {
            watcher.step(reach, &mut self.generator, &mut self.history, journal);
        }
    }

    /// Sends a request to a random member.
    fn ask(&mut self, number: u64, request: Request, reach: &Reach<'_>) {
        if let Some(server) = reach.any(&mut self.generator) {
            self.ask_of(number, request, server, reach.now);
        }
    }

    fn ask_of(&mut self, number: u64, request: Request, server: &Server, now: Duration) {
        let (least, most) = WAIT;
        let more = self.generator.random.below(1000) as f64 / 1000.0;
        let until = now + least + (most - least).mul_f64(more * more);
        let is_physical = self.generator.random.chance(1, 2);
        let answer = send::ask(server.clone(), &request, is_physical);
        let asked = Asked { of: server.local(), request, invoked: now, until, answer };
        self.asked.insert(number, Some(asked));
    }

    /// Writes through a member as a separate client. [`Clients::last_of`] returns the outcome.
    pub(crate) fn write_through(&mut self, number: u64, server: &Server, now: Duration) {
        let put = self.generator.plain_put();
        self.ask_of(number, put, server, now);
    }

    /// Returns whether the last request of a client succeeded; none while it is in flight.
    pub(crate) fn last_of(&self, number: u64) -> Option<bool> {
        match self.asked.get(&number) {
            Some(Some(_)) => None,
            _ => {
                let mine = |it: &&Operation| it.client == number;
                let last = self.history.operations.iter().rev().find(mine);
                Some(last.is_some_and(|it| it.answer().is_some()))
            }
        }
    }

    /// Defragments a member.
    pub(crate) fn defragment(&mut self, server: &Server, now: Duration) {
        let (place, of) = (self.history.defragments.len(), server.local());
        let invoked_ns = nanos(now);
        self.history.defragments.push(Defragment { member: of.0, invoked_ns, at_ns: None });
        let server = server.clone();
        let done = Box::pin(async move { server.defragment(&anonymous()).await });
        self.defragments.push((place, of, done));
    }

    /// Whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.values().all(Option::is_none)
    }

    /// Handles the loss of a member and of all connections to it.
    pub(crate) fn lose(&mut self, member: MemberId, now: Duration, journal: &mut Journal) {
        let of_it = |asked: &Option<Asked>| asked.as_ref().is_some_and(|it| it.of == member);
        let numbers: Vec<u64> =
            self.asked.iter().filter(|(_, it)| of_it(it)).map(|(number, _)| *number).collect();
        for number in numbers {
            // A last response may have arrived.
            self.hear(number, now, journal);
            if let Some(asked) = self.asked.get_mut(&number).and_then(Option::take) {
                self.note(number, asked, Outcome::Unknown { error: LOST.into() }, now, journal);
            }
        }
        self.defragments.retain(|(_, of, _)| *of != member);
        self.watchers.iter_mut().for_each(|watcher| watcher.lose(member, &mut self.history));
    }

    fn hear(&mut self, number: u64, now: Duration, journal: &mut Journal) {
        let Some(asked) = self.asked.get_mut(&number) else { return };
        let Some(waiting) = asked else { return };
        let outcome = match poll(&mut waiting.answer) {
            Some(answer) => outcome(answer, now),
            None if now >= waiting.until => Outcome::Unknown { error: TIMEOUT.into() },
            None => return,
        };
        if let Some(asked) = asked.take() {
            self.note(number, asked, outcome, now, journal);
        }
    }

    fn note(
        &mut self,
        client: u64,
        asked: Asked,
        outcome: Outcome,
        now: Duration,
        journal: &mut Journal,
    ) {
        let Asked { of, request, invoked, .. } = asked;
        let operation =
            Operation { client, member: of.0, invoked_ns: nanos(invoked), request, outcome };
        if let Some((_, response)) = operation.answer() {
            self.generator.revision = self.generator.revision.max(response.revision);
        }
        journal.note(now, || format!("{of}: {operation}"));
        self.history.operations.push(operation);
    }

    /// Records the hash of a member.
    pub(crate) fn note_hash(&mut self, server: &Server, revision: i64) {
        if let Ok((hash, _)) = server.state().store.hash_kv(revision) {
            let member = server.local().0;
            let (revision, compact_revision) = (hash.revision, hash.compact_revision);
            self.history.hashes.push(Hash { member, revision, compact_revision, hash: hash.hash });
        }
    }

    /// Whether every watcher has received everything up to a revision.
    pub(crate) fn have_watchers_heard(&self, revision: i64) -> bool {
        self.watchers.iter().all(|watcher| watcher.has_heard(revision))
    }

    /// Records the final state of a member, and its hash.
    ///
    /// # Errors
    /// The member does not respond at once.
    pub(crate) fn note_final(&mut self, server: &Server, now: Duration) -> Result<(), String> {
        let range = Range { serializable: true, ..Range::now(Span::all()) };
        let mut answer = send::ask(server.clone(), &Request::Range(range), false);
        // A serializable read does not wait.
        let answer = poll(&mut answer).ok_or("no response")?;
        let Response { revision, body } = answer.map_err(|error| error.to_string())?;
        let Body::Range { kvs, .. } = body else {
            return Err(format!("unexpected response: {body}"));
        };
        let member = server.local().0;
        self.history.finals.push(Final { member, at_ns: nanos(now), revision, kvs });
        self.note_hash(server, 0);
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

fn outcome(answer: Result<Response, Error>, now: Duration) -> Outcome {
    let at_ns = nanos(now);
    match answer {
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
