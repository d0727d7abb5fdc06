//! A cluster that keeps a list, over gRPC.
//!
//! The endpoints are asked in turn: whoever does not answer hands the turn to the next. TLS is spoken with those whose URL says so, and with `host:port` if
//! there are settings for it, as etcd's client does.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use http::Uri;
use hyper_util::rt::TokioIo;
use net::{DialError, Dialer, Link, Target};
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    AuthenticateRequest, PutRequest, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest,
    WatchResponse,
};
use proto::mvccpb::KeyValue;
use rpc::etcdserverpb::auth_client::AuthClient;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use tls::ClientSide;
use tokio::time::timeout;
use tonic::codegen::Service;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use crate::error::JoinError;
use crate::join::Registry;
use crate::roster::Entry;
use crate::settings::{Settings, User};

/// The longest answer that is taken: a list of some ten thousand members.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The least time between two pings. That of grpc-go.
const KEEPALIVE_MIN: Duration = Duration::from_secs(10);
/// The key of the token of a user, as etcd reads it.
const TOKEN: &str = "token";

/// Who keeps the list.
pub(crate) struct Client {
    channels: Vec<Channel>,
    /// Whose turn it is.
    turn: usize,
    user: Option<User>,
    token: Option<MetadataValue<Ascii>>,
    request_timeout: Duration,
    /// A watch goes on for as long as this is kept.
    watch: Option<Streaming<WatchResponse>>,
}

impl Client {
    pub(crate) async fn new(
        settings: &Settings,
        metrics: &tls::Metrics,
    ) -> Result<Client, JoinError> {
        if settings.endpoints.is_empty() {
            return Err(JoinError::NoEndpoints);
        }
        let info = settings.tls.clone().unwrap_or_default();
        let side = Arc::new(ClientSide::load("discovery-client", info, metrics)?);
        let channels = settings.endpoints.iter().map(|endpoint| channel(endpoint, &side, settings));
        let mut client = Client {
            channels: channels.collect::<Result<_, _>>()?,
            turn: 0,
            user: settings.user.clone(),
            token: None,
            request_timeout: settings.request_timeout,
            watch: None,
        };
        client.authenticate().await.map_err(|status| JoinError::Refused(Box::new(status)))?;
        Ok(client)
    }

    /// The one whose turn it is.
    fn channel(&self) -> Channel {
        self.channels[self.turn % self.channels.len()].clone()
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert(TOKEN, token.clone());
        }
        request
    }

    /// Learns the token of the user, if there is one.
    async fn authenticate(&mut self) -> Result<(), Status> {
        let Some(User { name, password }) = self.user.clone() else { return Ok(()) };
        let request = Request::new(AuthenticateRequest { name, password });
        let mut auth = AuthClient::new(self.channel());
        let answered = within(self.request_timeout, auth.authenticate(request)).await;
        match answered {
            Ok(answer) => {
                let token = answer.into_inner().token.parse();
                self.token = Some(token.map_err(|_| Status::internal("a token that is no text"))?);
                Ok(())
            }
            // Then nobody needs one.
            Err(status) if status.message() == "etcdserver: authentication is not enabled" => {
                Ok(())
            }
            Err(status) => Err(self.failed(status)),
        }
    }

    /// Hands the turn on if nobody answered; and forgets a token that does not count any more.
    fn failed(&mut self, status: Status) -> Status {
        if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) {
            self.turn = self.turn.wrapping_add(1);
        }
        if status.code() == Code::Unauthenticated {
            self.token = None;
        }
        status
    }

    async fn range(&mut self, key: &str, range_end: Vec<u8>) -> Result<RangeResponse, Status> {
        if self.token.is_none() {
            self.authenticate().await?;
        }
        let key = key.as_bytes().to_vec().into();
        let message = RangeRequest { key, range_end: range_end.into(), ..RangeRequest::default() };
        let request = self.request(message);
        let mut kv = KvClient::new(self.channel()).max_decoding_message_size(ANSWER_BYTES_MAX);
        let answered = within(self.request_timeout, kv.range(request)).await;
        answered.map(tonic::Response::into_inner).map_err(|status| self.failed(status))
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
        let request = self.request(message);
        let mut kv = KvClient::new(self.channel());
        let answered = within(self.request_timeout, kv.put(request)).await;
        answered.map(drop).map_err(|status| self.failed(status))
    }

    async fn watch(&mut self, key: &str, end: Vec<u8>, revision: i64) -> Result<(), Status> {
        let create = WatchCreateRequest {
            key: key.as_bytes().to_vec().into(),
            range_end: end.into(),
            start_revision: revision,
            ..WatchCreateRequest::default()
        };
        let first = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // Nothing else is asked, and the end of what is asked would be the end of the watch.
        let request = self.request(stream::once(ready(first)).chain(stream::pending()));
        let mut watch =
            WatchClient::new(self.channel()).max_decoding_message_size(ANSWER_BYTES_MAX);
        let answered = within(self.request_timeout, watch.watch(request)).await;
        self.watch = Some(answered.map_err(|status| self.failed(status))?.into_inner());
        Ok(())
    }

    async fn next(&mut self) -> Result<Vec<Entry>, Status> {
        let Some(watch) = &mut self.watch else { return Err(Status::internal("no watch")) };
        let response = match watch.message().await {
            Ok(Some(response)) if !response.canceled => response,
            Ok(Some(response)) => return Err(Status::cancelled(response.cancel_reason)),
            Ok(None) => return Err(Status::unavailable("the watch has ended")),
            Err(status) => return Err(self.failed(status)),
        };
        Ok(response.events.iter().filter_map(|event| event.kv.as_ref()).map(entry).collect())
    }
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
    side: &Arc<ClientSide>,
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
    type Response = TokioIo<Link>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Link>, DialError>> + Send>>;

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
