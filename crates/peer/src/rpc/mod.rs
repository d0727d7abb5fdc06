//! Peer RPCs: the HTTP requests of members to each other besides Raft messages.
//!
//! | request | over HTTP |
//! | --- | --- |
//! | members of the cluster | `GET /members` |
//! | server and cluster version | `GET /version` |
//! | whether a downgrade is in progress | `GET /downgrade/enabled` |
//! | hash of the key-value store | `GET /members/hashkv`, with a body |
//! | renew a lease; its remaining time | `POST /leases`, `POST /leases/internal` |
//! | promote a learner | `POST /members/promote/<id>` |
//!
//! A request is sent to one URL after another until one answers.

mod decode;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request};
use membership::{ClusterId, ConfChangeRefusal, Member};
use net::Background;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::leasepb;
use server::{PeerHash, PeerRequestError, PeerResponse, PeerVersions};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use types::{LeaseId, MemberId};

pub(crate) use self::decode::LEASE_TIMEOUT;
use self::decode::{VersionsJson, cluster, hash, json, lease_mismatch, lease_response, promoted};
use crate::client::{Client, NotRetryable, PeerReply};
use crate::headers::{self, CLUSTER_ID};
use crate::peers::url_picker::PeerUrl;

/// The size limit of responses with a few numbers.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// The size limit of responses that list members.
const MEMBERS_BYTES_MAX: usize = 16 << 20;
/// The size limit of responses that list the keys of a lease. As in etcd.
const LEASE_BYTES_MAX: usize = 100 << 20;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/protobuf");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Sends RPCs to members. Cheap to clone.
///
/// The returned futures need no runtime: a thread may [wait](wait) for them.
#[derive(Clone, Debug)]
pub struct PeerRpcClient {
    client: Client,
    background: Background,
}

/// A cluster, as one of its members reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCluster {
    /// The id of the cluster.
    pub id: ClusterId,
    /// The members; at least one.
    pub members: Vec<Member>,
}

