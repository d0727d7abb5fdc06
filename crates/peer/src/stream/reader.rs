//! The stream reader: dials a stream, receives its messages, and dials again when it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use failpoint::failpoint;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use server::ReceiveError;
use tokio::time::{Instant, sleep_until, timeout};

use super::StreamKind;
use crate::client::{ClientConnection, RequestBody, RequestError, collect};
use crate::codec::message::MessageDecoder;
use crate::codec::msgapp::MsgAppDecoder;
use crate::codec::{Decode, Item, StreamError};
use crate::headers::{self, CLUSTER_ID, Incompatible, RAFT_TO, Release, SERVER_VERSION_NAME};
use crate::peers::context::PeerContext;
use crate::peers::url_picker::PeerUrl;

/// The least time between two dials.
const DIAL_INTERVAL: Duration = Duration::from_millis(100);
/// The size limit of a response that is not a stream.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The reason a stream could not be opened. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error(transparent)]
    Call(#[from] RequestError),
    #[error("unsupported stream type")]
    Unsupported,
    #[error("the member has been permanently removed from the cluster")]
    Removed,
    #[error("peer {peer} failed to find local node {local}")]
    NotFound { peer: types::MemberId, local: types::MemberId },
    #[error(transparent)]
    Incompatible(Incompatible),
    #[error("unhandled error {0:?} when precondition failed")]
    Precondition(String),
    #[error("unhandled http status {0}")]
    Status(u16),
}

