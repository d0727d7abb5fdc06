//! The gRPC client of a discovery service.
//!
//! Uses one endpoint until it does not answer, then the next. As in etcd's client, TLS is used with
//! `https` URLs, and with `host:port` if TLS is configured.
//!
//! With a user, each request carries a token. A token can become stale at any time: it expires, and
//! any change of users or roles invalidates it. As in etcd's client, a stale token is replaced and
//! the request repeated:
//!
//! ```text
//!   Authenticate ─► token ─► Put ─► revision of auth store is old ─► Authenticate ─► token ─► Put
//! ```

mod channel;
mod message_limits;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    AuthenticateRequest, PutRequest, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest,
    WatchResponse,
};
use proto::mvccpb::KeyValue;
use tls::ClientTls;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

use self::channel::channel;
pub use self::message_limits::ANSWER_BYTES_MAX;
use self::message_limits::MessageLimits;
use crate::error::JoinError;
use crate::member_list::RegistryEntry;
use crate::registration::Registry;
use crate::settings::{Credential, Settings};

/// The metadata key of a token.
const TOKEN: &str = "token";
/// The errors for stale and missing tokens. The first has the code `Unauthenticated`, the others
/// `InvalidArgument`, so only the text identifies them.
const STALE_TOKEN_ERRORS: [&str; 3] = [
    "etcdserver: invalid auth token",
    "etcdserver: revision of auth store is old",
    "etcdserver: user name is empty",
];

/// The client of a discovery service.
pub(crate) struct Client {
    channels: Vec<Channel>,
    /// The endpoint in use.
    endpoint_index: usize,
    credential: Credential,
    auth: AuthState,
    limits: MessageLimits,
    request_timeout: Duration,
    /// The open watch. Dropping it ends the watch.
    watch: Option<Streaming<WatchResponse>>,
}

/// The authentication of requests.
enum AuthState {
    /// Determined before the next request.
    Unknown,
    /// No token is needed.
    Disabled,
    Token(MetadataValue<Ascii>),
}

impl Client {
    pub(crate) async fn new(
        settings: &Settings,
        metrics: &tls::Metrics,
    ) -> Result<Client, JoinError> {
        let info = settings.tls.clone().unwrap_or_default();
        let tls = Arc::new(ClientTls::load("discovery-client", info, metrics)?);
        if settings.endpoints.is_empty() {
            return Err(JoinError::NoEndpoints);
        }
        let credential = settings.user.credential()?;
        let limits = MessageLimits::of(settings)?;
        let channels = settings.endpoints.iter().map(|endpoint| channel(endpoint, &tls, settings));
        let mut client = Client {
            channels: channels.collect::<Result<_, _>>()?,
            endpoint_index: 0,
            credential,
            auth: AuthState::Unknown,
            limits,
            request_timeout: settings.request_timeout,
            watch: None,
        };
        client.authenticate_any().await.map_err(|status| JoinError::Refused(Box::new(status)))?;
        Ok(client)
    }

    /// Returns the channel of the endpoint in use.
    fn channel(&self) -> Channel {
        self.channels[self.endpoint_index % self.channels.len()].clone()
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let AuthState::Token(token) = &self.auth {
            request.metadata_mut().insert(TOKEN, token.clone());
        }
        request
    }

    /// Authenticates with the first endpoint that answers.
    async fn authenticate_any(&mut self) -> Result<(), Status> {
        let mut result = self.authenticate().await;
        for _ in 1..self.channels.len() {
            match result {
                Err(status) if is_unreachable(&status) => result = self.authenticate().await,
                other => return other,
            }
        }
        result
    }

    /// Determines the token.
    async fn authenticate(&mut self) -> Result<(), Status> {
        self.auth = match &self.credential {
            Credential::None => AuthState::Disabled,
            Credential::Token(token) => AuthState::Token(token.clone()),
            Credential::Password { name, password } => {
                let (name, password) = (name.clone(), password.clone());
                self.request_token(AuthenticateRequest { name, password }).await?
            }
        };
        Ok(())
    }

