//! A watching client that resumes at another member when its own fails.
//!
//! The client reads only after a wake-up, so that a missing wake-up makes the scenario fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use history::History;
use history::record::{Watch, WatchBody, WatchRequest, WatchResponse};
use mvcc::watch::{CreateRequest, Filters, Stream};
use server::Server;
use types::MemberId;

use super::generate::RequestGenerator;
use super::{Reachable, nanos, observed, send};
use crate::journal::Journal;

/// An idle watcher opens a watch once in this many steps, on average.
const OPEN_STEPS: u64 = 10;
/// A watcher requests a progress notification once in this many steps, on average.
const PROGRESS_STEPS: u64 = 60;
/// A watcher moves to another member once in this many steps, on average.
const MOVE_STEPS: u64 = 1500;
/// A watcher reads once in this many steps, on average; a slow reader exercises backpressure.
const READ_STEPS: u64 = 3;
/// A watcher chooses a new range instead of resuming once in this many watches, on average.
const NEW_RANGE_WATCHES: u64 = 4;

/// A watching client.
pub(super) struct Watcher {
    /// Client number.
    client: u64,
    /// The watched range, and the revision to resume from.
    resume_request: Option<WatchRequest>,
    open: Option<OpenWatch>,
}

/// An open watch.
struct OpenWatch {
    member: MemberId,
    stream: Stream,
    /// Whether the stream was woken since the last read.
    is_woken: Arc<AtomicBool>,
    watch: Watch,
}

impl Watcher {
    pub(super) fn new(client: u64) -> Watcher {
        Watcher { client, resume_request: None, open: None }
    }

    /// Opens a watch if there is none, moves to another member, or reads responses.
    pub(super) fn step(
        &mut self,
        reachable: &Reachable<'_>,
        generator: &mut RequestGenerator,
        history: &mut History,
        journal: &mut Journal,
    ) {
        let server = self.open.as_ref().and_then(|open| {
            reachable.servers.iter().find(|server| server.local() == open.member).copied()
        });
        match server {
            None if generator.random.chance(1, OPEN_STEPS) => {
                self.end(history);
                if let Some(server) = reachable.any(generator) {
                    self.open(server, generator, journal, reachable.now);
                }
            }
            None => {}
            Some(_) if generator.random.chance(1, MOVE_STEPS) => self.end(history),
            Some(server) => self.read_responses(server, reachable.now, generator, history, journal),
        }
    }

    /// Opens a watch at a member.
    fn open(
        &mut self,
        server: &Server,
        generator: &mut RequestGenerator,
        journal: &mut Journal,
        now: Duration,
    ) {
        if self.resume_request.is_none() || generator.random.chance(1, NEW_RANGE_WATCHES) {
            let distance = i64::try_from(generator.random.below(20)).unwrap_or(0);
            let start = if distance < 5 { 0 } else { (generator.revision - distance).max(1) };
            self.resume_request = Some(generator.watch(start));
        }
        let Some(request) = self.resume_request.clone() else { return };
        let (state, member) = (server.state(), server.local());
        let is_woken = Arc::new(AtomicBool::new(false));
        let wake = Arc::clone(&is_woken);
        let wake = Arc::new(move || wake.store(true, Ordering::Relaxed));
        let stream = state.store().watch_stream(wake, server.now(), Duration::ZERO);
        let progress_notify = generator.random.chance(1, 2);
        if stream.create(&to_create(&request, progress_notify)).is_err() {
            return;
        }
        let client = self.client;
        journal.note(now, || format!("{member}: client {client}: {request}"));
        let watch = Watch { client, member: member.0, request, responses: Vec::new() };
        self.open = Some(OpenWatch { member, stream, is_woken, watch });
    }

    /// Requests progress notifications and reads responses.
    fn read_responses(
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
        let mut fragments = Vec::new();
        loop {
            let state = server.state();
            let Ok(next) = open.stream.next(state.store()) else {
                // The database is damaged, so the member will stop.
                is_over = true;
                break;
            };
            let Some(mut response) = next else { break };
            is_over |= response.canceled;
            fragments.append(&mut response.events);
            if !response.fragment {
                response.events = std::mem::take(&mut fragments);
                let body = observed::watch_body(&response);
                let (at_ns, revision) = (nanos(now), response.revision);
                let response = WatchResponse { at_ns, revision, body };
                journal.note(now, || describe(open, &response));
                if let Some(request) = &mut self.resume_request {
                    request.start = next_start(request.start, &response);
                }
                open.watch.responses.push(response);
            }
        }
        if is_over {
            self.end(history);
        }
    }

    /// Returns whether the member has delivered all events up to a revision, as an event or a
    /// progress notification shows.
    pub(super) fn has_reached(&self, revision: i64) -> bool {
        let Some(OpenWatch { watch, .. }) = &self.open else { return false };
        let shows_revision = |response: &WatchResponse| match &response.body {
            WatchBody::Events(events) => events.iter().any(|event| event.kv.modified >= revision),
            WatchBody::Progress => response.revision >= revision,
            // Compat: as in etcd, a watcher with a future start revision receives no progress
            // notification before it.
            WatchBody::Created => watch.request.start > revision,
            WatchBody::Canceled { .. } => false,
        };
        watch.responses.iter().any(shows_revision)
    }

    /// Ends the open watch if it is at this member, which has stopped.
    pub(super) fn disconnect(&mut self, member: MemberId, history: &mut History) {
        if self.open.as_ref().is_some_and(|open| open.member == member) {
            self.end(history);
        }
    }

    /// Ends the open watch, keeping the revision to resume from.
    pub(super) fn end(&mut self, history: &mut History) {
        history.watches.extend(self.open.take().map(|open| open.watch));
    }
}

/// Returns the revision to resume from after a response.
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
        range_end: send::range_end(&request.span),
        start_revision: request.start,
        filters: Filters { no_put: request.no_put, no_delete: request.no_delete },
        progress_notify,
        prev_kv: request.prev_kv,
        ..CreateRequest::default()
    }
}

fn describe(open: &OpenWatch, response: &WatchResponse) -> String {
    let WatchResponse { revision, body, .. } = response;
    format!("{}: client {}: received at {revision}: {body:?}", open.member, open.watch.client)
}
