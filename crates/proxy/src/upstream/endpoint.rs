//! One endpoint: its address, and its connection.
//!
//! ```text
//!   not connected ── dial ──► open ── ended ──► not connected
//!        ▲            │
//!        └── failed ──┘       the next dial in the background: 250 ms, 500 ms, … 5 s later
//! ```
//!
//! A dial is a task of its own, at most one per endpoint. It records its result even if the call
//! that started it was canceled, so a host that drops packets holds up no call for long.

use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use net::{Dialer, Target, TargetError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::body::Body;

use super::UpstreamSettings;

/// The pause after the first failed dial, and the shortest one after any.
const DIAL_PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause after a failed dial. grpc-go backs off for up to 120 s; a member that has
/// restarted takes its share of the calls sooner here.
const DIAL_PAUSE_MAX: Duration = Duration::from_secs(5);
/// The least time between two pings. As in grpc-go.
const KEEPALIVE_MIN: Duration = Duration::from_secs(10);
/// The receive window of a stream: a range of some MiB then takes few round trips.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The receive window of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    url: String,
    target: Target,
    scheme: Scheme,
    authority: Authority,
    dialer: Dialer,
    http2: Http2,
    connection: watch::Sender<ConnectionState>,
}

/// The settings of HTTP/2.
#[derive(Clone, Copy, Debug)]
struct Http2 {
    keepalive_time: Option<Duration>,
    keepalive_timeout: Duration,
    keepalive_when_idle: bool,
}

#[derive(Debug, Default)]
struct ConnectionState {
    /// The newest connection, which may have ended.
    sender: Option<SendRequest<Body>>,
    /// Whether a task dials.
    is_dialing: bool,
    /// The failure of the last dial.
    failure: Option<DialFailure>,
}

#[derive(Debug)]
struct DialFailure {
    at: Instant,
    /// The time until the next dial in the background.
    pause: Duration,
    reason: String,
}

/// The urgency of a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialUrgency {
    /// Another endpoint serves meanwhile: failures back off.
    Background,
    /// No endpoint has a connection, so that a call waits for this one.
    Needed,
}

/// Names the endpoint that a request was sent to, if it is an extension of the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentTo(Arc<Mutex<Option<String>>>);

