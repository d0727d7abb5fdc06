//! The part of a call that all methods have in common, before the handler and after it.
//!
//! ```text
//!   unary     message ─► decode ─► start ─► interceptor ─► handler(cx, request) ─► reply
//!   server stream                  start ─► interceptor ─► handler(cx, request, replies)
//!   bidi stream                    start ─► interceptor ─► handler(cx, requests, replies)
//! ```
//!
//! The order is that of grpc-go with etcd's interceptors: a unary call whose message cannot be
//! decoded is not counted in metrics, while a stream is counted before anything of it is read.

use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::{Bytes, BytesMut};
use http::Response;
use net::{COUNTED_BYTES_MIN, Connection, SendBudget};
use prost::Message;

use crate::body::Body;
use crate::compression::Encoding;
use crate::deadline::Deadline;
use crate::headers::{Format, Headers};
use crate::message::{Messages, PREFIX, ReadError, RequestBody, frame};
use crate::method::Method;
use crate::observer::{MessageCounter, Observer};
use crate::reply::{Reply, Summary};
use crate::status::{Code, Status};
use crate::stream_task::{Sink, StreamSetup, StreamTask};
use crate::transport::{DecodeError, Transport};

/// The response to a call, as it is produced.
///
/// Boxed here, where the method is known, so that its size is that of this method. The futures that
/// await it stay small: a future holds its arguments twice, and moves them when it is first polled.
pub type ResponseFuture<'a, O> = Pin<Box<dyn Future<Output = Response<Body<O>>> + Send + 'a>>;

/// A call that has arrived: a context `C` for the handler, an observer `O` and a request body `B`.
#[derive(Debug)]
pub struct Call<'a, C, O, B> {
    context: C,
    observer: O,
    transport: &'a Arc<Transport>,
    connection: &'a Connection,
    method: &'static Method,
    format: Format,
    deadline: Deadline,
    messages: Messages<B>,
}

