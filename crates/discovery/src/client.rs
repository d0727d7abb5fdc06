//! A cluster that keeps a list, over gRPC.
//!
//! The endpoints are asked in turn: whoever does not answer hands the turn to the next. TLS is spoken with those whose URL says so, and with `host:port` if
//! there are settings for it, as etcd's client does.
//!
//! Where there is a user, each request shows a token. It may count no more at any time: it has a time to live, and none outlives a change of users or
//! roles. Whoever is told so asks for a new one, and then asks again, as etcd's client does:
//!
//! ```text
//!     Authenticate ──► token ──► Put ──► revision of auth store is old ──► Authenticate ──► token ──► Put ──► done
//! ```

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use http::Uri;
use hyper_util::rt::TokioIo;
use net::{ClientStream, DialError, Dialer, Target};
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    AuthenticateRequest, PutRequest, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest,
    WatchResponse,
};
use proto::mvccpb::KeyValue;
use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use tls::ClientTls;
use tokio::time::timeout;
use tonic::codegen::Service;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::error::JoinError;
use crate::join::Registry;
use crate::roster::Entry;
use crate::settings::{Credential, Settings};

/// The longest answer that is taken if nobody says otherwise: a list of some ten thousand members.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The longest request that is made if nobody says otherwise. That of etcd's client.
const REQUEST_BYTES_MAX: usize = 2 << 20;
/// The least time between two pings. That of grpc-go.
const KEEPALIVE_MIN: Duration = Duration::from_secs(10);
/// The key of the token of a user, as etcd reads it.
const TOKEN: &str = "token";
/// How a service says that a token counts no more, or that there should have been one. The first goes with `Unauthenticated` and the others with
/// `InvalidArgument`, so it is the text that tells.
const STALE: [&str; 3] = [
    "etcdserver: invalid auth token",
    "etcdserver: revision of auth store is old",
    "etcdserver: user name is empty",
];

/// Who keeps the list.
pub(crate) struct Client {
    channels: Vec<Channel>,
    /// Whose turn it is.
    turn: usize,
    credential: Credential,
    pass: Pass,
    limits: Limits,
    request_timeout: Duration,
    /// A watch goes on for as long as this is kept.
    watch: Option<Streaming<WatchResponse>>,
}

/// What a request shows of who asks.
enum Pass {
    /// To be found out before the next request.
    Unknown,
    /// Nothing, and nobody wants to see any.
    Needless,
    Token(MetadataValue<Ascii>),
}

/// How long messages may be, in bytes.
#[derive(Clone, Copy)]
struct Limits {
    request: usize,
    answer: usize,
}

impl Limits {
    /// Compat: as in etcd, only a limit that was given need be above that of requests.
    fn of(settings: &Settings) -> Result<Limits, JoinError> {
        let request = settings.request_bytes_max;
        match (request, settings.answer_bytes_max) {
            (Some(request), Some(answer)) if request > answer => {
                Err(JoinError::Limits { request, answer })
            }
            (_, answer) => Ok(Limits {
                request: request.unwrap_or(REQUEST_BYTES_MAX),
                answer: answer.unwrap_or(ANSWER_BYTES_MAX),
            }),
        }
    }

    fn kv(self, channel: Channel) -> KvClient<Channel> {
        let kv = KvClient::new(channel).max_encoding_message_size(self.request);
        kv.max_decoding_message_size(self.answer)
    }

    fn watch(self, channel: Channel) -> WatchClient<Channel> {
        let watch = WatchClient::new(channel).max_encoding_message_size(self.request);
        watch.max_decoding_message_size(self.answer)
    }

    fn auth(self, channel: Channel) -> AuthClient<Channel> {
        let auth = AuthClient::new(channel).max_encoding_message_size(self.request);
        auth.max_decoding_message_size(self.answer)
    }
}

impl Client {
    pub(crate) async fn new(
        settings: &Settings,
        metrics: &tls::Metrics,
    ) -> Result<Client, JoinError> {
        let info = settings.tls.clone().unwrap_or_default();
        let side = Arc::new(ClientTls::load("discovery-client", info, metrics)?);
        if settings.endpoints.is_empty() {
            return Err(JoinError::NoEndpoints);
        }
        let credential = settings.user.credential()?;
        let limits = Limits::of(settings)?;
        let channels = settings.endpoints.iter().map(|endpoint| channel(endpoint, &side, settings));
        let mut client = Client {
            channels: channels.collect::<Result<_, _>>()?,
            turn: 0,
            credential,
            pass: Pass::Unknown,
            limits,
            request_timeout: settings.request_timeout,
            watch: None,
        };
        client.introduce().await.map_err(|status| JoinError::Refused(Box::new(status)))?;
        Ok(client)
    }

