//! A call: what every method has in common, before its handler and after.
//!
//! ```text
//!   unary           message ─► decoded ─► counted ─► admitted ─► handler(context, request) ─► reply, or status
//!   server stream                        counted ─► admitted ─► handler(context, request, replies) ─► status
//!   bidi stream                          counted ─► admitted ─► handler(context, requests, replies) ─► status
//! ```
//!
//! The order is etcd's: a unary call whose message cannot be read is none at all for the metrics, while a stream is counted before anything of it is read.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use net::{Connection, SendBudget};
use prost::Message;
use proto::etcdserverpb::ResponseHeader;
use server::{Credentials, Server};

use super::Shared;
use super::deadline::Deadline;
use super::decode::{Unreadable, decode};
use super::gate::{Metadata, credentials};
use super::headers::{Format, Headers};
use super::message::{self, Messages, PREFIX, ReadError, RequestBody, frame};
use super::metrics::MethodMetrics;
use super::packing::Encoding;
use super::reply::{Outcome, Reply};
use super::rpc::Method;
use super::running::{Running, Sink, Terms};
use super::slow;
use super::spans::{Open, Traced};
use super::status::{Code, Status};
use crate::body::Body;

/// What a handler knows beside the request.
#[derive(Debug)]
pub(crate) struct Context {
    shared: Arc<Shared>,
    /// Who asks.
    pub(crate) who: Credentials,
    /// What they were answered, and have not read yet.
    pub(crate) unsent: Arc<SendBudget>,
    /// Where to tell what was done, if the call is traced.
    pub(crate) traced: Option<Arc<Traced>>,
    metadata: Metadata,
}

impl Context {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        connection: &Connection,
        headers: &HeaderMap,
    ) -> Context {
        let (shared, unsent) = (Arc::clone(shared), Arc::clone(&connection.send_budget));
        let traced = Traced::begin(&shared, connection, headers);
        let mut who = credentials(connection, headers);
        who.marks = traced.as_ref().map(|traced| traced.marks());
        Context { shared, who, unsent, traced, metadata: Metadata::read(headers) }
    }

    /// The member.
    pub(crate) fn server(&self) -> &Server {
        &self.shared.server
    }

    /// What all calls share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The header of an answer of a revision.
    pub(crate) fn header(&self, revision: i64) -> ResponseHeader {
        self.server().header(revision)
    }
}

/// A call that has arrived.
#[derive(Debug)]
pub(crate) struct Call<'a, B> {
    context: Context,
    connection: &'a Connection,
    method: &'static Method,
    metrics: Arc<MethodMetrics>,
    format: Format,
    deadline: Deadline,
    messages: Messages<B>,
}

