//! Accepts connections and serves them.
//!
//! The accept loop runs on the first runtime and does nothing but accept: what it has goes to the runtime with the fewest
//! connections at once. There a task for each connection finds out what it speaks, and runs the library that speaks it until the
//! connection ends, or until it is told to finish (see [`Phase`]).

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
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::config::{
    CONNECTION_WINDOW_BYTES, Config, FRAME_BYTES_MAX, HEADER_BYTES_MAX, HTTP1_HEADERS_MAX,
    LOCAL_RESETS_MAX, PENDING_RESETS_MAX, SEND_BUFFER_BYTES, STREAM_WINDOW_BYTES,
    STREAMS_UNLIMITED,
};
use crate::connection::{Connection, Peer};
use crate::crowd::{Crowd, Exit, Guest};
use crate::gather::gather;
use crate::guard::{Guard, Limits};
use crate::handler::Handler;
use crate::handshake::{Handshake, HandshakeError, linger};
use crate::listener::{Acceptor, Listener};
use crate::mail::{MailExecutor, Mailbox};
use crate::opening::{self, Protocol, Replay};
use crate::runtimes::{Places, Runtimes, Taken};
use crate::security::{Security, Tls};
use crate::serving::{Phase, Seat, Seats, Serving};
use crate::stream::{Accepted, Stream};
use crate::unsent;
use crate::watched::{Watched, WatchedError};

/// The first and the longest pause after an error of accepting, such as having no file descriptor left. It doubles between them.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Serves a listener on these runtimes, until what is returned says otherwise.
pub fn serve<H: Handler>(
    runtimes: &Runtimes,
    listener: Listener,
    handler: Arc<H>,
    config: Config,
) -> io::Result<Serving> {
    let local = listener.local();
    let (sender, phase) = watch::channel(Phase::Serve);
    let (seats, listening) = Seats::new(config.connections_max);
    let server = Arc::new(Server {
        handler,
        opening: Crowd::new(config.opening_max),
        config,
        places: runtimes.places(),
        seats: seats.clone(),
        unsent: unsent::total(),
        phase,
    });
    let acceptor = runtimes.within(|| listener.into_acceptor())?;
    runtimes.background().spawn(async move {
        accept(&acceptor, server).await;
        // In this order: whoever waits for the seat finds the address free.
        drop(acceptor);
        drop(listening);
    });
    Ok(Serving { local, phase: sender, seats })
}

/// What all connections of a listener share.
struct Server<H> {
    handler: Arc<H>,
    config: Config,
    places: Places,
    seats: Seats,
    /// Those who have not said what they speak.
    opening: Arc<Crowd>,
    /// What no client has read yet.
    unsent: Arc<Crowd>,
    phase: watch::Receiver<Phase>,
}

/// A connection that nobody has looked at.
struct Arrival {
    accepted: Accepted,
    seat: Seat,
    opening: Opening,
}

/// Its place among those who have not said what they speak.
struct Opening {
    exit: Arc<Exit>,
    _guest: Guest,
}

/// The accept loop.
async fn accept<H: Handler>(acceptor: &Acceptor, server: Arc<Server<H>>) {
    let mut phase = server.phase.clone();
    let mut pause = PAUSE_MIN;
    loop {
        let arrival = tokio::select! {
            biased;
            _ = phase.changed() => return,
            arrival = server.arrival(acceptor) => arrival,
        };
        match arrival {
            Ok(arrival) => {
                pause = PAUSE_MIN;
                Arc::clone(&server).start(arrival);
            }
            // The client has gone again, which is nothing to wait for.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                warn!(%error, ?pause, "failed to accept a connection");
                tokio::select! {
                    _ = phase.changed() => return,
                    () = sleep(pause) => pause = PAUSE_MAX.min(2 * pause),
                }
            }
        }
    }
}

impl<H: Handler> Server<H> {
    /// The next connection, once there is room for one.
    async fn arrival(&self, acceptor: &Acceptor) -> io::Result<Arrival> {
        let mut seat = self.seats.take().await;
        let accepted = acceptor.accept().await?;
        self.seats.sit(&mut seat);
        // Here, and not where it is looked at: who came first is known in this place alone.
        let exit = Arc::<Exit>::default();
        let opening = Opening { _guest: self.opening.join(1, Arc::clone(&exit)), exit };
        Ok(Arrival { accepted, seat, opening })
    }