impl SentTo {
    /// Returns the URL of the endpoint; none if the request was not sent.
    pub(crate) fn url(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// A request that was not sent: another endpoint may be tried with it.
#[derive(Debug)]
pub(super) struct NotSent {
    pub(super) request: Request<Body>,
    pub(super) reason: String,
}

impl Endpoint {
    /// Parses an endpoint: a URL or `host:port`.
    pub(super) fn new(url: &str, settings: &UpstreamSettings) -> Result<Endpoint, TargetError> {
        let target = Target::parse(&with_scheme(url, settings.secure_by_default))?;
        let authority = authority(&target);
        let invalid = |_| TargetError::NoHost(url.to_owned());
        Ok(Endpoint {
            url: url.to_owned(),
            scheme: if target.is_secure() { Scheme::HTTPS } else { Scheme::HTTP },
            authority: Authority::try_from(authority).map_err(invalid)?,
            target,
            dialer: Dialer {
                proxies: Arc::clone(&settings.proxies),
                ..Dialer::new(Arc::clone(&settings.tls), settings.dial_timeout)
            },
            http2: Http2 {
                keepalive_time: settings.keepalive_time.map(|time| time.max(KEEPALIVE_MIN)),
                keepalive_timeout: settings.keepalive_timeout,
                keepalive_when_idle: settings.keepalive_when_idle,
            },
            connection: watch::Sender::default(),
        })
    }

    /// Returns the endpoint as given.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the target of connections.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the connection, if it is open.
    pub(super) fn connection(&self) -> Option<SendRequest<Body>> {
        self.connection.borrow().open().cloned()
    }

    /// Returns whether the endpoint could not be reached, and is not being dialed again.
    pub(crate) fn is_down(&self) -> bool {
        let state = self.connection.borrow();
        state.open().is_none() && state.failure.is_some() && !state.is_dialing
    }

    /// Sends a request over a connection of this endpoint.
    pub(super) async fn send(
        &self,
        mut connection: SendRequest<Body>,
        mut request: Request<Body>,
    ) -> Result<Result<Response<Incoming>, hyper::Error>, Box<NotSent>> {
        *request.uri_mut() = self.uri(request.uri());
        if let Some(sent_to) = request.extensions().get::<SentTo>() {
            *sent_to.0.lock() = Some(self.url.clone());
        }
        match connection.try_send_request(request).await {
            Ok(response) => Ok(Ok(response)),
            Err(mut error) => match error.take_message() {
                Some(request) => {
                    Err(Box::new(NotSent { request, reason: error.into_error().to_string() }))
                }
                None => Ok(Err(error.into_error())),
            },
        }
    }

    /// Waits for an open connection, or for the failure of the dial that is under way or due.
    pub(super) async fn connect(
        self: &Arc<Self>,
        runtime: &Handle,
    ) -> Result<SendRequest<Body>, String> {
        let mut changes = self.connection.subscribe();
        self.dial(runtime, DialUrgency::Needed);
        let dialed = changes.wait_for(|state| !state.is_dialing).await;
        let state = dialed.expect("the endpoint holds the sender of changes");
        match (state.open(), &state.failure) {
            (Some(sender), _) => Ok(sender.clone()),
            (None, Some(failure)) => Err(failure.reason.clone()),
            // The runtime stops, or the connection has ended at once.
            (None, None) => Err("the connection is closing".to_owned()),
        }
    }

    /// Starts a task that dials, if there is neither a connection nor such a task, and the last
    /// failure is old enough.
    pub(super) fn dial(self: &Arc<Self>, runtime: &Handle, urgency: DialUrgency) {
        // Most calls find a connection, and need no exclusive lock.
        if !self.connection.borrow().is_dial_due(urgency) {
            return;
        }
        let starts = self.connection.send_if_modified(|state| {
            let starts = state.is_dial_due(urgency);
            state.is_dialing |= starts;
            starts
        });
        if starts {
            // On the runtime that drives the connection, so that its socket is registered there.
            runtime.spawn(DialAttempt(Arc::clone(self)).run());
        }
    }

    /// Returns a path on this endpoint.
    fn uri(&self, of: &Uri) -> Uri {
        let mut parts = of.clone().into_parts();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query.get_or_insert_with(|| http::uri::PathAndQuery::from_static("/"));
        Uri::from_parts(parts).unwrap_or_else(|_| of.clone())
    }
}

impl ConnectionState {
    /// Returns the connection, if it is open.
    fn open(&self) -> Option<&SendRequest<Body>> {
        self.sender.as_ref().filter(|sender| !sender.is_closed())
    }

    fn is_dial_due(&self, urgency: DialUrgency) -> bool {
        if self.is_dialing || self.open().is_some() {
            return false;
        }
        self.failure.as_ref().is_none_or(|failure| failure.is_over(urgency))
    }

    /// Records the result of a dial.
    fn dialed(&mut self, url: &str, opened: Result<SendRequest<Body>, String>) {
        match opened {
            Ok(sender) => {
                if self.failure.take().is_some() {
                    tracing::info!(endpoint = url, "connected again");
                }
                self.sender = Some(sender);
            }
            Err(reason) => {
                // Logged when it begins: an endpoint that is down is tried again and again.
                match &self.failure {
                    Some(before) if before.reason == reason => {
                        tracing::debug!(endpoint = url, "still not connected");
                    }
                    _ => tracing::warn!(endpoint = url, error = reason, "failed to connect"),
                }
                self.failure = Some(DialFailure::after(self.failure.as_ref(), reason));
            }
        }
    }
}

impl DialFailure {
    /// Records a failure that follows another one.
    fn after(before: Option<&DialFailure>, reason: String) -> DialFailure {
        let pause = before.map_or(DIAL_PAUSE_MIN, |before| before.pause * 2).min(DIAL_PAUSE_MAX);
        DialFailure { at: Instant::now(), pause, reason }
    }

    /// Returns whether the endpoint may be dialed again.
    fn is_over(&self, urgency: DialUrgency) -> bool {
        let pause = match urgency {
            DialUrgency::Background => self.pause,
            DialUrgency::Needed => DIAL_PAUSE_MIN,
        };
        self.at.elapsed() >= pause
    }
}

/// The dial of an endpoint that is under way. Its end is recorded even if its runtime stops.
struct DialAttempt(Arc<Endpoint>);

impl DialAttempt {
    async fn run(self) {
        let endpoint = &self.0;
        let opened = endpoint.http2.open(&endpoint.dialer, &endpoint.target).await;
        endpoint.connection.send_modify(|state| state.dialed(&endpoint.url, opened));
    }
}

impl Drop for DialAttempt {
    fn drop(&mut self) {
        self.0.connection.send_modify(|state| state.is_dialing = false);
    }
}

impl Http2 {
    /// Connects, and spawns the task that drives the connection.
    async fn open(self, dialer: &Dialer, target: &Target) -> Result<SendRequest<Body>, String> {
        let stream = dialer.dial(target).await.map_err(|error| error.to_string())?;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(self.keepalive_time)
            .keep_alive_timeout(self.keepalive_timeout)
            .keep_alive_while_idle(self.keepalive_when_idle);
        let opened = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| error.to_string())?;
        let target = target.to_string();
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(address = target, %error, "connection lost");
            }
        });
        Ok(sender)
    }
}