impl<'a, B: RequestBody> Call<'a, B> {
    pub(crate) fn new(
        context: Context,
        connection: &'a Connection,
        at: usize,
        method: &'static Method,
        headers: Headers,
        body: B,
    ) -> Call<'a, B> {
        let shared = &context.shared;
        let metrics = Arc::clone(shared.metrics.method(at));
        let Headers { format, deadline, .. } = headers;
        let terms = message::Terms {
            bytes_max: shared.message_bytes_max,
            encoding: format.encoding,
            intake: shared.intake.clone(),
            heavy: shared.heavy.clone(),
        };
        let messages = Messages::new(body, terms);
        Call { context, connection, method, metrics, format, deadline, messages }
    }

    /// Answers a unary call.
    pub(crate) async fn unary<Q, R, F>(
        self,
        handler: impl FnOnce(Context, Q) -> F,
    ) -> Response<Body>
    where
        Q: Message + Default,
        R: Reply,
        F: Future<Output = Result<R, Status>>,
    {
        self.unary_for_learners(|_| false, handler).await
    }

    /// Answers a unary call that a member without a vote may answer too, depending on the request.
    pub(crate) async fn unary_for_learners<Q, R, F>(
        self,
        for_learners: impl FnOnce(&Q) -> bool,
        handler: impl FnOnce(Context, Q) -> F,
    ) -> Response<Body>
    where
        Q: Message + Default,
        R: Reply,
        F: Future<Output = Result<R, Status>>,
    {
        let format = self.format.clone();
        let open = Open::new(self.context.traced.as_ref(), self.method);
        // In a box of the size of this method: what is waited for here is moved about by those who wait for it.
        let answer = Box::pin(self.answer(for_learners, handler)).await;
        open.end(answer.as_ref().err().unwrap_or(&Status::OK));
        match answer {
            Ok(message) => format.response(Body::unary(message, &Status::OK)),
            Err(status) => format.refused(&status),
        }
    }

    async fn answer<Q, R, F>(
        self,
        for_learners: impl FnOnce(&Q) -> bool,
        handler: impl FnOnce(Context, Q) -> F,
    ) -> Result<Bytes, Status>
    where
        Q: Message + Default,
        R: Reply,
        F: Future<Output = Result<R, Status>>,
    {
        let Call { context, connection, method, metrics, format, deadline, mut messages } = self;
        let asked = deadline.limit(only_message(&mut messages)).await?;
        // What the client may still send is of no interest, and must not fill the window of its connection.
        drop(messages);
        let (shared, unsent) = (Arc::clone(&context.shared), Arc::clone(&context.unsent));
        shared.metrics.received_bytes.inc_by(asked.len() as u64);
        let request = decode(method.path, asked.clone());
        let request = request.map_err(|why| unreadable("error unmarshalling request", why))?;
        metrics.received();
        let counted = metrics.begin();
        let unary = slow::Unary { method, connection, started: counted.started, asked };
        let admitted = context.metadata.admit(&shared, method.kind, for_learners(&request));
        let result = match admitted {
            Ok(()) => deadline.limit(handler(context, request)).await,
            Err(refused) => Err(refused.into()),
        };
        counted.end(result.as_ref().map_or_else(|status| status.code, |_| Code::Ok));
        metrics.sent();
        let outcome = result.as_ref().map_or(Outcome::default(), Reply::outcome);
        let message = result.and_then(Reply::into_frame);
        let length = message.as_ref().ok().map(|message| message.len() - PREFIX);
        shared.metrics.sent_bytes.inc_by(length.unwrap_or_default() as u64);
        unary.report(&shared.config, length.map(|length| (outcome, length)));
        format.encoding.pack(message?, &shared.heavy, &unsent).await
    }

    /// Answers a call with one request and many replies. As with etcd, nothing is said before the first of them.
    pub(crate) async fn server_stream<Q, F>(
        self,
        for_learners: bool,
        handler: impl FnOnce(Context, Q, Replies) -> F + Send + 'static,
    ) -> Response<Body>
    where
        Q: Message + Default + 'static,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let handler = async move |context, mut requests: Requests<B, Q>, replies| {
            let request = requests.only().await?;
            handler(context, request, replies).await
        };
        Box::pin(self.stream(for_learners, true, handler)).await
    }

    /// Answers a call with many requests and many replies. A client that waits for the headers before it asks for anything gets them.
    pub(crate) async fn bidi_stream<Q, F>(
        self,
        handler: impl FnOnce(Context, Requests<B, Q>, Replies) -> F,
    ) -> Response<Body>
    where
        Q: Message + Default + 'static,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        Box::pin(self.stream(false, false, handler)).await
    }

    async fn stream<Q, F>(
        self,
        for_learners: bool,
        patient: bool,
        handler: impl FnOnce(Context, Requests<B, Q>, Replies) -> F,
    ) -> Response<Body>
    where
        Q: Message + Default,
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let Call { context, method, metrics, format, deadline, messages, .. } = self;
        let counted = metrics.begin();
        let open = Open::new(context.traced.as_ref(), method);
        let shared = Arc::clone(&context.shared);
        if let Err(refused) = context.metadata.admit(&shared, method.kind, for_learners) {
            counted.end(refused.code());
            let refused = refused.into();
            open.end(&refused);
            return format.refused(&refused);
        }
        let sink = Sink::default();
        let needs_leader = context.metadata.needs_leader;
        let stream = StreamMetrics { shared: Arc::clone(&shared), metrics };
        let (encoding, unsent) = (format.encoding, Arc::clone(&context.unsent));
        let replies = Replies { sink: sink.clone(), stream: stream.clone(), encoding, unsent };
        let requests = Requests { messages, method, stream, request: PhantomData };
        let work = handler(context, requests, replies);
        let terms = Terms { ends: &shared.ends, needs_leader, deadline, counted, open };
        let running = Running::new(terms, &sink, work);
        match std::future::poll_fn(|cx| running.poll_begun(cx, patient)).await {
            Some(ended) => format.refused(&ended),
            None => format.response(Body::stream(running)),
        }
    }
}