    /// The one whose turn it is.
    fn channel(&self) -> Channel {
        self.channels[self.turn % self.channels.len()].clone()
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Pass::Token(token) = &self.pass {
            request.metadata_mut().insert(TOKEN, token.clone());
        }
        request
    }

    /// The first pass, from the first that answers.
    async fn introduce(&mut self) -> Result<(), Status> {
        let mut shown = self.authenticate().await;
        for _ in 1..self.channels.len() {
            match shown {
                Err(status) if is_silence(&status) => shown = self.authenticate().await,
                other => return other,
            }
        }
        shown
    }

    /// Learns what to show.
    async fn authenticate(&mut self) -> Result<(), Status> {
        self.pass = match &self.credential {
            Credential::None => Pass::Needless,
            Credential::Token(token) => Pass::Token(token.clone()),
            Credential::Password { name, password } => {
                let (name, password) = (name.clone(), password.clone());
                self.ask_for_token(AuthenticateRequest { name, password }).await?
            }
        };
        Ok(())
    }

    async fn ask_for_token(&mut self, request: AuthenticateRequest) -> Result<Pass, Status> {
        let mut auth = self.limits.auth(self.channel());
        match within(self.request_timeout, auth.authenticate(request)).await {
            Ok(answer) => {
                let token = answer.into_inner().token.parse();
                token.map(Pass::Token).map_err(|_| Status::internal("a token that is no text"))
            }
            Err(status) if status.message() == "etcdserver: authentication is not enabled" => {
                Ok(Pass::Needless)
            }
            Err(status) => Err(self.failed(status)),
        }
    }

    /// Asks somebody; once more if what was shown counts no more, and something else can be.
    async fn call<Q: Clone, A, F>(
        &mut self,
        message: Q,
        ask: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Status>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        match self.call_once(message.clone(), &ask).await {
            Err(status) if is_stale(status.message()) && self.credential.is_renewable() => {
                self.call_once(message, &ask).await
            }
            other => other,
        }
    }

    async fn call_once<Q, A, F>(
        &mut self,
        message: Q,
        ask: &impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Status>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if let Pass::Unknown = self.pass {
            self.authenticate().await?;
        }
        let request = self.request(message);
        let answered = within(self.request_timeout, ask(self.channel(), request)).await;
        answered.map(Response::into_inner).map_err(|status| self.failed(status))
    }

    /// Hands the turn on if nobody answered; and forgets what counts no more.
    fn failed(&mut self, status: Status) -> Status {
        if is_silence(&status) {
            self.turn = self.turn.wrapping_add(1);
        }
        self.forget_stale(status.message());
        status
    }

    fn forget_stale(&mut self, said: &str) {
        if is_stale(said) {
            self.pass = Pass::Unknown;
        }
    }

    async fn range(&mut self, key: &str, range_end: Vec<u8>) -> Result<RangeResponse, Status> {
        let key = key.as_bytes().to_vec().into();
        let message = RangeRequest { key, range_end: range_end.into(), ..RangeRequest::default() };
        let limits = self.limits;
        let ask = |channel, request| async move { limits.kv(channel).range(request).await };
        self.call(message, ask).await
    }
}

