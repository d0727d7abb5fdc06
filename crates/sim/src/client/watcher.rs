//! A watching client that resumes at another member when its own fails. It reads only after a
//! wake-up, so a missing wake-up is detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::History;
use history::record::{Watch, WatchBody, WatchRequest, WatchResponse};
use mvcc::watch::{CreateRequest, Filters, Stream};
use server::Server;
use types::MemberId;

use super::generate::RequestGenerator;
use super::{Reach, nanos, observed, send};
use crate::journal::Journal;

/// An idle watcher opens a watch once in this many steps, on average.
const BEGIN_STEPS: u64 = 10;
/// Average steps between progress requests.
const PROGRESS_STEPS: u64 = 60;
/// Average steps between voluntary moves to another member.
const MOVE_STEPS: u64 = 1500;
/// Average steps between reads; a slow reader exercises backpressure.
const READ_STEPS: u64 = 3;
/// A new range is chosen after one in this many watches.
const FORGET: u64 = 4;

/// A watching client.
pub(super) struct Watcher {
    number: u64,
    /// The watched range, and the revision to resume from.
    wants: Option<WatchRequest>,
    open: Option<Open>,
}

/// An open watch.
struct Open {
    member: MemberId,
    stream: Stream,
    /// Set when there is something to read.
    is_woken: Arc<AtomicBool>,
    watch: Watch,
}

impl Watcher {
    pub(super) fn new(number: u64) -> Watcher {
        Watcher { number, wants: None, open: None }
    }

    pub(super) fn step(
        &mut self,
        reach: &Reach<'_>,
        generator: &mut RequestGenerator,
        history: &mut History,
        journal: &mut Journal,
    ) {
        let server = self.open.as_ref().and_then(|open| {
            reach.servers.iter().find(|server| server.local() == open.member).copied()
        });
        match server {
            None if generator.random.chance(1, BEGIN_STEPS) => {
                self.end(history);
                if let Some(server) = reach.any(generator) {
                    self.begin(server, generator, journal, reach.now);
                }
            }
            None => {}
            Some(_) if generator.random.chance(1, MOVE_STEPS) => self.end(history),
            Some(server) => self.go_on(server, reach.now, generator, history, journal),
        }
    }

    fn begin(
        &mut self,
        server: &Server,
        generator: &mut RequestGenerator,
        journal: &mut Journal,
        now: Duration,
    ) {
        if self.wants.is_none() || generator.random.chance(1, FORGET) {
            let back = i64::try_from(generator.random.below(20)).unwrap_or(0);
            let start = if back < 5 { 0 } else { (generator.revision - back).max(1) };
            self.wants = Some(generator.watch(start));
        }
        let Some(request) = self.wants.clone() else { return };
        let (state, member) = (server.state(), server.local());
        let is_woken = Arc::new(AtomicBool::new(false));
        let wake = Arc::clone(&is_woken);
        let wake = Arc::new(move || wake.store(true, Ordering::Relaxed));
        let stream = state.store.watch_stream(wake, server.now(), Duration::ZERO);
        let is_notified = generator.random.chance(1, 2);
        if stream.create(&to_create(&request, is_notified)).is_err() {
            return;
        }
        let number = self.number;
        journal.note(now, || format!("{member}: client {number}: {request}"));
        let watch = Watch { client: number, member: member.0, request, responses: Vec::new() };
        self.open = Some(Open { member, stream, is_woken, watch });
    }

    fn go_on(
        &mut self,
        server: &Server,
        now: Duration,
        generator: &mut RequestGenerator,
        history: &mut History,
        journal: &mut Journal,
    ) {
        let Some(open) = &mut self.open else { return };
        if generator.random.chance(1, PROGRESS_STEPS) {
            // A busy stream may drop the request.
            let _ = open.stream.request_progress();
        }
        if !generator.random.chance(1, READ_STEPS) || !open.is_woken.swap(false, Ordering::Relaxed)
        {
            return;
        }
        let mut is_over = false;
        let mut parts = Vec::new();
        loop {
            let state = server.state();
            let Ok(next) = open.stream.next(&state.store) else {
                // The database is damaged, so the member will stop.
                is_over = true;
                break;
            };
            let Some(mut response) = next else { break };
            is_over |= response.canceled;
            parts.append(&mut response.events);
            if !response.fragment {
                response.events = std::mem::take(&mut parts);
                let body = observed::news(&response);
                let (at_ns, revision) = (nanos(now), response.revision);
                let response = WatchResponse { at_ns, revision, body };
                journal.note(now, || describe(open, &response));
                if let Some(wants) = &mut self.wants {
                    wants.start = next_start(wants.start, &response);
                }
                open.watch.responses.push(response);
            }
        }
        if is_over {
            self.end(history);
        }
    }

    /// Whether the member has delivered everything up to a revision, by an event or by a progress
    /// notification. As in etcd, a watcher with a future start revision receives no progress before
    /// it.
    pub(super) fn has_heard(&self, revision: i64) -> bool {
        let Some(Open { watch, .. }) = &self.open else { return false };
        let tells = |response: &WatchResponse| match &response.body {
            WatchBody::Events(events) => events.iter().any(|event| event.kv.modified >= revision),
            WatchBody::Progress => response.revision >= revision,
            WatchBody::Created => watch.request.start > revision,
            WatchBody::Canceled { .. } => false,
        };
        watch.responses.iter().any(tells)
    }

    /// Handles the loss of its member.
    pub(super) fn lose(&mut self, member: MemberId, history: &mut History) {
        if self.open.as_ref().is_some_and(|open| open.member == member) {
            self.end(history);
        }
    }

    /// Ends the open watch, keeping the revision to resume from.
    pub(super) fn end(&mut self, history: &mut History) {
        history.watches.extend(self.open.take().map(|open| open.watch));
    }
}

/// The revision to resume from after a response.
fn next_start(start: i64, response: &WatchResponse) -> i64 {
    let next = match &response.body {
        WatchBody::Created if start == 0 => response.revision + 1,
        WatchBody::Created => start,
        WatchBody::Events(events) => {
            events.iter().map(|event| event.kv.modified + 1).max().unwrap_or(0)
        }
        WatchBody::Progress => response.revision + 1,
        WatchBody::Canceled { compact_revision } => *compact_revision,
    };
    next.max(start)
}

fn to_create(request: &WatchRequest, progress_notify: bool) -> CreateRequest {
    CreateRequest {
        key: request.span.key.clone().into(),
        range_end: send::end(&request.span),
        start_revision: request.start,
        filters: Filters { no_put: request.no_put, no_delete: request.no_delete },
        progress_notify,
        prev_kv: request.prev_kv,
        ..CreateRequest::default()
    }
}

fn describe(open: &Open, response: &WatchResponse) -> String {
    let WatchResponse { revision, body, .. } = response;
    format!("{}: client {}: told at {revision}: {body:?}", open.member, open.watch.client)
}
