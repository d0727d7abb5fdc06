//! `etcdserverpb.Watch`: a stream of watch requests and of events.
//!
//! ```text
//!   create, cancel, progress ─► while replies are read ──► watch::Stream ◄── watch hub, on apply
//!                                                               │ notifies
//!   created, events, canceled, progress ◄── while there is room ─┘
//! ```
//!
//! A single loop serves both directions. It sends responses as long as the connection takes them at
//! once, takes a request if there is one, and otherwise waits for a request or a notification.
//! Neither direction waits for the end of the other: a client with a long history to receive can
//! still cancel it. And neither is read ahead: the requests of a client that does not read its
//! responses stay with the connection, and its events in the bounded queue of its watch stream.
//!
//! A half-closed stream stays open: a client that has sent its last request still receives events.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use failpoint::failpoint_async;
use grpc::{Code, Reply, RequestBody, Status};
use mvcc::watch::{Busy, CreateRequest, Filters, Stream};
use proto::etcdserverpb::watch_create_request::FilterType;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{ResponseHeader, WatchCreateRequest, WatchRequest};

use super::notify::StreamNotify;
use crate::body::GrpcResponse;
use crate::context::{Call, Context, Replies, Requests};
use crate::errors::{CallError, Canonical};
use crate::interceptor;
use crate::methods::Watch;
use crate::observe::{SpanGuard, attributes};

/// The progress notifications of streams are spread over this fraction of the interval.
const JITTER_FRACTION: u32 = 10;

pub(super) fn serve<B: RequestBody>(rpc: Watch, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Watch::Watch => call.bidi_stream(interceptor::stream, watch),
    }
}

async fn watch<B: RequestBody>(
    cx: Context,
    requests: Requests<B, WatchRequest>,
    replies: Replies,
) -> Result<(), CallError> {
    WatchHandler::new(cx, requests, replies).run().await
}

/// The handler of one watch stream.
struct WatchHandler<B> {
    cx: Context,
    requests: Requests<B, WatchRequest>,
    replies: Replies,
    stream: Stream,
    /// Notifies that the stream has responses.
    notify: StreamNotify,
    /// Whether the client may still send requests.
    open: bool,
    /// The spans of the watchers, if the stream is traced: from creation to cancellation.
    spans: BTreeMap<i64, SpanGuard>,
}

/// An event that a stream waits for.
enum Event {
    /// The client has sent a request.
    Request(WatchRequest),
    /// The client has sent its last request.
    HalfClosed,
    /// The stream may have responses.
    Notified,
}

impl<B: RequestBody> WatchHandler<B> {
    fn new(cx: Context, requests: Requests<B, WatchRequest>, replies: Replies) -> WatchHandler<B> {
        let server = cx.server();
        let jitter = jitter(server.config().watch_progress_notify_interval);
        let (stream, notify) = StreamNotify::open(server, jitter);
        WatchHandler { cx, requests, replies, stream, notify, open: true, spans: BTreeMap::new() }
    }

    async fn run(mut self) -> Result<(), CallError> {
        loop {
            let more = self.send_responses().await?;
            match self.wait(more).await? {
                Event::Request(request) => self.handle(request).await?,
                Event::HalfClosed => self.open = false,
                Event::Notified => {}
            }
        }
    }

    /// Sends responses as long as the connection takes them at once. Returns whether there may be
    /// more.
    async fn send_responses(&mut self) -> Result<bool, CallError> {
        loop {
            let started = Instant::now();
            let next = self.cx.server().next_watch_response(&mut self.stream);
            let next = next.map_err(|error| CallError::unknown(&error))?;
            let Some(response) = next else { return Ok(false) };
            // The response carries a revision of its own.
            let header = self.cx.header(0);
            let reply = WatchReply { header, response };
            failpoint_async!("beforeSendWatchResponse");
            let waited = self.replies.send(&reply).await?;
            self.measure(&reply, started.elapsed());
            if waited {
                return Ok(true);
            }
        }
    }

    fn measure(&self, reply: &WatchReply, took: Duration) {
        let metrics = self.cx.server().metrics();
        let (response, seconds) = (&reply.response, took.as_secs_f64());
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

    /// Waits for the next event. If there are more responses, returns at once, with a request if
    /// there is one.
    async fn wait(&mut self, more: bool) -> Result<Event, CallError> {
        // A stream that accepts requests now still does when one arrives.
        let reads = self.open && self.stream.accepts_requests();
        let mut notified = pin!(self.notify.notified());
        let requests = &mut self.requests;
        let event = std::future::poll_fn(|cx| {
            if reads && let Poll::Ready(received) = requests.poll_next(cx) {
                let event =
                    received.map(|request| request.map_or(Event::HalfClosed, Event::Request));
                return Poll::Ready(event);
            }
            match more || notified.as_mut().poll(cx).is_ready() {
                true => Poll::Ready(Ok(Event::Notified)),
                false => Poll::Pending,
            }
        });
        Ok(event.await.inspect_err(|status| self.receive_failed(status))?)
    }

    /// Logs and counts a failure. Compat: as in etcd, a cancellation is not one.
    fn receive_failed(&self, status: &Status) {
        if status.code != Code::Canceled {
            tracing::warn!(error = %status, "failed to receive watch request from gRPC stream");
            self.cx.shared().metrics.receive_failed("watch");
        }
    }

    /// Handles a request of the client.
    async fn handle(&mut self, request: WatchRequest) -> Result<(), CallError> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => {
                self.spans.remove(&cancel.watch_id);
                self.request(|stream| stream.cancel(cancel.watch_id)).await
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                self.request(|stream| stream.request_progress().map(|_| ())).await
            }
            None => {
                tracing::info!("invalid watch request type received in gRPC stream");
                Ok(())
            }
        }
    }

    async fn create(&mut self, request: WatchCreateRequest) -> Result<(), CallError> {
        // The watch hub refuses a negative revision. Compat: as in etcd, before permissions are
        // checked.
        let permitted = match request.start_revision {
            ..0 => Ok(()),
            _ => {
                let checked = self.cx.server().check_watch(&self.cx.credentials, &request).await;
                checked.map_err(|error| refused(&error))
            }
        };
        match permitted {
            Ok(()) => {
                let span = self.cx.span("watch", || attributes::watch(&request));
                let create = to_create(request);
                let id = self.request(|stream| stream.create(&create)).await?;
                self.spans.extend(id.zip(span));
                Ok(())
            }
            Err(refused) => {
                let reason = Status::from(refused).to_string();
                self.request(|stream| stream.refuse(reason.clone())).await
            }
        }
    }

    /// Passes a request to the stream. If the stream is busy, its responses are sent first.
    async fn request<T>(
        &mut self,
        request: impl Fn(&Stream) -> Result<T, Busy>,
    ) -> Result<T, CallError> {
        loop {
            match request(&self.stream) {
                Ok(done) => return Ok(done),
                Err(Busy) => self.send_responses().await?,
            };
        }
    }
}

/// Returns the error of a refused watch. Compat: as in etcd, all errors except those about the
/// caller's identity are reported as a lack of permission.
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

/// Returns a random part of a tenth of the interval.
fn jitter(interval: Duration) -> Duration {
    // Each RandomState has random keys.
    let random = RandomState::new().hash_one(()) >> 32;
    let random = u32::try_from(random).unwrap_or_default();
    (interval / JITTER_FRACTION).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// A watch response with its header.
struct WatchReply {
    header: ResponseHeader,
    response: mvcc::watch::Response,
}

impl Reply for WatchReply {
    fn write(&self, out: &mut BytesMut) {
        self.response.encode(&self.header, out);
    }
}