impl Registry for Client {
    async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        let found = self.range(key, Vec::new()).await?;
        Ok(found.kvs.into_iter().next().map(|kv| kv.value.to_vec()))
    }

    async fn list(&mut self, key: &str, end: Vec<u8>) -> Result<(Vec<Entry>, i64), Status> {
        let found = self.range(key, end).await?;
        let revision = found.header.map_or(0, |header| header.revision);
        Ok((found.kvs.iter().map(entry).collect(), revision))
    }

    async fn put(&mut self, key: &str, value: &str) -> Result<(), Status> {
        let message = PutRequest {
            key: key.as_bytes().to_vec().into(),
            value: value.as_bytes().to_vec().into(),
            ..PutRequest::default()
        };
        let limits = self.limits;
        let ask = |channel, request| async move { limits.kv(channel).put(request).await };
        self.call(message, ask).await.map(drop)
    }

    async fn watch(&mut self, key: &str, end: Vec<u8>, revision: i64) -> Result<(), Status> {
        let create = WatchCreateRequest {
            key: key.as_bytes().to_vec().into(),
            range_end: end.into(),
            start_revision: revision,
            ..WatchCreateRequest::default()
        };
        let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let limits = self.limits;
        let ask = |channel, request: Request<WatchRequest>| async move {
            // Nothing else is asked, and the end of what is asked would be the end of the watch.
            let request = request.map(|first| stream::once(ready(first)).chain(stream::pending()));
            limits.watch(channel).watch(request).await
        };
        self.watch = Some(self.call(first, ask).await?);
        Ok(())
    }

    async fn next(&mut self) -> Result<Vec<Entry>, Status> {
        let Some(watch) = &mut self.watch else { return Err(Status::internal("no watch")) };
        let response = match watch.message().await {
            Ok(Some(response)) if !response.canceled => response,
            // A watch that may not be is told so in an answer, not by the end of the call.
            Ok(Some(response)) => {
                self.forget_stale(&response.cancel_reason);
                return Err(Status::cancelled(response.cancel_reason));
            }
            Ok(None) => return Err(Status::unavailable("the watch has ended")),
            Err(status) => return Err(self.failed(status)),
        };
        Ok(response.events.iter().filter_map(|event| event.kv.as_ref()).map(entry).collect())
    }
}

/// Whether nobody answered.
fn is_silence(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
}

/// Whether what was shown does not count. The reason why a watch ends begins with a code.
fn is_stale(said: &str) -> bool {
    STALE.iter().any(|stale| said.ends_with(stale))
}

fn entry(kv: &KeyValue) -> Entry {
    Entry::new(&kv.key, &kv.value, kv.create_revision)
}

async fn within<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let answered = timeout(patience, call).await;
    answered.unwrap_or_else(|_| Err(Status::deadline_exceeded("context deadline exceeded")))
}

/// A connection that is made when it is needed, and made anew when it is lost.
fn channel(
    endpoint: &str,
    side: &Arc<ClientTls>,
    settings: &Settings,
) -> Result<Channel, JoinError> {
    let target = Target::parse(&with_scheme(endpoint, settings.tls.is_some()))?;
    let dialer = Dialer::new(Arc::clone(side), settings.dial_timeout);
    let endpoint = Endpoint::from_shared(format!("http://{}", authority(&target)))
        .map_err(|error| JoinError::Authority(error.to_string()))?
        .http2_keep_alive_interval(settings.keepalive_time.max(KEEPALIVE_MIN))
        .keep_alive_timeout(settings.keepalive_timeout);
    Ok(endpoint.connect_with_connector_lazy(Connector { dialer, target }))
}

/// A URL, where a host and a port will do.
fn with_scheme(endpoint: &str, is_secure: bool) -> String {
    match endpoint.split_once(':') {
        Some((_, rest)) if rest.starts_with("//") => endpoint.to_owned(),
        Some((scheme @ ("unix" | "unixs"), path)) => format!("{scheme}://{path}"),
        _ if is_secure => format!("https://{endpoint}"),
        _ => format!("http://{endpoint}"),
    }
}

/// What a request is addressed to.
fn authority(target: &Target) -> String {
    let text = target.to_string();
    if text.contains('/') { target.host().to_owned() } else { text }
}

/// Makes connections for a channel.
#[derive(Clone)]
struct Connector {
    dialer: Dialer,
    target: Target,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<ClientStream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<ClientStream>, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Connector { dialer, target } = self.clone();
        Box::pin(async move { Ok(TokioIo::new(dialer.dial(&target).await?)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_or_a_host_and_a_port() {
        for (endpoint, is_secure, url) in [
            ("http://d:1", true, "http://d:1"),
            ("https://d:1", false, "https://d:1"),
            ("d:1", false, "http://d:1"),
            ("d:1", true, "https://d:1"),
            ("unix:///run/d", false, "unix:///run/d"),
            ("unix:/run/d", false, "unix:///run/d"),
        ] {
            assert_eq!(with_scheme(endpoint, is_secure), url);
        }
        let authority = |url| authority(&Target::parse(url).unwrap());
        assert_eq!(authority("http://[fd00::1]:1"), "[fd00::1]:1");
        assert_eq!(authority("unix:///run/d"), "localhost");
    }
}
