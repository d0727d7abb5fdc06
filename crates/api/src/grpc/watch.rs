//! `etcdserverpb.Watch`: a client's stream of requests and of what happens to keys.
//!
//! ```text
//!   create, cancel, progress ─► while answers are read ─► mvcc::watch::Stream ◄── Hub, as entries are applied
//!                                                              │ rings the bell
//!   created, events, canceled, progress ◄── while there is room ┘
//! ```
//!
//! One loop does both. It tells what there is to tell, as much as the connection takes at once; takes a request, if there is one; and if there is nothing of either, waits
//! for a request or for the bell. So neither side waits for the end of the other: a client that has much to catch up with can still cancel that. And
//! neither is read ahead of the other: requests of a client that does not read its answers stay where they are, and so does what happens, in the bounded
//! queue of its stream.
//!
//! Half-closing does not end the stream: who has said all it wants to say may still listen.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use failpoint::failpoint;
use http::Response;
use mvcc::watch::{Busy, CreateRequest, Filters, Stream};
use proto::etcdserverpb::watch_create_request::FilterType;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{ResponseHeader, WatchCreateRequest, WatchRequest};

use super::attributes;
use super::bell::Bell;
use super::call::{Call, Context, Replies, Requests};
use super::errors::Canonical;
use super::message::RequestBody;
use super::reply::Reply;
use super::rpc::Watch;
use super::spans::Part;
use super::status::{Code, Status};
use crate::body::Body;

/// The part of the progress interval by which streams differ, so that not all of them are told at once.
const JITTER_PART: u32 = 10;

pub(super) async fn serve<B: RequestBody>(rpc: Watch, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Watch::Watch => call.bidi_stream(watch).await,
    }
}

async fn watch<B: RequestBody>(
    cx: Context,
    requests: Requests<B, WatchRequest>,
    replies: Replies,
) -> Result<(), Status> {
    Watching::new(cx, requests, replies).run().await
}

/// A stream, with all that belongs to it.
struct Watching<B> {
    cx: Context,
    requests: Requests<B, WatchRequest>,
    replies: Replies,
    stream: Stream,
    /// Rung when there is something to tell.
    bell: Bell,
    /// Whether the client may still ask for something.
    open: bool,
    /// What is told of each watcher, if the stream is traced: from when it was created until it is cancelled.
    parts: BTreeMap<i64, Part>,
}

/// What a stream waits for.
enum Event {
    /// The client asks for something.
    Request(WatchRequest),
    /// It has asked for all it will.
    Closed,
    /// There is something to tell.
    News,
}

impl<B: RequestBody> Watching<B> {
    fn new(cx: Context, requests: Requests<B, WatchRequest>, replies: Replies) -> Watching<B> {
        let server = cx.server();
        let jitter = jitter(server.config().watch_progress_notify_interval);
        let (stream, bell) = Bell::hang(server, jitter);
        Watching { cx, requests, replies, stream, bell, open: true, parts: BTreeMap::new() }
    }

    async fn run(mut self) -> Result<(), Status> {
        loop {
            let more = self.tell().await?;
            match self.wait(more).await? {
                Event::Request(request) => self.take(request).await?,
                Event::Closed => self.open = false,
                Event::News => {}
            }
        }
    }

    /// Tells what there is to tell, as much as the connection takes at once. Whether there may be more.
    async fn tell(&mut self) -> Result<bool, Status> {
        loop {
            let began = Instant::now();
            // Not kept: after a snapshot there is another.
            let state = self.cx.server().state();
            let next = self.stream.next(&state.store);
            let next = next.map_err(|error| Status::unknown(&error))?;
            let Some(response) = next else { return Ok(false) };
            drop(state);
            // Its revision is the response's own.
            let header = self.cx.header(0);
            let told = Told { header, response };
            failpoint!("beforeSendWatchResponse");
            let waited = self.replies.send(&told).await?;
            self.measure(&told, began.elapsed());
            if waited {
                return Ok(true);
            }
        }
    }

    fn measure(&self, told: &Told, took: Duration) {
        let metrics = self.cx.server().metrics();
        let (response, seconds) = (&told.response, took.as_secs_f64());
        match u32::try_from(response.events.len()) {
            Ok(0) if response.created || response.canceled => {
                metrics.watch_send_control_duration.observe(seconds);
            }
            Ok(0) => metrics.watch_send_progress_duration.observe(seconds),
            Ok(events) => {
                metrics.events.inc_by(events.into());
                metrics.watch_send_events_duration.observe(seconds);
                metrics.watch_send_per_event_duration.observe(seconds / f64::from(events));
            }
            Err(_) => metrics.watch_send_events_duration.observe(seconds),
        }
    }

