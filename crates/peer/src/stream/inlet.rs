//! Hears what another member has to say: dials, reads, and dials again.

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
use crate::addresses::Url;
use crate::client::{CallError, Outgoing, Wire, collect};
use crate::codec::message::MessageDecoder;
use crate::codec::msgapp::MsgAppDecoder;
use crate::codec::{Decode, Item, StreamError};
use crate::contact::Contact;
use crate::headers::{self, CLUSTER_ID, Incompatible, RAFT_TO, Release, SERVER_VERSION_NAME};

/// The least time between two attempts.
const DIAL_INTERVAL: Duration = Duration::from_millis(100);
/// What is read of an answer that is no stream.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Why there is no stream. The texts are etcd's.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error(transparent)]
    Call(#[from] CallError),
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

/// Why a stream has ended.
#[derive(Debug, thiserror::Error)]
enum Lost {
    /// The other end closed it, at a place where it may.
    #[error("EOF")]
    Closed,
    /// It did in the middle of a message.
    #[error("unexpected EOF")]
    Short,
    #[error("{0}")]
    Broken(CallError),
    #[error("i/o timeout")]
    Silent,
    #[error(transparent)]
    Nonsense(#[from] StreamError),
    /// This member stops.
    #[error("etcdserver: server stopped")]
    Stopped,
}

/// Hears one kind of stream, until it is aborted.
pub(crate) async fn run(contact: Arc<Contact>, kind: StreamKind) {
    tell(&contact, kind, "started stream reader with remote peer");
    loop {
        let next = Instant::now() + DIAL_INTERVAL;
        match dial(&contact, kind).await {
            Ok((wire, body)) => {
                contact.worked();
                tell(&contact, kind, "established TCP streaming connection with remote peer");
                let lost = hear(&contact, kind, body).await;
                drop(wire);
                if matches!(lost, Lost::Stopped) {
                    return;
                }
                tell_lost(&contact, kind, &lost);
            }
            Err(DialError::Unsupported) => {}
            Err(error) => contact.failed(kind.name(), "dial", &error),
        }
        sleep_until(next).await;
    }
}

fn tell(contact: &Contact, kind: StreamKind, what: &'static str) {
    tracing::info!(
        stream_reader_type = kind.name(), local_member_id = %contact.identity.member,
        remote_peer_id = %contact.id, "{what}"
    );
}

fn tell_lost(contact: &Contact, kind: StreamKind, lost: &Lost) {
    tracing::warn!(
        stream_reader_type = kind.name(), local_member_id = %contact.identity.member,
        remote_peer_id = %contact.id, error = %lost,
        "lost TCP streaming connection with remote peer"
    );
    // Compat: a stream that was closed in good order says nothing about the member: it is dialled again.
    if !matches!(lost, Lost::Closed) {
        contact.failed(kind.name(), "read", lost);
    }
}

async fn dial(contact: &Contact, kind: StreamKind) -> Result<(Wire, Incoming), DialError> {
    let url = contact.picker.pick().ok_or(CallError::NoUrl)?;
    let stream = try_url(contact, kind, &url).await;
    if let Err(error) = &stream {
        contact.picker.unreachable(&url);
        if matches!(error, DialError::Removed) {
            contact.local.removed_by_others();
        }
    }
    stream
}

async fn try_url(
    contact: &Contact,
    kind: StreamKind,
    url: &Url,
) -> Result<(Wire, Incoming), DialError> {
    let path = kind.path(contact.identity.member);
    let mut request = contact.request(Method::GET, &path, None, Outgoing::Whole(Bytes::new()));
    request.headers_mut().insert(RAFT_TO, headers::value(&contact.id));
    tracing::debug!(from = %contact.identity.member, to = %contact.id, address = url.of(&path), "dial stream reader");
    // Dialling has its own bounds; this is for the head of the answer.
    let patience = contact.timing.read + contact.timing.write;
    let opened = timeout(patience, contact.client.open(url, request)).await;
    let (wire, response) = opened.map_err(|_| CallError::Late)??;
    let release = headers::release(response.headers(), &SERVER_VERSION_NAME);
    let is_spoken =
        release.is_some_and(|release| release >= Release::local() || release.has_streams());
    if !is_spoken {
        return Err(DialError::Unsupported);
    }
    match response.status() {
        StatusCode::OK => Ok((wire, response.into_body())),
        StatusCode::GONE => Err(DialError::Removed),
        StatusCode::NOT_FOUND => {
            Err(DialError::NotFound { peer: contact.id, local: contact.identity.member })
        }
        StatusCode::PRECONDITION_FAILED => Err(precondition(contact, response).await),
        status => Err(DialError::Status(status.as_u16())),
    }
}

async fn precondition(contact: &Contact, response: Response<Incoming>) -> DialError {
    let theirs = headers::text(response.headers(), &CLUSTER_ID).unwrap_or_default().to_owned();
    let said = timeout(contact.timing.read, collect(response.into_body(), REFUSAL_BYTES_MAX)).await;
    let said = match said {
        Ok(Ok(said)) => String::from_utf8_lossy(&said).into_owned(),
        Ok(Err(error)) => return error.into(),
        Err(_) => return CallError::Late.into(),
    };
    let (local, remote) = (contact.identity.member, contact.id);
    let line = said.strip_suffix('\n').unwrap_or(&said);
    if line == Incompatible::Version.text() {
        tracing::warn!(local_member_id = %local, remote_peer_id = %remote, error = line, "request sent was ignored by remote peer due to server version incompatibility");
        return DialError::Incompatible(Incompatible::Version);
    }
    if line == Incompatible::ClusterId.text() {
        tracing::warn!(
            remote_peer_id = %remote, remote_peer_cluster_id = theirs, local_member_id = %local,
            local_member_cluster_id = %contact.identity.cluster, error = line,
            "request sent was ignored by remote peer due to cluster ID mismatch"
        );
        return DialError::Incompatible(Incompatible::ClusterId);
    }
    DialError::Precondition(said)
}

/// Hears a stream to its end.
async fn hear(contact: &Contact, kind: StreamKind, mut body: Incoming) -> Lost {
    let mut decoder: Box<dyn Decode> = match kind {
        StreamKind::Message => Box::new(MessageDecoder::default()),
        StreamKind::MsgApp => Box::new(MsgAppDecoder::new(contact.identity.member, contact.id)),
    };
    loop {
        let piece = match timeout(contact.timing.read, body.frame()).await {
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(error))) => return Lost::Broken(error.into()),
            Ok(None) if decoder.is_between() => return Lost::Closed,
            Ok(None) => return Lost::Short,
            Err(_) => return Lost::Silent,
        };
        contact.counts.received_bytes.inc_by(piece.len() as u64);
        decoder.feed(piece);
        if let Err(lost) = hand_on(contact, decoder.as_mut()) {
            return lost;
        }
    }
}