impl<'a, C, O: Observer, B: RequestBody> Call<'a, C, O, B> {
    /// Creates a call of a method. `context` is passed to the handler.
    pub fn new(
        context: C,
        observer: O,
        transport: &'a Arc<Transport>,
        connection: &'a Connection,
        method: &'static Method,
        headers: Headers,
        body: B,
    ) -> Call<'a, C, O, B> {
        let Headers { format, deadline, .. } = headers;
        let messages = Messages::new(body, Arc::clone(transport), format.encoding);
        Call { context, observer, transport, connection, method, format, deadline, messages }
    }

    /// Runs a unary call. The interceptor may refuse the request before the handler runs.
    pub fn unary<Q, R, E, F>(
        self,
        interceptor: impl FnOnce(&C, &Q) -> Result<(), Status> + Send + 'a,
        handler: impl FnOnce(C, Q) -> F + Send + 'a,
    ) -> ResponseFuture<'a, O>
    where
        C: Send + 'a,
        Q: Message + Default + 'a,
        R: Reply + Send + 'a,
        E: Into<Status> + Send + 'a,
        F: Future<Output = Result<R, E>> + Send + 'a,
    {
        let Call { context, mut observer, transport, connection, method, .. } = self;
        let Call { format, deadline, mut messages, .. } = self;
        Box::pin(async move {
            let received = deadline.limit(pin!(single_message(&mut messages))).await;
            // Further messages of the client are of no use and must not fill the flow-control
            // window of its connection.
            drop(messages);
            let decoded = received.and_then(|message| {
                observer.received_bytes(message.len());
                let request = decode(transport, method, message.clone())
                    .map_err(|error| undecodable("error unmarshalling request", error))?;
                Ok((message, request))
            });
            let reply = match decoded {
                Err(status) => Err(status),
                Ok((message, request)) => {
                    observer.start();
                    let result = match interceptor(&context, &request) {
                        Err(refused) => Err(refused),
                        Ok(()) => {
                            let handled = pin!(async {
                                // The client has to read enough of the replies before.
                                let room = connection.send_budget.wait_for_own_room();
                                let budget = &transport.receive_budget;
                                budget.count_while(message.len(), room).await?;
                                handler(context, request).await.map_err(Into::into)
                            });
                            deadline.limit::<R, Status>(handled).await
                        }
                    };
                    let framed = observe_reply(&mut observer, connection, &message, result);
                    let (encoding, budget) = (format.encoding, &connection.send_budget);
                    match framed {
                        Ok(framed) => encoding.compress(framed, &transport.blocking, budget).await,
                        Err(status) => Err(status),
                    }
                }
            };
            observer.finish(reply.as_ref().err().unwrap_or(&Status::OK));
            match reply {
                Ok(message) => format.response(Body::unary(message, &Status::OK)),
                Err(status) => format.refused(&status),
            }
        })
    }

    /// Runs a call with one request and many replies. As with etcd, the response headers wait for
    /// the first reply.
    ///
    /// The interceptor returns whether the stream is conditional (see
    /// [`StreamRegistry::end_conditional`](crate::StreamRegistry::end_conditional)).
    pub fn server_stream<Q, E, F>(
        self,
        interceptor: impl FnOnce(&C) -> Result<bool, Status> + Send + 'a,
        handler: impl FnOnce(C, Q, Replies<O::Counter>) -> F + Send + 'static,
    ) -> ResponseFuture<'a, O>
    where
        C: Send + 'static,
        Q: Message + Default + 'static,
        E: From<Status> + Into<Status> + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let handler = async move |context, mut requests: Requests<B, Q, O::Counter>, replies| {
            let request = requests.single().await?;
            handler(context, request, replies).await
        };
        Box::pin(self.stream(interceptor, true, handler))
    }

    /// Runs a call with many requests and many replies. The response headers are sent at once: some
    /// clients wait for them before they send a request.
    ///
    /// The interceptor returns whether the stream is conditional.
    pub fn bidi_stream<Q, E, F>(
        self,
        interceptor: impl FnOnce(&C) -> Result<bool, Status> + Send + 'a,
        handler: impl FnOnce(C, Requests<B, Q, O::Counter>, Replies<O::Counter>) -> F + Send + 'a,
    ) -> ResponseFuture<'a, O>
    where
        C: Send + 'a,
        Q: Message + Default + 'static,
        E: From<Status> + Into<Status> + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        Box::pin(self.stream(interceptor, false, handler))
    }

    async fn stream<Q, E, F>(
        self,
        interceptor: impl FnOnce(&C) -> Result<bool, Status>,
        wait_for_reply: bool,
        handler: impl FnOnce(C, Requests<B, Q, O::Counter>, Replies<O::Counter>) -> F,
    ) -> Response<Body<O>>
    where
        Q: Message + Default,
        E: From<Status> + Into<Status> + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let Call { context, mut observer, transport, connection, method, .. } = self;
        let Call { format, deadline, messages, .. } = self;
        observer.start();
        let conditional = match interceptor(&context) {
            Ok(conditional) => conditional,
            Err(refused) => {
                observer.finish(&refused);
                return format.refused(&refused);
            }
        };
        let sink = Sink::new(&connection.send_budget);
        let replies = Replies {
            sink: sink.clone(),
            counter: observer.counter(),
            encoding: format.encoding,
            transport: Arc::clone(transport),
            send_budget: Arc::clone(&connection.send_budget),
        };
        let counter = observer.counter();
        let requests = Requests { messages, method, counter, request: PhantomData };
        let work = handler(context, requests, replies);
        let setup = StreamSetup { registry: &transport.streams, conditional, deadline, observer };
        let task = StreamTask::new(setup, &sink, work);
        match std::future::poll_fn(|cx| task.poll_first(cx, wait_for_reply)).await {
            Some(ended) => format.refused(&ended),
            None => format.response(Body::stream(task)),
        }
    }
}

/// The requests of a stream, decoded as `Q` and counted by `K`.
#[derive(Debug)]
pub struct Requests<B, Q, K> {
    messages: Messages<B>,
    method: &'static Method,
    counter: Arc<K>,
    request: PhantomData<fn() -> Q>,
}

