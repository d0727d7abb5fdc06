//! What members ask each other beside consensus.
//!
//! | question | over HTTP |
//! | --- | --- |
//! | who is in the cluster | `GET /members` |
//! | what do you run | `GET /version` |
//! | is the cluster being downgraded | `GET /downgrade/enabled` |
//! | what do you hold | `GET /members/hashkv`, with a body |
//! | renew a lease; how long does it have | `POST /leases`, `POST /leases/internal` |
//! | promote a learner | `POST /members/promote/<id>` |
//!
//! A question goes to one URL after the other until somebody answers it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use membership::reconfig::UnsafeReconfig;
use membership::{ClusterId, ConfChangeRefusal, Member};
use mvcc::KeyValueHash;
use net::Background;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::leasepb;
use serde::Deserialize;
use server::{PeerHash, PeerRequestError, PeerResponse, PeerVersions};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use types::{LeaseId, MemberId};

use crate::addresses::Url;
use crate::client::{Client, Once, Reply};
use crate::headers::{self, CLUSTER_ID, Incompatible};

/// What is read of an answer that has a few numbers in it.
const SHORT_BYTES_MAX: usize = 64 << 10;
/// Of one that lists members.
const MEMBERS_BYTES_MAX: usize = 16 << 20;
/// Of one that lists the keys of a lease, as in etcd.
const LEASE_BYTES_MAX: usize = 100 << 20;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/protobuf");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Asks other members. Cheap to clone.
///
/// Its answers need no runtime: whoever has none [waits](wait).
#[derive(Clone, Debug)]
pub struct Asker {
    client: Client,
    on: Background,
}

/// Who is in a cluster, as one of its members says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCluster {
    /// The cluster.
    pub id: ClusterId,
    /// Its members; there is at least one.
    pub members: Vec<Member>,
}