/// Hands on what has been read.
fn hand_on(contact: &Contact, decoder: &mut dyn Decode) -> Result<(), Lost> {
    while let Some(item) = decoder.next()? {
        // Compat: as in etcd, whatever it is.
        failpoint!("raftDropHeartbeat", || continue);
        match item {
            Item::Message(message) => receive(contact, message)?,
            Item::LinkHeartbeat => {}
            Item::Unknown(error) => {
                tracing::warn!(remote_peer_id = %contact.id, %error, "ignored a message of a kind that is not known here");
            }
        }
    }
    Ok(())
}

fn receive(contact: &Contact, message: raft::Message) -> Result<(), Lost> {
    let kind = message.kind;
    match contact.local.receive(message) {
        Ok(()) => {}
        Err(ReceiveError::Stopped) => return Err(Lost::Stopped),
        Err(ReceiveError::Full) => {
            contact.counts.received_failures.inc();
            if let Some(more) = contact.unheard.tell() {
                tracing::warn!(
                    message_type = kind.as_str(), local_member_id = %contact.identity.member,
                    from = %contact.id, remote_peer_active = contact.status.is_active(), more,
                    "dropped internal Raft message since receiving buffer is full (overloaded network)"
                );
            }
        }
        Err(error) => tracing::warn!(from = %contact.id, %error, "failed to process Raft message"),
    }
    Ok(())
}
