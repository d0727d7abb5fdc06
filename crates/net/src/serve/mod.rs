//! Serves a listener: each connection from its first byte to its last.
//!
//! The accept loop hands a connection to a runtime. There a task opens it (`open`), and runs hyper
//! until the connection ends or the listener drains or cuts it (see [`ListenerPhase`]).

mod error;

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;

pub(crate) use self::error::ConnectionError;
use crate::config::{
    CONNECTION_WINDOW_BYTES, Config, FRAME_BYTES_MAX, HEADER_BYTES_MAX, HTTP1_HEADERS_MAX,
    LOCAL_RESETS_MAX, PENDING_RESETS_MAX, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES,
    STREAMS_UNLIMITED,
};
use crate::connection::Connection;
use crate::handler::Handler;
use crate::http1::{Exchange, ExchangeBody, FirstLine, RequestReader};
use crate::http2::{
    GuardLimits, Http2Driver, Http2Guard, SlicedBody, coalesce_writes, print_fields,
};
use crate::limits::{ConnectionPermits, CountedStream, EvictingLimit};
use crate::listen::accept::{AcceptedConnection, accept_loop};
use crate::listen::{Listener, ListenerHandle, ListenerPhase, ServerStream};
use crate::open::{Protocol, ReplayStream};
use crate::runtime::{AssignedRuntime, RuntimePool, Runtimes, WakeQueue, WakeQueueExecutor};

/// Serves a listener on these runtimes until the returned handle is drained or dropped.
pub fn serve<H: Handler>(
    runtimes: &Runtimes,
    listener: Listener,
    handler: Arc<H>,
    config: Config,
) -> io::Result<ListenerHandle> {
    let local = listener.local();
    let (sender, phase) = watch::channel(ListenerPhase::Serve);
    let (permits, listener_permit) = ConnectionPermits::new(config.connections_max);
    let send_limit = EvictingLimit::with_grace(config.unsent_total_bytes_max, config.unsent_grace);
    let server = Arc::new(Server {
        handler,
        pending: EvictingLimit::new(config.pending_max),
        send_limit: Arc::clone(&send_limit),
        config,
        runtimes: runtimes.pool(),
        permits: permits.clone(),
        phase,
    });
    let acceptor = runtimes.within(|| listener.into_acceptor())?;
    runtimes.background().spawn(async move {
        tokio::select! {
            () = accept_loop(&acceptor, server) => {}
            () = send_limit.evict_overdue() => {}
        }
        // In this order: when a drain gets the permit, the address is free.
        drop(acceptor);
        drop(listener_permit);
    });
    Ok(ListenerHandle { local, phase: sender, permits })
}

/// The bounds of a head in hyper, which a head that the reader accepts does not reach: the reader
/// adds few fields, and percent-encodes bytes at most.
const HYPER_HEADERS_MAX: usize = HTTP1_HEADERS_MAX + 4;
const HYPER_HEADER_BYTES_MAX: usize = 4 * HEADER_BYTES_MAX as usize;

/// The stream of an opened connection.
type OpenedStream = CountedStream<ReplayStream<ServerStream>>;

/// The state that all connections of a listener share.
pub(crate) struct Server<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) config: Config,
    pub(crate) runtimes: RuntimePool,
    pub(crate) permits: ConnectionPermits,
    /// Connections in protocol detection or in the handshake.
    pub(crate) pending: Arc<EvictingLimit>,
    /// Unsent bytes of all connections.
    pub(crate) send_limit: Arc<EvictingLimit>,
    pub(crate) phase: watch::Receiver<ListenerPhase>,
}

impl<H: Handler> Server<H> {
    /// Serves a connection from its first byte to its last.
    pub(crate) async fn serve_connection(
        self: Arc<Self>,
        accepted: AcceptedConnection,
        runtime: &AssignedRuntime,
    ) -> Result<(), ConnectionError> {
        let AcceptedConnection { socket, permit: _permit, pending } = accepted;
        let (remote, local) = (socket.remote(), socket.local());
        let stream = socket.register()?;
        let opened = self.open(pending, stream, remote, runtime).await?;
        let Some((protocol, stream, connection)) = opened else { return Ok(()) };
        let connection = Arc::new(connection.with_local(local));
        let send_budget = Arc::clone(&connection.send_budget);
        let stream = CountedStream::new(stream, Arc::clone(&send_budget));
        // Boxed by protocol, so that a pending connection takes no memory for either of them.
        let http: Pin<Box<dyn Future<Output = Result<(), ConnectionError>> + Send + '_>> =
            match protocol {
                Protocol::Http1 if !self.handler.speaks_http1() => {
                    return Err(ConnectionError::Http1);
                }
                Protocol::Http1 => Box::pin(self.serve_http1(stream, connection)),
                Protocol::Http2 => {
                    Box::pin(self.serve_http2(stream, connection, runtime.wake_queue()))
                }
                Protocol::Tls => return Err(ConnectionError::Tls),
            };
        tokio::select! {
            biased;
            result = http => result,
            () = send_budget.evicted() => Err(ConnectionError::Unread),
        }
    }