    /// Hands a connection to a runtime.
    fn start(self: Arc<Self>, arrival: Arrival) {
        let place = self.places.take();
        place.handle().spawn(async move {
            let (peer, strangers_are_told) =
                (arrival.accepted.peer(), self.config.strangers_are_told);
            match self.connection(arrival, &place).await {
                Err(error) if strangers_are_told && error.is_of_a_stranger() => {
                    warn!(remote_addr = %peer, %error, "rejected connection");
                }
                Err(error) => debug!(%peer, %error, "connection ended"),
                Ok(()) => {}
            }
            drop(place);
        });
    }

    /// A connection, from its first byte to its last.
    async fn connection(
        self: Arc<Self>,
        arrival: Arrival,
        place: &Taken,
    ) -> Result<(), ConnectionError> {
        let Arrival { accepted, seat: _seat, opening } = arrival;
        let (peer, local) = (accepted.peer(), accepted.local());
        let stream = accepted.register()?;
        let opened = self.unless_ending(opening, self.opened(stream, peer, place)).await?;
        let Some((protocol, stream, connection)) = opened else { return Ok(()) };
        let connection = Arc::new(connection.with_local(local));
        let unsent = Arc::clone(&connection.unsent);
        // Each in a box of its own: a connection that has said nothing takes no room for what it may turn out to be.
        let spoken: Pin<Box<dyn Future<Output = Result<(), ConnectionError>> + Send + '_>> =
            match protocol {
                Protocol::Http1 if !self.handler.speaks_http1() => {
                    return Err(ConnectionError::Http1);
                }
                Protocol::Http1 => Box::pin(self.http1(stream, connection)),
                Protocol::Http2 => Box::pin(self.http2(stream, connection, place.mailbox())),
                Protocol::Tls => return Err(ConnectionError::Tls),
            };
        tokio::select! {
            biased;
            result = spoken => result,
            () = unsent.given_up() => Err(ConnectionError::Unread),
        }
    }

    /// Finds out what is spoken, inside of TLS if that is what the client begins with; `None` if it goes before it has said anything.
    async fn opened(
        &self,
        stream: Stream,
        peer: Peer,
        place: &Taken,
    ) -> Result<Option<Opened>, ConnectionError> {
        let Some((protocol, stream)) = self.open(stream, self.first_patience()).await? else {
            return Ok(None);
        };
        let plain = Connection::new(peer, false).among(&self.unsent);
        match (&self.config.security, protocol) {
            (Security::Plain, _) | (Security::Either(_), Protocol::Http1 | Protocol::Http2) => {
                Ok(Some((protocol, stream, plain)))
            }
            (Security::Tls(tls), Protocol::Http1 | Protocol::Http2) => {
                Err(not_tls(tls, peer, stream).await.into())
            }
            (Security::Tls(tls) | Security::Either(tls), Protocol::Tls) => {
                let handshake = Handshake { tls, peer, server_name: String::new() };
                Box::pin(self.secured(handshake, stream, place)).await
            }
        }
    }

    async fn secured(
        &self,
        mut handshake: Handshake<'_>,
        stream: Replay<Stream>,
        place: &Taken,
    ) -> Result<Option<Opened>, ConnectionError> {
        let in_time = self.config.opening_timeout.min(self.config.handshake_timeout);
        let (stream, name) = handshake.run(stream, place.turns(), in_time).await?;
        let connection = Connection::new(handshake.peer, true).with_common_name(name);
        let connection = connection.among(&self.unsent);
        let opened = self.open(stream, self.config.opening_timeout).await?;
        Ok(opened.map(|(protocol, stream)| (protocol, stream, connection)))
    }

    /// Compat: where nothing but TLS is spoken, etcd counts from the first moment.
    fn first_patience(&self) -> Duration {
        let patience = self.config.opening_timeout;
        if self.config.security.allows_plain() {
            return patience;
        }
        patience.min(self.config.handshake_timeout)
    }

    /// Runs until it is done, or until connections are to end; then there is nothing. Ends also when too many are opening, and this is the first of them.
    async fn unless_ending<T>(
        &self,
        opening: Opening,
        opened: impl Future<Output = Result<Option<T>, ConnectionError>>,
    ) -> Result<Option<T>, ConnectionError> {
        let mut phase = self.phase.clone();
        tokio::select! {
            biased;
            _ = phase.changed() => Ok(None),
            opened = opened => opened,
            () = opening.exit.shown() => Err(ConnectionError::Crowded),
        }
    }

    /// Finds out what is spoken; `None` if the connection ends before anything was said.
    async fn open(
        &self,
        stream: Stream,
        patience: Duration,
    ) -> Result<Option<(Protocol, Replay<Stream>)>, ConnectionError> {
        let opened = timeout(patience, opening::open(stream)).await;
        Ok(opened.map_err(|_| ConnectionError::Silent)??)
    }