/// Adds a scheme to `host:port`.
fn with_scheme(endpoint: &str, is_secure: bool) -> String {
    match endpoint.split_once(':') {
        Some((_, rest)) if rest.starts_with("//") => endpoint.to_owned(),
        Some((scheme @ ("unix" | "unixs"), path)) => format!("{scheme}://{path}"),
        _ if is_secure => format!("https://{endpoint}"),
        _ => format!("http://{endpoint}"),
    }
}

/// Returns the authority of requests.
fn authority(target: &Target) -> String {
    let text = target.to_string();
    if text.contains('/') { target.host().to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use testkit::waiting::TIMEOUT;
    use tokio::time::timeout;

    use super::super::tests::{asked, start, upstream};
    use super::*;

    #[tokio::test]
    async fn a_canceled_call_does_not_cancel_its_dial() {
        let (address, _member) = start(1).await;
        let upstream = upstream(&[&address]);
        {
            let mut call = pin!(asked(&upstream));
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let mut changes = upstream.endpoints()[0].connection.subscribe();
        let connected = timeout(TIMEOUT, changes.wait_for(|state| state.open().is_some())).await;
        assert!(connected.is_ok(), "timed out waiting for the dial of a canceled call");
    }

    #[tokio::test(start_paused = true)]
    async fn failed_dials_back_off_unless_no_endpoint_is_connected() {
        let mut state = ConnectionState::default();
        assert!(state.is_dial_due(DialUrgency::Background), "not dialed yet");
        for pause in [250, 500, 1000, 2000, 4000, 5000, 5000].map(Duration::from_millis) {
            state.dialed("a:1", Err("refused".to_owned()));
            assert!(!state.is_dial_due(DialUrgency::Needed));
            tokio::time::advance(DIAL_PAUSE_MIN).await;
            assert!(state.is_dial_due(DialUrgency::Needed));
            assert_eq!(state.is_dial_due(DialUrgency::Background), pause == DIAL_PAUSE_MIN);
            tokio::time::advance(pause - DIAL_PAUSE_MIN).await;
            assert!(state.is_dial_due(DialUrgency::Background), "{pause:?} have passed");
        }
    }
}