    async fn serve_http1(
        &self,
        stream: OpenedStream,
        connection: Arc<Connection>,
    ) -> Result<(), ConnectionError> {
        let closes = self.config.closes_unknown_protocols && !connection.tls;
        let first_line = if closes { FirstLine::Close } else { FirstLine::Answer };
        let reader = RequestReader::new(stream, first_line, self.config.half_closed_grace);
        let exchange = reader.exchange();
        let service = self.http1_service(Arc::clone(&connection), Arc::clone(&exchange));
        let running = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.config.headers_timeout)
            .max_headers(HYPER_HEADERS_MAX)
            .max_header_size(HYPER_HEADER_BYTES_MAX)
            // Compat: Go writes `Content-Type`, and people search for that.
            .title_case_headers(true)
            .serve_connection(TokioIo::new(reader), service)
            .with_upgrades();
        let finish = http1::UpgradeableConnection::graceful_shutdown;
        run(running, finish, self.phase.clone()).await?;
        if let Some(refused) = exchange.refused() {
            return Err(ConnectionError::Refused(refused));
        }
        if let Some(upgraded) = connection.take_upgrade() {
            // The upgraded protocol is notified of a drain separately; if it does not end, it is
            // cut.
            let upgraded = async {
                upgraded.await;
                Ok::<_, hyper::Error>(())
            };
            run(upgraded, |_| {}, self.phase.clone()).await?;
        }
        Ok(())
    }

    async fn serve_http2(
        &self,
        stream: OpenedStream,
        connection: Arc<Connection>,
        wake_queue: Arc<WakeQueue>,
    ) -> Result<(), ConnectionError> {
        let config = &self.config;
        let (stream, flusher) = coalesce_writes(stream);
        let guard = Http2Guard::new(
            stream,
            GuardLimits {
                ping_min_time: self.ping_min_time(&connection),
                first_frame_timeout: config.detection_timeout,
                headers_timeout: config.headers_timeout,
            },
        );
        let streams_max = (config.streams_max != STREAMS_UNLIMITED).then_some(config.streams_max);
        let running = http2::Builder::new(WakeQueueExecutor(wake_queue))
            .timer(TokioTimer::new())
            .keep_alive_interval(config.keep_alive.interval)
            .keep_alive_timeout(config.keep_alive.timeout)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(streams_max)
            .max_frame_size(FRAME_BYTES_MAX)
            .max_header_list_size(HEADER_BYTES_MAX)
            .max_local_error_reset_streams(LOCAL_RESETS_MAX)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            // Compat: grpc-go sends no Date header.
            .auto_date_header(false)
            .serve_connection(TokioIo::new(guard), self.http2_service(connection));
        let driver = Http2Driver::new(running, flusher, config.keep_alive.silence_max());
        let finish = |driver: Pin<&mut Http2Driver<_, _>>| {
            http2::Connection::graceful_shutdown(driver.get_mut().connection());
        };
        run(driver, finish, self.phase.clone()).await
    }

    /// Compat: over TLS, unless gRPC is served alone, etcd's HTTP/2 is spoken by Go's net/http and
    /// not by grpc-go. net/http does not limit pings.
    fn ping_min_time(&self, connection: &Connection) -> Option<Duration> {
        let by_grpc_go = !connection.tls || !self.handler.speaks_http1();
        by_grpc_go.then_some(self.config.keep_alive.min_time)
    }

    /// Wraps the handler as a hyper service for HTTP/1, which answers one request at a time.
    fn http1_service(
        &self,
        connection: Arc<Connection>,
        exchange: Arc<Exchange>,
    ) -> impl hyper::service::Service<
        Request<Incoming>,
        Response = http::Response<ExchangeBody<H::Body>>,
        Error = Infallible,
        Future: Send + 'static,
    > + Send
    + 'static {
        let handler = Arc::clone(&self.handler);
        service_fn(move |request| {
            let (handler, connection) = (Arc::clone(&handler), Arc::clone(&connection));
            let exchange = Arc::clone(&exchange);
            async move {
                Ok(match exchange.refuse_expectation() {
                    Some(refused) => refused,
                    None => exchange.respond(handler.call(&connection, request).await),
                })
            }
        })
    }

    /// Wraps the handler as a hyper service for HTTP/2.
    fn http2_service(
        &self,
        connection: Arc<Connection>,
    ) -> impl hyper::service::Service<
        Request<Incoming>,
        Response = http::Response<SlicedBody<H::Body>>,
        Error = Infallible,
        Future: Send + 'static,
    > + Send
    + 'static {
        let handler = Arc::clone(&self.handler);
        let prints_headers = self.config.prints_http2_headers;
        service_fn(move |request| {
            if prints_headers {
                print_fields(&request);
            }
            let (handler, connection) = (Arc::clone(&handler), Arc::clone(&connection));
            async move { Ok(handler.call(&connection, request).await.map(SlicedBody::new)) }
        })
    }
}

/// Runs a connection until it ends or the listener cuts it. On a drain, calls `finish` once.
async fn run<C, E>(
    connection: C,
    finish: impl Fn(Pin<&mut C>),
    mut phase: watch::Receiver<ListenerPhase>,
) -> Result<(), ConnectionError>
where
    C: Future<Output = Result<(), E>>,
    ConnectionError: From<E>,
{
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => return Ok(result?),
            changed = phase.changed() => {
                // An error means that the handle was dropped.
                if changed.is_err() || *phase.borrow_and_update() == ListenerPhase::Cut {
                    return Ok(());
                }
                finish(connection.as_mut());
            }
        }
    }
}