    async fn http1(
        &self,
        stream: Replay<Stream>,
        connection: Arc<Connection>,
    ) -> Result<(), ConnectionError> {
        let running = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.config.headers_timeout)
            .max_headers(HTTP1_HEADERS_MAX)
            .max_header_size(HEADER_BYTES_MAX as usize)
            // Compat: Go writes `Content-Type`, and people search for that.
            .title_case_headers(true)
            .serve_connection(TokioIo::new(stream), self.service(Arc::clone(&connection)))
            .with_upgrades();
        let finish = http1::UpgradeableConnection::graceful_shutdown;
        run(running, finish, self.phase.clone()).await?;
        if let Some(work) = connection.switched() {
            // Whoever does it hears of the end by other ways, and if not is cut.
            let work = async {
                work.await;
                Ok::<_, hyper::Error>(())
            };
            run(work, |_| {}, self.phase.clone()).await?;
        }
        Ok(())
    }

    async fn http2(
        &self,
        stream: Replay<Stream>,
        connection: Arc<Connection>,
        mailbox: Arc<Mailbox>,
    ) -> Result<(), ConnectionError> {
        let config = &self.config;
        let (stream, flush) = gather(stream);
        let guard = Guard::new(
            stream,
            Limits {
                ping_min_time: self.ping_min_time(&connection),
                opening_timeout: config.opening_timeout,
                headers_timeout: config.headers_timeout,
            },
        );
        let streams_max = (config.streams_max != STREAMS_UNLIMITED).then_some(config.streams_max);
        let running = http2::Builder::new(MailExecutor(mailbox))
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
            // Compat: no response of grpc-go has one.
            .auto_date_header(false)
            .serve_connection(TokioIo::new(guard), self.service(connection));
        let watched = Watched::new(running, flush, config.keep_alive.silence_max());
        let finish = |watched: Pin<&mut Watched<_, _>>| {
            http2::Connection::graceful_shutdown(watched.get_mut().connection());
        };
        run(watched, finish, self.phase.clone()).await
    }

    /// Compat: over TLS, etcd lets Go's web server speak HTTP/2 rather than grpc-go, unless gRPC is served alone; and that minds no pings.
    fn ping_min_time(&self, connection: &Connection) -> Option<Duration> {
        let by_grpc = !connection.tls || !self.handler.speaks_http1();
        by_grpc.then_some(self.config.keep_alive.min_time)
    }

    /// The handler, in the shape that hyper calls.
    fn service(
        &self,
        connection: Arc<Connection>,
    ) -> impl hyper::service::Service<
        Request<Incoming>,
        Response = http::Response<H::Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Send
    + 'static {
        let handler = Arc::clone(&self.handler);
        service_fn(move |request| {
            let (handler, connection) = (Arc::clone(&handler), Arc::clone(&connection));
            async move { Ok(handler.call(&connection, request).await) }
        })
    }
}

/// Runs a connection until it ends, or until it is to end.
async fn run<C, E>(
    connection: C,
    finish: impl Fn(Pin<&mut C>),
    mut phase: watch::Receiver<Phase>,
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
                // An error says that nobody holds this listener any more.
                if changed.is_err() || *phase.borrow_and_update() == Phase::Cut {
                    return Ok(());
                }
                finish(connection.as_mut());
            }
        }
    }
}

/// A connection whose client has said what it speaks.
type Opened = (Protocol, Replay<Stream>, Connection);

/// Compat: etcd closes such a connection without a word, and tells the log.
async fn not_tls(tls: &Tls, peer: Peer, stream: Replay<Stream>) -> HandshakeError {
    let error = HandshakeError::NotTls;
    Handshake { tls, peer, server_name: String::new() }.tell(&error);
    linger(Some(stream)).await;
    error
}

/// Why a connection ended before its client ended it.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("the client did not say what it speaks")]
    Silent,
    #[error("too many clients do not say what they speak, and this was the first of them")]
    Crowded,
    #[error("too much was answered that no client reads, and this one let it lie for the longest")]
    Unread,
    #[error("the client speaks TLS, which this listener does not")]
    Tls,
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("the client speaks HTTP/1, which this listener does not")]
    Http1,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error(transparent)]
    Watched(#[from] WatchedError),
}

impl ConnectionError {
    /// Whether it was none that speaks HTTP. A handshake that fails is told of where it does.
    fn is_of_a_stranger(&self) -> bool {
        match self {
            Self::Silent | Self::Crowded | Self::Tls => true,
            Self::Http(error) => error.is_parse(),
            Self::Unread | Self::Handshake(_) | Self::Http1 | Self::Io(_) | Self::Watched(_) => {
                false
            }
        }
    }
}