    async fn request_token(&mut self, request: AuthenticateRequest) -> Result<AuthState, Status> {
        let mut auth = self.limits.auth(self.channel());
        match with_timeout(self.request_timeout, auth.authenticate(request)).await {
            Ok(answer) => {
                let token = answer.into_inner().token.parse();
                token.map(AuthState::Token).map_err(|_| Status::internal("the token is not ASCII"))
            }
            Err(status) if status.message() == "etcdserver: authentication is not enabled" => {
                Ok(AuthState::Disabled)
            }
            Err(status) => Err(self.on_error(status)),
        }
    }

    /// Sends a request, and repeats it if the token was stale and can be replaced.
    async fn call<Q: Clone, A, F>(
        &mut self,
        message: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Status>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        match self.call_once(message.clone(), &send).await {
            Err(status)
                if is_stale_token_error(status.message()) && self.credential.is_renewable() =>
            {
                self.call_once(message, &send).await
            }
            other => other,
        }
    }

    async fn call_once<Q, A, F>(
        &mut self,
        message: Q,
        send: &impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<A, Status>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if let AuthState::Unknown = self.auth {
            self.authenticate().await?;
        }
        let request = self.request(message);
        let answered = with_timeout(self.request_timeout, send(self.channel(), request)).await;
        answered.map(Response::into_inner).map_err(|status| self.on_error(status))
    }

    /// Moves on to the next endpoint if this one did not answer, and discards a stale token.
    fn on_error(&mut self, status: Status) -> Status {
        if is_unreachable(&status) {
            self.endpoint_index = self.endpoint_index.wrapping_add(1);
        }
        self.discard_stale_token(status.message());
        status
    }

    fn discard_stale_token(&mut self, text: &str) {
        if is_stale_token_error(text) {
            self.auth = AuthState::Unknown;
        }
    }

    async fn range(&mut self, key: &str, range_end: Vec<u8>) -> Result<RangeResponse, Status> {
        let key = key.as_bytes().to_vec().into();
        let message = RangeRequest { key, range_end: range_end.into(), ..RangeRequest::default() };
        let limits = self.limits;
        let send = |channel, request| async move { limits.kv(channel).range(request).await };
        self.call(message, send).await
    }
}

impl Registry for Client {
    async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        let found = self.range(key, Vec::new()).await?;
        Ok(found.kvs.into_iter().next().map(|kv| kv.value.to_vec()))
    }

    async fn list(&mut self, key: &str, end: Vec<u8>) -> Result<(Vec<RegistryEntry>, i64), Status> {
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
        let send = |channel, request| async move { limits.kv(channel).put(request).await };
        self.call(message, send).await.map(drop)
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
        let send = |channel, request: Request<WatchRequest>| async move {
            // Keeps the request stream open: its end would end the watch.
            let request = request.map(|first| stream::once(ready(first)).chain(stream::pending()));
            limits.watch(channel).watch(request).await
        };
        self.watch = Some(self.call(first, send).await?);
        Ok(())
    }

    async fn next(&mut self) -> Result<Vec<RegistryEntry>, Status> {
        let Some(watch) = &mut self.watch else { return Err(Status::internal("no watch")) };
        let response = match watch.message().await {
            Ok(Some(response)) if !response.canceled => response,
            // A refused watch is answered with a cancellation.
            Ok(Some(response)) => {
                self.discard_stale_token(&response.cancel_reason);
                return Err(Status::cancelled(response.cancel_reason));
            }
            Ok(None) => return Err(Status::unavailable("the watch has ended")),
            Err(status) => return Err(self.on_error(status)),
        };
        Ok(response.events.iter().filter_map(|event| event.kv.as_ref()).map(entry).collect())
    }
}

/// Returns whether the endpoint did not answer.
fn is_unreachable(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
}

/// Returns whether an error says that the token is stale or missing. The cancel reason of a watch
/// begins with a code.
fn is_stale_token_error(text: &str) -> bool {
    STALE_TOKEN_ERRORS.iter().any(|stale| text.ends_with(stale))
}

fn entry(kv: &KeyValue) -> RegistryEntry {
    RegistryEntry::new(&kv.key, &kv.value, kv.create_revision)
}

async fn with_timeout<T>(
    time_limit: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let answered = timeout(time_limit, call).await;
    answered.unwrap_or_else(|_| Err(Status::deadline_exceeded("context deadline exceeded")))
}