impl<B: RequestBody, Q: Message + Default, K: MessageCounter> Requests<B, Q, K> {
    /// Receives the next request; none if the client has sent its last.
    ///
    /// # Errors
    /// The message cannot be read or decoded.
    pub async fn next(&mut self) -> Result<Option<Q>, Status> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next request.
    ///
    /// # Errors
    /// The message cannot be read or decoded.
    pub fn poll_next(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Result<Option<Q>, Status>> {
        let received = ready!(self.messages.poll_next(cx));
        // Compat: as in etcd, the end of the stream and a broken message count as received.
        self.counter.received();
        let Some(message) = received? else { return Poll::Ready(Ok(None)) };
        self.counter.received_bytes(message.len());
        let request = decode(&self.messages.transport, self.method, message);
        let refused = |error| undecodable("failed to unmarshal the received message", error);
        Poll::Ready(request.map(Some).map_err(refused))
    }

    /// Receives the only request of a server stream.
    async fn single(&mut self) -> Result<Q, Status> {
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

/// The replies of a stream, counted by `K`.
#[derive(Debug)]
pub struct Replies<K> {
    sink: Sink,
    counter: Arc<K>,
    encoding: Encoding,
    transport: Arc<Transport>,
    send_budget: Arc<SendBudget>,
}

impl<K: MessageCounter> Replies<K> {
    /// Sends a reply. Returns when the next one may be sent, and whether that took a wait. A long
    /// reply waits while clients do not read what was sent before.
    ///
    /// # Errors
    /// The reply is too long, or compressing it failed.
    pub async fn send(&self, reply: &impl Reply) -> Result<bool, Status> {
        self.write(reply).await?;
        Ok(self.room().await)
    }

    /// Writes a reply, as [`Self::send`] does, and returns before the next one may be sent, so that
    /// a long reply can be dropped before the caller waits for [`Self::room`].
    ///
    /// # Errors
    /// The reply is too long, or compressing it failed.
    pub async fn write(&self, reply: &impl Reply) -> Result<(), Status> {
        if reply.size_hint() >= COUNTED_BYTES_MIN {
            self.send_budget.wait_for_room().await;
        }
        let sent = match self.encoding {
            Encoding::Identity => self.sink.write(|out| write_framed(reply, out))?,
            encoding @ Encoding::Gzip => self.write_compressed(reply, encoding).await?,
        };
        self.counter.sent(sent);
        Ok(())
    }

    /// Waits until the next reply may be sent. Returns whether that took a wait.
    pub async fn room(&self) -> bool {
        self.sink.room().await
    }

    async fn write_compressed(
        &self,
        reply: &impl Reply,
        encoding: Encoding,
    ) -> Result<usize, Status> {
        let mut framed = BytesMut::with_capacity(PREFIX + reply.size_hint());
        let length = write_framed(reply, &mut framed)?;
        let blocking = &self.transport.blocking;
        let compressed = encoding.compress(framed.freeze(), blocking, &self.send_budget).await?;
        self.sink.write(|out| out.extend_from_slice(&compressed));
        Ok(length)
    }
}

/// Frames the reply of a unary call, and reports it with its request.
fn observe_reply<O: Observer>(
    observer: &mut O,
    connection: &Connection,
    request: &Bytes,
    result: Result<impl Reply, Status>,
) -> Result<Bytes, Status> {
    observer.handled(result.as_ref().map_or_else(|status| status.code, |_| Code::Ok));
    let summary = result.as_ref().map_or(Summary::default(), Reply::summary);
    let framed = result.and_then(|reply| reply.into_charged_frame(&connection.send_budget));
    let length = framed.as_ref().ok().map(|framed| framed.len() - PREFIX);
    observer.replied(connection, request, length.map(|length| (summary, length)));
    framed
}

/// Appends a framed reply. Returns its length without the prefix.
fn write_framed(reply: &impl Reply, out: &mut BytesMut) -> Result<usize, Status> {
    let before = out.len() + PREFIX;
    frame(out, |out| reply.write(out))?;
    Ok(out.len() - before)
}

/// Receives the only message of a unary call.
async fn single_message<B: RequestBody>(messages: &mut Messages<B>) -> Result<Bytes, Status> {
    match messages.next().await {
        Ok(Some(message)) => Ok(message),
        // Compat: grpc-go reports these two without a code of their own.
        Ok(None) => Err(Status::new(Code::Unknown, "EOF")),
        Err(error @ ReadError::UnexpectedEof) => Err(Status::unknown(&error)),
        Err(error) => Err(error.into()),
    }
}

fn decode<Q: Message + Default>(
    transport: &Transport,
    method: &Method,
    message: Bytes,
) -> Result<Q, DecodeError> {
    match Q::decode(message.clone()) {
        Ok(request) => Ok(request),
        Err(_) => decode_repaired(transport, method, message),
    }
}

#[cold]
fn decode_repaired<Q: Message + Default>(
    transport: &Transport,
    method: &Method,
    message: Bytes,
) -> Result<Q, DecodeError> {
    let repaired = (transport.repair)(method.path, message)?;
    Q::decode(repaired).map_err(|_| DecodeError::Format)
}

fn undecodable(what: &str, error: DecodeError) -> Status {
    Status::new(Code::Internal, format!("grpc: {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::transport::tests::transport;

    #[tokio::test]
    async fn a_long_reply_of_a_stream_waits_for_room_and_a_short_one_does_not() {
        let send_budget = Arc::new(SendBudget::default());
        let replies = Replies {
            sink: Sink::new(&send_budget),
            counter: Arc::new(()),
            encoding: Encoding::Identity,
            transport: transport(1 << 20),
            send_budget: Arc::clone(&send_budget),
        };
        let unread = send_budget.charge(Bytes::from(vec![0; net::UNSENT_BYTES_MAX]));
        replies.write(&vec![7_u8]).await.unwrap();
        let long = vec![7_u8; COUNTED_BYTES_MIN];
        let mut written = pin!(replies.write(&long));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(written.as_mut().poll(&mut cx).is_pending());
        assert_eq!(send_budget.unsent_bytes(), net::UNSENT_BYTES_MAX, "nothing is written");
        drop(unread);
        written.await.unwrap();
        assert!(send_budget.unsent_bytes() > COUNTED_BYTES_MIN);
    }
}
