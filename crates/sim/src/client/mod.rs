//! Clients: they ask any member, wait for a while, turn to another; and write down all they asked for and were told.
//!
//! ```text
//!   client 1   put k3="v7" ──► b ────────── revision 12
//!   client 2   read k3 ──────► c ── c is killed: connection lost ──► outcome unknown, another request, to a
//!   watcher 9  from 5 ───────► a   5: put k1   9: delete k1 ── cut ──► b, from 10
//! ```
//!
//! Nobody but them knows the whole: what comes of it is judged by `history`.

mod ask;
mod choose;
mod told;
mod watcher;

use std::collections::BTreeMap;
use std::time::Duration;

use history::record::{Body, Defragment, Final, Hash, Outcome, Range, Request, Response, Span};
use history::{History, Operation};
use server::{Error, Server};
use types::MemberId;

use crate::journal::Journal;
use crate::poll;
pub(crate) use ask::{Answer, nobody};
use choose::Chooser;
use watcher::Watcher;

/// What a client's connection ended with.
const LOST: &str = "connection lost";
/// What it says when it has waited long enough.
const TIMEOUT: &str = "client timeout";
/// How long a client waits for an answer, at least and at most.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(9));
/// Out of this many steps, a client that has nothing to do asks for something in one.
const IDLE_STEPS: u64 = 5;
/// The first watcher's number: clients have smaller ones.
const WATCHERS_FROM: u64 = 100;

/// All clients, and what they know together.
pub(crate) struct Clients {
    chooser: Chooser,
    asked: BTreeMap<u64, Option<Asked>>,
    watchers: Vec<Watcher>,
    defragments: Vec<(usize, MemberId, Answer<()>)>,
    history: History,
}

/// A request under way.
struct Asked {
    of: MemberId,
    request: Request,
    invoked: Duration,
    until: Duration,
    answer: Answer<Response>,
}

/// The members that clients can reach, and the time.
pub(crate) struct Reach<'a> {
    pub(crate) now: Duration,
    pub(crate) servers: Vec<&'a Server>,
}