/// The reason a stream ended.
#[derive(Debug, thiserror::Error)]
enum StreamEnd {
    /// The peer closed it between two messages.
    #[error("EOF")]
    Closed,
    /// The peer closed it within a message.
    #[error("unexpected EOF")]
    Short,
    #[error("{0}")]
    Broken(RequestError),
    #[error("i/o timeout")]
    Silent,
    #[error(transparent)]
    Nonsense(#[from] StreamError),
    /// The local member is stopping.
    #[error("etcdserver: server stopped")]
    Stopped,
}

/// Reads one kind of stream until the task is aborted.
pub(crate) async fn run(context: Arc<PeerContext>, kind: StreamKind) {
    log(&context, kind, "started stream reader with remote peer");
    loop {
        let next = Instant::now() + DIAL_INTERVAL;
        match dial(&context, kind).await {
            Ok((connection, body)) => {
                context.on_success();
                log(&context, kind, "established TCP streaming connection with remote peer");
                let end = read_stream(&context, kind, body).await;
                drop(connection);
                if matches!(end, StreamEnd::Stopped) {
                    return;
                }
                log_end(&context, kind, &end);
            }
            Err(DialError::Unsupported) => {}
            Err(error) => context.on_failure(kind.name(), "dial", &error),
        }
        sleep_until(next).await;
    }
}

fn log(context: &PeerContext, kind: StreamKind, what: &'static str) {
    tracing::info!(
        stream_reader_type = kind.name(), local_member_id = %context.identity.member,
        remote_peer_id = %context.id, "{what}"
    );
}

fn log_end(context: &PeerContext, kind: StreamKind, end: &StreamEnd) {
    tracing::warn!(
        stream_reader_type = kind.name(), local_member_id = %context.identity.member,
        remote_peer_id = %context.id, error = %end,
        "lost TCP streaming connection with remote peer"
    );
    // Compat: an orderly close is no failure of the peer. The stream is dialed again.
    if !matches!(end, StreamEnd::Closed) {
        context.on_failure(kind.name(), "read", end);
    }
}

async fn dial(
    context: &PeerContext,
    kind: StreamKind,
) -> Result<(ClientConnection, Incoming), DialError> {
    let url = context.picker.pick().ok_or(RequestError::NoUrl)?;
    let stream = try_url(context, kind, &url).await;
    if let Err(error) = &stream {
        context.picker.unreachable(&url);
        if matches!(error, DialError::Removed) {
            context.local.removed_by_others();
        }
    }
    stream
}

async fn try_url(
    context: &PeerContext,
    kind: StreamKind,
    url: &PeerUrl,
) -> Result<(ClientConnection, Incoming), DialError> {
    let path = kind.path(context.identity.member);
    let mut request = context.request(Method::GET, &path, None, RequestBody::Whole(Bytes::new()));
    request.headers_mut().insert(RAFT_TO, headers::value(&context.id));
    tracing::debug!(from = %context.identity.member, to = %context.id, address = url.of(&path), "dial stream reader");
    // Dialing has its own timeout; this one is for the head of the response.
    let time_limit = context.timing.read + context.timing.write;
    let opened = timeout(time_limit, context.client.open_stream(url, request)).await;
    let (connection, response) = opened.map_err(|_| RequestError::Timeout)??;
    let release = headers::release(response.headers(), &SERVER_VERSION_NAME);
    let is_supported =
        release.is_some_and(|release| release >= Release::local() || release.has_streams());
    if !is_supported {
        return Err(DialError::Unsupported);
    }
    match response.status() {
        StatusCode::OK => Ok((connection, response.into_body())),
        StatusCode::GONE => Err(DialError::Removed),
        StatusCode::NOT_FOUND => {
            Err(DialError::NotFound { peer: context.id, local: context.identity.member })
        }
        StatusCode::PRECONDITION_FAILED => Err(precondition(context, response).await),
        status => Err(DialError::Status(status.as_u16())),
    }
}

async fn precondition(context: &PeerContext, response: Response<Incoming>) -> DialError {
    let theirs = headers::text(response.headers(), &CLUSTER_ID).unwrap_or_default().to_owned();
    let text = timeout(context.timing.read, collect(response.into_body(), REFUSAL_BYTES_MAX)).await;
    let text = match text {
        Ok(Ok(text)) => String::from_utf8_lossy(&text).into_owned(),
        Ok(Err(error)) => return error.into(),
        Err(_) => return RequestError::Timeout.into(),
    };
    let (local, remote) = (context.identity.member, context.id);
    let line = text.strip_suffix('\n').unwrap_or(&text);
    if line == Incompatible::Version.text() {
        tracing::warn!(local_member_id = %local, remote_peer_id = %remote, error = line, "request sent was ignored by remote peer due to server version incompatibility");
        return DialError::Incompatible(Incompatible::Version);
    }
    if line == Incompatible::ClusterId.text() {
        tracing::warn!(
            remote_peer_id = %remote, remote_peer_cluster_id = theirs, local_member_id = %local,
            local_member_cluster_id = %context.identity.cluster, error = line,
            "request sent was ignored by remote peer due to cluster ID mismatch"
        );
        return DialError::Incompatible(Incompatible::ClusterId);
    }
    DialError::Precondition(text)
}

/// Reads a stream to its end.
async fn read_stream(context: &PeerContext, kind: StreamKind, mut body: Incoming) -> StreamEnd {
    let mut decoder: Box<dyn Decode> = match kind {
        StreamKind::Message => Box::new(MessageDecoder::default()),
        StreamKind::MsgApp => Box::new(MsgAppDecoder::new(context.identity.member, context.id)),
    };
    loop {
        let chunk = match timeout(context.timing.read, body.frame()).await {
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(error))) => return StreamEnd::Broken(error.into()),
            Ok(None) if decoder.at_message_boundary() => return StreamEnd::Closed,
            Ok(None) => return StreamEnd::Short,
            Err(_) => return StreamEnd::Silent,
        };
        context.metrics.received_bytes.inc_by(chunk.len() as u64);
        decoder.feed(chunk);
        if let Err(end) = deliver(context, decoder.as_mut()) {
            return end;
        }
    }
}

/// Hands the decoded messages to the local member.
fn deliver(context: &PeerContext, decoder: &mut dyn Decode) -> Result<(), StreamEnd> {
    while let Some(item) = decoder.next()? {
        // Compat: as in etcd, the failpoint drops every item, not only heartbeats.
        failpoint!("raftDropHeartbeat", || continue);
        match item {
            Item::Message(message) => receive(context, message)?,
            Item::LinkHeartbeat => {}
            Item::Unknown(error) => {
                tracing::warn!(remote_peer_id = %context.id, %error, "ignored a Raft message of an unknown type");
            }
        }
    }
    Ok(())
}

fn receive(context: &PeerContext, message: raft::Message) -> Result<(), StreamEnd> {
    let kind = message.kind;
    match context.local.receive(message) {
        Ok(()) => {}
        Err(ReceiveError::Stopped) => return Err(StreamEnd::Stopped),
        Err(ReceiveError::Full) => {
            context.metrics.received_failures.inc();
            if let Some(more) = context.overload_log.record() {
                tracing::warn!(
                    message_type = kind.as_str(), local_member_id = %context.identity.member,
                    from = %context.id, remote_peer_active = context.status.is_active(), more,
                    "dropped internal Raft message since receiving buffer is full (overloaded network)"
                );
            }
        }
        Err(error) => tracing::warn!(from = %context.id, %error, "failed to process Raft message"),
    }
    Ok(())
}