/// Blocks the calling thread until the response arrives.
pub fn wait<T>(mut response: PeerResponse<T>) -> Result<T, PeerRequestError> {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match response.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

impl PeerRpcClient {
    pub(crate) fn new(client: Client, background: Background) -> PeerRpcClient {
        PeerRpcClient { client, background }
    }

    /// Returns the members of the cluster at these URLs. Each URL gets the same time.
    pub fn members(&self, urls: &[String], within_each: Duration) -> PeerResponse<RemoteCluster> {
        self.members_with(urls, within_each, true)
    }

    /// Like [`members`](Self::members), but logs no failures, for callers that expect them.
    pub fn members_quietly(
        &self,
        urls: &[String],
        within_each: Duration,
    ) -> PeerResponse<RemoteCluster> {
        self.members_with(urls, within_each, false)
    }

    fn members_with(
        &self,
        urls: &[String],
        within_each: Duration,
        log_failures: bool,
    ) -> PeerResponse<RemoteCluster> {
        let (client, urls) = (self.client.clone(), urls.to_vec());
        self.spawn(async move {
            for text in &urls {
                let response = request_url(&client, text, get("/members"), MEMBERS_BYTES_MAX);
                let reply = match timeout(within_each, response).await {
                    Ok(Ok(reply)) => reply,
                    Ok(Err(error)) => {
                        if log_failures {
                            tracing::warn!(address = format!("{text}/members"), %error, "failed to get cluster response");
                        }
                        continue;
                    }
                    Err(_) => {
                        if log_failures {
                            tracing::warn!(address = format!("{text}/members"), error = "i/o timeout", "failed to get cluster response");
                        }
                        continue;
                    }
                };
                match cluster(&reply) {
                    Ok(cluster) if cluster.members.is_empty() => {
                        let text = "failed to get raft cluster member(s) from the given URLs";
                        return Err(PeerRequestError::Failed(text.to_owned()));
                    }
                    Ok(cluster) => return Ok(cluster),
                    Err(error) if log_failures => {
                        tracing::warn!(address = format!("{text}/members"), error, "failed to unmarshal cluster response");
                    }
                    Err(_) => {}
                }
            }
            let text = "could not retrieve cluster information from the given URLs";
            Err(PeerRequestError::Failed(text.to_owned()))
        })
    }

    /// Returns the server version of a member and the cluster version it reports.
    pub fn version(&self, urls: &[String], within: Duration) -> PeerResponse<PeerVersions> {
        self.first_reply(urls, within, SHORT_BYTES_MAX, get("/version"), |reply| {
            let versions: VersionsJson = json(reply)?;
            Ok(PeerVersions { server: versions.etcdserver, cluster: versions.etcdcluster })
        })
    }

    /// Returns whether a downgrade of the member's cluster is in progress.
    pub fn downgrade_enabled(&self, urls: &[String], within: Duration) -> PeerResponse<bool> {
        self.first_reply(urls, within, SHORT_BYTES_MAX, get("/downgrade/enabled"), |reply| {
            match reply.text().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                text => Err(PeerRequestError::Failed(format!(
                    "strconv.ParseBool: parsing {text:?}: invalid syntax"
                ))),
            }
        })
    }

    /// Returns the hash of a member's store up to a revision.
    pub(crate) fn hash(
        &self,
        urls: &[String],
        cluster: Option<ClusterId>,
        revision: i64,
        within: Duration,
    ) -> PeerResponse<PeerHash> {
        let body =
            if revision == 0 { "{}".to_owned() } else { format!(r#"{{"revision":{revision}}}"#) };
        let mut request = request(Method::GET, "/members/hashkv", header::CONTENT_TYPE, JSON, body);
        if let Some(cluster) = cluster {
            request.headers_mut().insert(CLUSTER_ID, headers::value(&cluster));
        }
        self.first_reply(urls, within, SHORT_BYTES_MAX, request, hash)
    }

    /// Renews a lease at the leader.
    pub(crate) fn renew(
        &self,
        urls: &[String],
        id: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        let body = pb::LeaseKeepAliveRequest { id: id.0 }.encode_to_vec();
        let request = request(Method::POST, "/leases", header::CONTENT_TYPE, PROTOBUF, body);
        self.first_reply(urls, within, SHORT_BYTES_MAX, request, move |reply| {
            let renewed: pb::LeaseKeepAliveResponse = lease_response(reply)?;
            if renewed.id == id.0 { Ok(renewed.ttl) } else { Err(lease_mismatch("renew")) }
        })
    }

    /// Returns the remaining time of a lease.
    pub(crate) fn lease(
        &self,
        urls: &[String],
        r: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        let body = leasepb::LeaseInternalRequest { lease_time_to_live_request: Some(r) };
        let (kind, path) = (header::CONTENT_TYPE, "/leases/internal");
        let request = request(Method::POST, path, kind, PROTOBUF, body.encode_to_vec());
        self.first_reply(urls, within, LEASE_BYTES_MAX, request, move |reply| {
            let answer: leasepb::LeaseInternalResponse = lease_response(reply)?;
            let answer = answer.lease_time_to_live_response.unwrap_or_default();
            if answer.id == r.id { Ok(answer) } else { Err(lease_mismatch("TTL")) }
        })
    }

    /// Promotes a learner at the leader.
    pub(crate) fn promote(
        &self,
        urls: &[String],
        learner: MemberId,
        token: Option<String>,
        within: Duration,
    ) -> PeerResponse<Vec<Member>> {
        let path = format!("/members/promote/{}", learner.0);
        let mut request = get(&path);
        *request.method_mut() = Method::POST;
        request.extensions_mut().insert(NotRetryable);
        if let Some(token) = token.and_then(|token| HeaderValue::try_from(token).ok()) {
            request.headers_mut().insert(header::AUTHORIZATION, token);
        }
        self.first_reply(urls, within, MEMBERS_BYTES_MAX, request, promoted)
    }

    /// Returns the first valid response of these URLs, or the last error.
    fn first_reply<T: Send + 'static>(
        &self,
        urls: &[String],
        within: Duration,
        bytes_max: usize,
        request: Request<Bytes>,
        read: impl Fn(&PeerReply) -> Result<T, PeerRequestError> + Send + 'static,
    ) -> PeerResponse<T> {
        let (client, urls) = (self.client.clone(), urls.to_vec());
        let response = async move {
            let mut last = PeerRequestError::Failed("no URL is known".to_owned());
            for text in &urls {
                let reply = request_url(&client, text, request.clone(), bytes_max).await;
                match reply.and_then(|reply| read(&reply)) {
                    Ok(answer) => return Ok(answer),
                    Err(error) if is_final(&error) => return Err(error),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        self.spawn(async move {
            let timed_out =
                |_| Err(PeerRequestError::Timeout("context deadline exceeded".to_owned()));
            timeout(within, response).await.unwrap_or_else(timed_out)
        })
    }

    /// Runs an RPC on the transport's thread.
    fn spawn<T: Send + 'static>(
        &self,
        response: impl Future<Output = Result<T, PeerRequestError>> + Send + 'static,
    ) -> PeerResponse<T> {
        Box::pin(SpawnedCall(self.background.spawn(response)))
    }
}

/// An RPC that runs on the transport's thread. Dropping it cancels the RPC.
struct SpawnedCall<T>(JoinHandle<Result<T, PeerRequestError>>);

impl<T> Future for SpawnedCall<T> {
    type Output = Result<T, PeerRequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The task is canceled only when the thread stops.
        let stopped = |_| Err(PeerRequestError::Failed("the transport is stopped".to_owned()));
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or_else(stopped))
    }
}

impl<T> Drop for SpawnedCall<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns whether all other URLs would give the same error.
fn is_final(error: &PeerRequestError) -> bool {
    matches!(
        error,
        PeerRequestError::LeaseNotFound
            | PeerRequestError::Members(ConfChangeRefusal::MemberNotLearner)
    ) || matches!(
        error,
        PeerRequestError::Unsafe(_)
            | PeerRequestError::Keys(_)
            | PeerRequestError::ClusterIdMismatch
    )
}

async fn request_url(
    client: &Client,
    url: &str,
    request: Request<Bytes>,
    bytes_max: usize,
) -> Result<PeerReply, PeerRequestError> {
    let url = PeerUrl::parse(url).map_err(|error| PeerRequestError::Failed(error.to_string()))?;
    let reply = client.request(&url, request, bytes_max).await;
    reply.map_err(|error| PeerRequestError::Failed(error.to_string()))
}

fn get(path: &str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = path.parse().expect("paths of this crate are valid URIs");
    request
}

fn request(
    method: Method,
    path: &str,
    name: HeaderName,
    value: HeaderValue,
    body: impl Into<Bytes>,
) -> Request<Bytes> {
    let mut request = get(path).map(|_| body.into());
    *request.method_mut() = method;
    request.headers_mut().insert(name, value);
    request
}