    /// What comes next. If there is more to tell, that does, unless there is a request already.
    async fn wait(&mut self, more: bool) -> Result<Event, Status> {
        // What is accepted now is accepted until it comes, whatever else happens to the stream meanwhile.
        let asks = self.open && self.stream.accepts_requests();
        let mut rung = pin!(self.bell.rung());
        let requests = &mut self.requests;
        let event = std::future::poll_fn(|cx| {
            if asks && let Poll::Ready(received) = requests.poll_next(cx) {
                let event = received.map(|request| request.map_or(Event::Closed, Event::Request));
                return Poll::Ready(event);
            }
            match more || rung.as_mut().poll(cx).is_ready() {
                true => Poll::Ready(Ok(Event::News)),
                false => Poll::Pending,
            }
        });
        event.await.inspect_err(|status| self.failed(status))
    }

    /// Compat: that a client goes away is no failure.
    fn failed(&self, status: &Status) {
        if status.code != Code::Canceled {
            tracing::warn!(error = %status, "failed to receive watch request from gRPC stream");
            self.cx.shared().metrics.receive_failed("watch");
        }
    }

    /// Does what the client asks for.
    async fn take(&mut self, request: WatchRequest) -> Result<(), Status> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => {
                self.parts.remove(&cancel.watch_id);
                self.ask(|stream| stream.cancel(cancel.watch_id)).await
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                self.ask(|stream| stream.request_progress().map(|_| ())).await
            }
            None => {
                tracing::info!("invalid watch request type received in gRPC stream");
                Ok(())
            }
        }
    }

    async fn create(&mut self, request: WatchCreateRequest) -> Result<(), Status> {
        // A negative revision is refused by the hub, before anybody is asked whether it were permitted.
        let permitted = match request.start_revision {
            ..0 => Ok(()),
            _ => check(&self.cx, &request).await,
        };
        match permitted {
            Ok(()) => {
                let part = self.cx.part("watch", || attributes::watch(&request));
                let create = to_create(request);
                let id = self.ask(|stream| stream.create(&create)).await?;
                self.parts.extend(id.zip(part));
                Ok(())
            }
            Err(refused) => {
                let reason = Status::from(refused).to_string();
                self.ask(|stream| stream.refuse(reason.clone())).await
            }
        }
    }

    /// Asks the stream for something. It was accepted; if it were not, what waits to be told would be told first.
    async fn ask<T>(&mut self, ask: impl Fn(&Stream) -> Result<T, Busy>) -> Result<T, Status> {
        loop {
            match ask(&self.stream) {
                Ok(answer) => return Ok(answer),
                Err(Busy) => self.tell().await?,
            };
        }
    }
}

/// Whether the client may read what it wants to watch.
async fn check(cx: &Context, request: &WatchCreateRequest) -> Result<(), Canonical> {
    let caller = cx.server().auth_info(&cx.who).await.map_err(|error| refused(&error))?;
    let auth = &cx.server().state().auth;
    let permitted = auth.check_watch(&caller.unwrap_or_default(), request);
    permitted.map_err(|error| refused(&error.into()))
}

/// Why a watch is not permitted. All that is not about who asks looks like a lack of permission.
fn refused(error: &server::Error) -> Canonical {
    use auth::Error as E;
    match error {
        server::Error::Refused(server::Refusal::Auth(error)) => match error {
            E::InvalidAuthToken => Canonical::InvalidAuthToken,
            E::AuthOldRevision => Canonical::AuthOldRevision,
            E::UserEmpty => Canonical::UserEmpty,
            _ => Canonical::PermissionDenied,
        },
        error => {
            tracing::error!(%error, "unexpected error code");
            Canonical::PermissionDenied
        }
    }
}

fn to_create(request: WatchCreateRequest) -> CreateRequest {
    let filters = Filters {
        no_put: request.filters().any(|filter| filter == FilterType::Noput),
        no_delete: request.filters().any(|filter| filter == FilterType::Nodelete),
    };
    let WatchCreateRequest { key, range_end, start_revision, watch_id, .. } = request;
    let WatchCreateRequest { progress_notify, prev_kv, fragment, .. } = request;
    CreateRequest {
        key,
        range_end,
        start_revision,
        watch_id,
        filters,
        progress_notify,
        prev_kv,
        fragment,
    }
}

/// Some time up to a tenth of an interval.
fn jitter(interval: Duration) -> Duration {
    // Keyed at random, each time anew.
    let random = RandomState::new().hash_one(()) >> 32;
    let random = u32::try_from(random).unwrap_or_default();
    (interval / JITTER_PART).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// A response with its header.
struct Told {
    header: ResponseHeader,
    response: mvcc::watch::Response,
}

impl Reply for Told {
    fn write(&self, out: &mut BytesMut) {
        self.response.encode(&self.header, out);
    }
}