impl<'a> Reach<'a> {
    fn any(&self, chooser: &mut Chooser) -> Option<&'a Server> {
        let count = self.servers.len() as u64;
        if count == 0 {
            return None;
        }
        let place = usize::try_from(chooser.random.below(count)).unwrap_or(0);
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
            chooser: Chooser::new(seed),
            asked: (1..=clients).map(|number| (number, None)).collect(),
            watchers: (0..watchers).map(|number| Watcher::new(WATCHERS_FROM + number)).collect(),
            defragments: Vec::new(),
            history: History::default(),
        }
    }

    /// Everybody listens, and may ask for something new.
    pub(crate) fn step(&mut self, reach: &Reach<'_>, journal: &mut Journal) {
        self.listen(reach, journal);
        let idle: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.is_none())
            .map(|(number, _)| *number)
            .collect();
        for number in idle {
            if self.chooser.random.chance(1, IDLE_STEPS) {
                let request = self.chooser.request();
                self.ask(number, request, reach);
            }
        }
        for watcher in &mut self.watchers {
            watcher.step(reach, &mut self.chooser, &mut self.history, journal);
        }
    }

    /// Everybody listens, and asks for nothing new.
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

    /// Only watchers do something.
    pub(crate) fn watch(&mut self, reach: &Reach<'_>, journal: &mut Journal) {
        for watcher in &mut self.watchers {
            watcher.step(reach, &mut self.chooser, &mut self.history, journal);
        }
    }

    /// Asks any member for something.
    fn ask(&mut self, number: u64, request: Request, reach: &Reach<'_>) {
        if let Some(server) = reach.any(&mut self.chooser) {
            self.ask_of(number, request, server, reach.now);
        }
    }

    fn ask_of(&mut self, number: u64, request: Request, server: &Server, now: Duration) {
        let (least, most) = PATIENCE;
        let more = self.chooser.random.below(1000) as f64 / 1000.0;
        let until = now + least + (most - least).mul_f64(more * more);
        let is_physical = self.chooser.random.chance(1, 2);
        let answer = ask::ask(server.clone(), &request, is_physical);
        let asked = Asked { of: server.local(), request, invoked: now, until, answer };
        self.asked.insert(number, Some(asked));
    }

    /// Asks a member to write, as a client of its own. Whether it did is told by [`Clients::last_of`].
    pub(crate) fn write_through(&mut self, number: u64, server: &Server, now: Duration) {
        let put = self.chooser.plain_put();
        self.ask_of(number, put, server, now);
    }

    /// Whether a client waits; and if not, whether its last request was answered.
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

    /// Asks a member to defragment.
    pub(crate) fn defragment(&mut self, server: &Server, now: Duration) {
        let (place, of) = (self.history.defragments.len(), server.local());
        let invoked_ns = nanos(now);
        self.history.defragments.push(Defragment { member: of.0, invoked_ns, at_ns: None });
        let server = server.clone();
        let done = Box::pin(async move { server.defragment(&nobody()).await });
        self.defragments.push((place, of, done));
    }

    /// Whether everybody has been told.
    pub(crate) fn is_everybody_told(&self) -> bool {
        self.asked.values().all(Option::is_none)
    }

    /// A member is gone, and all connections to it.
    pub(crate) fn lose(&mut self, member: MemberId, now: Duration, journal: &mut Journal) {
        let of_it = |asked: &Option<Asked>| asked.as_ref().is_some_and(|it| it.of == member);
        let numbers: Vec<u64> =
            self.asked.iter().filter(|(_, it)| of_it(it)).map(|(number, _)| *number).collect();
        for number in numbers {
            // What it said with its last breath may have come through.
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
            self.chooser.revision = self.chooser.revision.max(response.revision);
        }
        journal.note(now, || format!("{of}: {operation}"));
        self.history.operations.push(operation);
    }

    /// Notes what a member holds.
    pub(crate) fn note_hash(&mut self, server: &Server, revision: i64) {
        if let Ok((hash, _)) = server.state().store.hash_kv(revision) {
            let member = server.local().0;
            let (revision, compact_revision) = (hash.revision, hash.compact_revision);
            self.history.hashes.push(Hash { member, revision, compact_revision, hash: hash.hash });
        }
    }

    /// Whether every watcher has been told all up to a revision.
    pub(crate) fn have_watchers_heard(&self, revision: i64) -> bool {
        self.watchers.iter().all(|watcher| watcher.has_heard(revision))
    }

    /// Notes all that a member holds in the end, and how it hashes.
    ///
    /// # Errors
    /// It does not say, at once.
    pub(crate) fn note_final(&mut self, server: &Server, now: Duration) -> Result<(), String> {
        let range = Range { serializable: true, ..Range::now(Span::all()) };
        let mut answer = ask::ask(server.clone(), &Request::Range(range), false);
        // What a member holds itself it reads without waiting for anybody.
        let answer = poll(&mut answer).ok_or("it does not answer")?;
        let Response { revision, body } = answer.map_err(|error| error.to_string())?;
        let Body::Range { kvs, .. } = body else { return Err(format!("it answers: {body}")) };
        let member = server.local().0;
        self.history.finals.push(Final { member, at_ns: nanos(now), revision, kvs });
        self.note_hash(server, 0);
        Ok(())
    }

    /// The highest revision that anybody has seen.
    pub(crate) fn revision(&self) -> i64 {
        self.chooser.revision
    }

    /// All that they know. Watches that go on are ended.
    pub(crate) fn into_history(mut self) -> History {
        self.watchers.iter_mut().for_each(|watcher| watcher.end(&mut self.history));
        self.history
    }
}

fn outcome(answer: Result<Response, Error>, now: Duration) -> Outcome {
    let at_ns = nanos(now);
    match answer {
        Ok(response) => Outcome::Answered { at_ns, response },
        Err(error) => match told::refusal(&error) {
            Some(refusal) => Outcome::Refused { at_ns, refusal },
            None => Outcome::Unknown { error: error.to_string() },
        },
    }
}

/// A moment as it is written down.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
