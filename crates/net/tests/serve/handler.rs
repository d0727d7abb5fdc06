//! The handler and server that the tests use.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use net::{
    Address, Config, Connection, Handler, Listener, ListenerHandle, Runtimes, SocketOptions,
};
use testkit::waiting::yield_until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};

/// Answers by path:
///
/// - `/whoami` describes the connection,
/// - `/echo` returns the request body,
/// - `/flood` never ends,
/// - `/long` is a response of [`LONG_BYTES`], built when there is room for it,
/// - `/switch` upgrades to an echo protocol,
/// - `/hold` announces that it has started, and answers when released.
pub(crate) struct Paths {
    started: mpsc::UnboundedSender<Ending>,
    go: Arc<Semaphore>,
    speaks_http1: bool,
}

/// The length of `/long`: more than the buffers of a socket hold.
pub(crate) const LONG_BYTES: usize = 32 << 20;

/// Closed when the handler of a call ends, with a response or by being dropped.
pub(crate) struct Ending(mpsc::Receiver<Infallible>);

impl Ending {
    /// Waits until the handler has ended.
    pub(crate) async fn wait(&mut self) {
        within("the end of the handler", self.0.recv()).await;
    }
}

impl Handler for Paths {
    type Body = BoxBody<Bytes, hyper::Error>;

    fn speaks_http1(&self) -> bool {
        self.speaks_http1
    }

    async fn call(
        &self,
        connection: &Arc<Connection>,
        request: Request<Incoming>,
    ) -> Response<Self::Body> {
        let body = match request.uri().path() {
            "/whoami" => whoami(connection, &request),
            "/echo" => return Response::new(request.into_body().boxed()),
            "/flood" => return Response::new(Flood.boxed()),
            "/long" => {
                connection.send_budget.wait_for_room().await;
                let body = Full::new(connection.send_budget.charge(vec![7; LONG_BYTES].into()));
                return Response::new(body.map_err(|never| match never {}).boxed());
            }
            "/switch" => return self.switch(connection, request),
            "/hold" => self.hold().await,
            path => panic!("no test requests {path}"),
        };
        let mut response = Response::new(Full::from(body).map_err(|never| match never {}).boxed());
        response.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
        response
    }
}

impl Paths {
    fn switch(
        &self,
        connection: &Connection,
        request: Request<Incoming>,
    ) -> Response<<Self as Handler>::Body> {
        let (held, ending) = mpsc::channel(1);
        self.started.send(Ending(ending)).expect("the test holds the receiver");
        connection.on_upgrade(async move {
            let mut io = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
            let mut buffer = [0; 64];
            while let Ok(count @ 1..) = io.read(&mut buffer).await {
                io.write_all(&buffer[..count]).await.unwrap();
            }
            drop(held);
        });
        let mut response = Response::new(Full::default().map_err(|never| match never {}).boxed());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("connection", HeaderValue::from_static("upgrade"));
        response.headers_mut().insert("upgrade", HeaderValue::from_static("echo"));
        response
    }

    async fn hold(&self) -> String {
        let (_held, ending) = mpsc::channel(1);
        self.started.send(Ending(ending)).expect("the test holds the receiver");
        self.go.acquire().await.expect("the semaphore is never closed").forget();
        "held".to_owned()
    }
}

fn whoami(connection: &Connection, request: &Request<Incoming>) -> String {
    let Connection { remote, tls, common_name, .. } = connection;
    let name = common_name.as_deref().map(|name| format!(", named {name:?}")).unwrap_or_default();
    format!("{:?} from {remote}, tls {tls}{name}", request.version())
}

/// An endless body.
struct Flood;

impl Body for Flood {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[7; 1 << 16])))))
    }
}

/// A served listener.
pub(crate) struct Server {
    pub(crate) handle: ListenerHandle,
    /// Calls of `/hold` and `/switch` as they begin.
    started: mpsc::UnboundedReceiver<Ending>,
    go: Arc<Semaphore>,
    // Dropped last, so that everything above is served to its end.
    _runtimes: Runtimes,
}

impl Server {
    pub(crate) fn start(config: Config) -> Self {
        Self::listen(&Address::Tcp("127.0.0.1:0".into()), config)
    }

    pub(crate) fn listen(address: &Address, config: Config) -> Self {
        Self::speaking(address, config, true)
    }

    pub(crate) fn without_http1() -> Self {
        Self::speaking(&Address::Tcp("127.0.0.1:0".into()), Config::default(), false)
    }

    fn speaking(address: &Address, config: Config, speaks_http1: bool) -> Self {
        let runtimes = Runtimes::start(2).unwrap();
        let listener = Listener::bind(address, SocketOptions::default()).unwrap();
        let (sender, started) = mpsc::unbounded_channel();
        let go = Arc::new(Semaphore::new(0));
        let handler = Arc::new(Paths { started: sender, go: Arc::clone(&go), speaks_http1 });
        let handle = net::serve(&runtimes, listener, handler, config).unwrap();
        Self { handle, started, go, _runtimes: runtimes }
    }

    pub(crate) fn address(&self) -> String {
        self.handle.local().to_string()
    }

    /// Waits until the next call of `/hold` or `/switch` begins.
    pub(crate) async fn next_started(&mut self) -> Ending {
        within("the start of a call", self.started.recv()).await.expect("the server runs")
    }

    /// Waits until this many connections are open. A client sees its connection end a moment before
    /// the count changes.
    pub(crate) async fn has_connections(&self, count: usize) {
        let what = format!("{count} connections are open");
        yield_until(&what, || self.handle.connections() == count).await;
    }

    /// Releases one call of `/hold`.
    pub(crate) fn release(&self) {
        self.go.add_permits(1);
    }
}

/// Waits for a future. `what` describes it.
///
/// # Panics
/// After [`TEST_TIMEOUT`], with the description.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(TEST_TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("timed out after {TEST_TIMEOUT:?} waiting for {what}"))
}

/// Longer than anything should take.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A timeout that tests wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(50);