/// Waits for an answer, on a thread that may.
pub fn wait<T>(mut asking: PeerResponse<T>) -> Result<T, PeerRequestError> {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match asking.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

impl Asker {
    pub(crate) fn new(client: Client, on: Background) -> Asker {
        Asker { client, on }
    }

    /// Who is in the cluster that these URLs are of. Each of them gets as much time.
    pub fn members(&self, urls: &[String], within_each: Duration) -> PeerResponse<KnownCluster> {
        self.ask_for_members(urls, within_each, true)
    }

    /// The same, without a word about who does not answer: that is to be expected.
    pub fn members_quietly(
        &self,
        urls: &[String],
        within_each: Duration,
    ) -> PeerResponse<KnownCluster> {
        self.ask_for_members(urls, within_each, false)
    }

    fn ask_for_members(
        &self,
        urls: &[String],
        within_each: Duration,
        tells: bool,
    ) -> PeerResponse<KnownCluster> {
        let (client, urls) = (self.client.clone(), urls.to_vec());
        self.ask(async move {
            for text in &urls {
                let asked = of_one(&client, text, get("/members"), MEMBERS_BYTES_MAX);
                let reply = match timeout(within_each, asked).await {
                    Ok(Ok(reply)) => reply,
                    Ok(Err(error)) => {
                        if tells {
                            tracing::warn!(address = format!("{text}/members"), %error, "failed to get cluster response");
                        }
                        continue;
                    }
                    Err(_) => {
                        if tells {
                            tracing::warn!(address = format!("{text}/members"), error = "i/o timeout", "failed to get cluster response");
                        }
                        continue;
                    }
                };
                match known_cluster(&reply) {
                    Ok(cluster) if cluster.members.is_empty() => {
                        let text = "failed to get raft cluster member(s) from the given URLs";
                        return Err(PeerRequestError::Failed(text.to_owned()));
                    }
                    Ok(cluster) => return Ok(cluster),
                    Err(error) if tells => {
                        tracing::warn!(address = format!("{text}/members"), error, "failed to unmarshal cluster response");
                    }
                    Err(_) => {}
                }
            }
            let text = "could not retrieve cluster information from the given URLs";
            Err(PeerRequestError::Failed(text.to_owned()))
        })
    }

    /// Which release a member runs, and which version it thinks the cluster speaks.
    pub fn version(&self, urls: &[String], within: Duration) -> PeerResponse<PeerVersions> {
        self.first(urls, within, SHORT_BYTES_MAX, get("/version"), |reply| {
            let versions: Versions = json(reply)?;
            Ok(PeerVersions { server: versions.etcdserver, cluster: versions.etcdcluster })
        })
    }

    /// Whether the cluster of a member is being downgraded.
    pub fn downgrade_enabled(&self, urls: &[String], within: Duration) -> PeerResponse<bool> {
        self.first(urls, within, SHORT_BYTES_MAX, get("/downgrade/enabled"), |reply| {
            match reply.text().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                text => Err(PeerRequestError::Failed(format!(
                    "strconv.ParseBool: parsing {text:?}: invalid syntax"
                ))),
            }
        })
    }

    /// What a member holds up to a revision.
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
        self.first(urls, within, SHORT_BYTES_MAX, request, hash)
    }

    /// Has a lease renewed.
    pub(crate) fn renew(
        &self,
        urls: &[String],
        id: LeaseId,
        within: Duration,
    ) -> PeerResponse<i64> {
        let body = pb::LeaseKeepAliveRequest { id: id.0 }.encode_to_vec();
        let request = request(Method::POST, "/leases", header::CONTENT_TYPE, PROTOBUF, body);
        self.first(urls, within, SHORT_BYTES_MAX, request, move |reply| {
            let answer: pb::LeaseKeepAliveResponse = lease_answer(reply)?;
            if answer.id == id.0 { Ok(answer.ttl) } else { Err(mismatch("renew")) }
        })
    }

    /// How long a lease has to live.
    pub(crate) fn lease(
        &self,
        urls: &[String],
        r: pb::LeaseTimeToLiveRequest,
        within: Duration,
    ) -> PeerResponse<pb::LeaseTimeToLiveResponse> {
        let body = leasepb::LeaseInternalRequest { lease_time_to_live_request: Some(r) };
        let (kind, path) = (header::CONTENT_TYPE, "/leases/internal");
        let request = request(Method::POST, path, kind, PROTOBUF, body.encode_to_vec());
        self.first(urls, within, LEASE_BYTES_MAX, request, move |reply| {
            let answer: leasepb::LeaseInternalResponse = lease_answer(reply)?;
            let answer = answer.lease_time_to_live_response.unwrap_or_default();
            if answer.id == r.id { Ok(answer) } else { Err(mismatch("TTL")) }
        })
    }

    /// Has a learner promoted.
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
        request.extensions_mut().insert(Once);
        if let Some(token) = token.and_then(|token| HeaderValue::try_from(token).ok()) {
            request.headers_mut().insert(header::AUTHORIZATION, token);
        }
        self.first(urls, within, MEMBERS_BYTES_MAX, request, promoted)
    }

    /// The first answer that any of these URLs gives, or the last reason why there is none.
    fn first<T: Send + 'static>(
        &self,
        urls: &[String],
        within: Duration,
        bytes_max: usize,
        request: Request<Bytes>,
        read: impl Fn(&Reply) -> Result<T, PeerRequestError> + Send + 'static,
    ) -> PeerResponse<T> {
        let (client, urls) = (self.client.clone(), urls.to_vec());
        let asked = async move {
            let mut last = PeerRequestError::Failed("no URL is known".to_owned());
            for text in &urls {
                let reply = of_one(&client, text, request.clone(), bytes_max).await;
                match reply.and_then(|reply| read(&reply)) {
                    Ok(answer) => return Ok(answer),
                    Err(error) if is_final(&error) => return Err(error),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        self.ask(async move {
            let late = |_| Err(PeerRequestError::Timeout("context deadline exceeded".to_owned()));
            timeout(within, asked).await.unwrap_or_else(late)
        })
    }

    /// Asks on the thread of the transport.
    fn ask<T: Send + 'static>(
        &self,
        asked: impl Future<Output = Result<T, PeerRequestError>> + Send + 'static,
    ) -> PeerResponse<T> {
        Box::pin(Asked(self.on.spawn(asked)))
    }
}

/// An answer that is waited for elsewhere. Whoever drops this gives it up.
struct Asked<T>(JoinHandle<Result<T, PeerRequestError>>);

impl<T> Future for Asked<T> {
    type Output = Result<T, PeerRequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // What was dropped was so with the thread that it ran on.
        let gone = |_| Err(PeerRequestError::Failed("the transport is stopped".to_owned()));
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or_else(gone))
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What another URL would say as well.
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

async fn of_one(
    client: &Client,
    url: &str,
    request: Request<Bytes>,
    bytes_max: usize,
) -> Result<Reply, PeerRequestError> {
    let url = Url::parse(url).map_err(|error| PeerRequestError::Failed(error.to_string()))?;
    let reply = client.ask(&url, request, bytes_max).await;
    reply.map_err(|error| PeerRequestError::Failed(error.to_string()))
}

fn get(path: &str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = path.parse().expect("a path of ours is one");
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

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    etcdserver: String,
    #[serde(default)]
    etcdcluster: String,
}

fn json<'a, T: Deserialize<'a>>(reply: &'a Reply) -> Result<T, PeerRequestError> {
    serde_json::from_slice(&reply.body).map_err(|error| PeerRequestError::Failed(error.to_string()))
}

fn known_cluster(reply: &Reply) -> Result<KnownCluster, String> {
    let members = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
    let id = headers::text(&reply.headers, &CLUSTER_ID).and_then(headers::id);
    Ok(KnownCluster { id: ClusterId(id.ok_or("failed to parse cluster ID")?), members })
}

#[derive(Deserialize)]
struct HashAnswer {
    #[serde(default)]
    header: HashHeader,
    #[serde(default)]
    hash: u32,
    #[serde(default)]
    compact_revision: i64,
    #[serde(default)]
    hash_revision: i64,
}

#[derive(Default, Deserialize)]
struct HashHeader {
    #[serde(default)]
    revision: i64,
}

fn hash(reply: &Reply) -> Result<PeerHash, PeerRequestError> {
    let (text, status) = (reply.text(), reply.status);
    let says = |error: &dyn std::fmt::Display| text.contains(&error.to_string());
    match status {
        StatusCode::OK => {}
        StatusCode::BAD_REQUEST if says(&mvcc::Error::Compacted) => {
            return Err(mvcc::Error::Compacted.into());
        }
        StatusCode::BAD_REQUEST if says(&mvcc::Error::FutureRevision) => {
            return Err(mvcc::Error::FutureRevision.into());
        }
        StatusCode::PRECONDITION_FAILED if says(&Incompatible::ClusterId) => {
            return Err(PeerRequestError::ClusterIdMismatch);
        }
        _ => return Err(PeerRequestError::Failed(format!("unknown error: {text}"))),
    }
    let answer: HashAnswer = json(reply)?;
    let HashAnswer { header, hash, compact_revision, hash_revision: revision } = answer;
    let hash = KeyValueHash { hash, compact_revision, revision };
    Ok(PeerHash { revision: header.revision, hash })
}

fn lease_answer<T: prost::Message + Default>(reply: &Reply) -> Result<T, PeerRequestError> {
    match reply.status {
        StatusCode::OK => T::decode(reply.body.clone())
            .map_err(|error| PeerRequestError::Failed(format!("lease: {error}"))),
        StatusCode::REQUEST_TIMEOUT => Err(PeerRequestError::Timeout(LEASE_TIMEOUT.to_owned())),
        StatusCode::NOT_FOUND => Err(PeerRequestError::LeaseNotFound),
        _ => Err(PeerRequestError::Failed(format!("lease: unknown error({})", reply.text()))),
    }
}

/// What a leader says that is behind. The text is etcd's.
pub(crate) const LEASE_TIMEOUT: &str =
    "waiting for node to catch up its applied index has timed out";

fn mismatch(what: &str) -> PeerRequestError {
    PeerRequestError::Failed(format!("lease: {what} id mismatch"))
}

fn promoted(reply: &Reply) -> Result<Vec<Member>, PeerRequestError> {
    let text = reply.text();
    let unknown = || PeerRequestError::Failed(format!("member promote: unknown error({text})"));
    match reply.status {
        StatusCode::OK => json(reply),
        StatusCode::NOT_FOUND => Err(ConfChangeRefusal::IdNotFound.into()),
        StatusCode::REQUEST_TIMEOUT => {
            Err(PeerRequestError::Timeout("etcdserver: request timed out".to_owned()))
        }
        StatusCode::PRECONDITION_FAILED => {
            if text.contains(&UnsafeReconfig::LearnerNotReady.to_string()) {
                return Err(UnsafeReconfig::LearnerNotReady.into());
            }
            if text.contains(&ConfChangeRefusal::MemberNotLearner.to_string()) {
                return Err(ConfChangeRefusal::MemberNotLearner.into());
            }
            Err(unknown())
        }
        _ => Err(unknown()),
    }
}