/// What a stream counts.
#[derive(Clone, Debug)]
struct StreamMetrics {
    shared: Arc<Shared>,
    metrics: Arc<MethodMetrics>,
}

/// The requests of a stream.
#[derive(Debug)]
pub(crate) struct Requests<B, Q> {
    messages: Messages<B>,
    method: &'static Method,
    stream: StreamMetrics,
    request: PhantomData<fn() -> Q>,
}

impl<B: RequestBody, Q: Message + Default> Requests<B, Q> {
    /// The next request; none if the client has sent its last.
    pub(crate) async fn next(&mut self) -> Result<Option<Q>, Status> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, for those who wait for something else too.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Result<Option<Q>, Status>> {
        let received = ready!(self.messages.poll_next(cx));
        // Compat: also if there is none, or it is no message.
        self.stream.metrics.received();
        let Some(message) = received? else { return Poll::Ready(Ok(None)) };
        self.stream.shared.metrics.received_bytes.inc_by(message.len() as u64);
        let request = decode(self.method.path, message);
        let unreadable = |why| unreadable("failed to unmarshal the received message", why);
        Poll::Ready(request.map(Some).map_err(unreadable))
    }

    /// The one request that there is to be.
    async fn only(&mut self) -> Result<Q, Status> {
        let violated = |what: &str| {
            let text = format!("cardinality violation: received {what} non-client-streaming RPC");
            Status::new(Code::Internal, text)
        };
        let request = self.next().await?;
        let request = request.ok_or_else(|| violated("no request message from"))?;
        match self.messages.next().await? {
            None => Ok(request),
            Some(_) => Err(violated("multiple request messages for")),
        }
    }
}

/// Where a stream replies.
#[derive(Clone, Debug)]
pub(crate) struct Replies {
    sink: Sink,
    stream: StreamMetrics,
    encoding: Encoding,
    unsent: Arc<SendBudget>,
}

impl Replies {
    /// Sends a reply. Returns when the next may be sent, and whether that had to be waited for.
    pub(crate) async fn send(&self, reply: &impl Reply) -> Result<bool, Status> {
        let sent = match self.encoding {
            Encoding::Identity => self.sink.write(|out| written(reply, out))?,
            encoding @ Encoding::Gzip => self.pack(reply, encoding).await?,
        };
        self.stream.metrics.sent();
        self.stream.shared.metrics.sent_bytes.inc_by(sent as u64);
        Ok(self.sink.room().await)
    }

    /// Sends a reply that is compressed.
    async fn pack(&self, reply: &impl Reply, encoding: Encoding) -> Result<usize, Status> {
        let mut framed = BytesMut::with_capacity(PREFIX + reply.size_hint());
        let length = written(reply, &mut framed)?;
        let heavy = &self.stream.shared.heavy;
        let packed = encoding.pack(framed.freeze(), heavy, &self.unsent).await?;
        self.sink.write(|out| out.extend_from_slice(&packed));
        Ok(length)
    }
}

/// Appends a reply; how long it is.
fn written(reply: &impl Reply, out: &mut BytesMut) -> Result<usize, Status> {
    let before = out.len() + PREFIX;
    frame(out, |out| reply.write(out))?;
    Ok(out.len() - before)
}

/// The message of a unary call.
async fn only_message<B: RequestBody>(messages: &mut Messages<B>) -> Result<Bytes, Status> {
    match messages.next().await {
        Ok(Some(message)) => Ok(message),
        // Compat: these two have no code of their own in etcd's gRPC library.
        Ok(None) => Err(Status::new(Code::Unknown, "EOF")),
        Err(error @ ReadError::CutOff) => Err(Status::unknown(&error)),
        Err(error) => Err(error.into()),
    }
}

fn unreadable(what: &str, why: Unreadable) -> Status {
    Status::new(Code::Internal, format!("grpc: {what}: {why}"))
}
