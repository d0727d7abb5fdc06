//! Sends snapshots: a message followed by the database, `POST /raft/snapshot`.
//!
//! ```text
//!   length, 8 bytes   raftpb.Message (MsgSnap)   the database file, to the end of the body
//! ```
//!
//! A thread reads the database while the peer receives it, at most a few chunks ahead.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::Method;
use server::DatabaseImage;
use tokio::time::{Instant, sleep, timeout};

use super::reply::{ANSWER_BYTES_MAX, PostError, check_reply, on_failure};
use crate::client::{BodyWriter, PeerReply, RequestError, body_channel, collect};
use crate::codec::message;
use crate::peers::context::PeerContext;
use crate::peers::url_picker::PeerUrl;

const PATH: &str = "/raft/snapshot";
/// The name of this sender in logs.
const NAME: &str = "sendMsgSnap";
/// The longest time without progress before a snapshot is given up.
const STALL_MAX: Duration = Duration::from_secs(120);
/// The least rate, in bytes per second, at which the receiver verifies and syncs the database
/// before it replies.
const SAVED_BYTES_MIN: u64 = 1 << 20;
/// The interval at which progress is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of a reply that has started.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// The database of a snapshot. A trait, so that tests can use one that fails.
pub(crate) trait SnapshotDatabase: Send + 'static {
    fn size(&self) -> u64;
    fn write_to(&self, to: &mut dyn io::Write) -> io::Result<u64>;
}

impl SnapshotDatabase for DatabaseImage {
    fn size(&self) -> u64 {
        DatabaseImage::size(self)
    }

    fn write_to(&self, to: &mut dyn io::Write) -> io::Result<u64> {
        DatabaseImage::write_to(self, to)
    }
}

/// Sends a snapshot and reports the outcome. `ended` cancels it, when the peer is removed.
pub(crate) async fn send(
    context: Arc<PeerContext>,
    message: raft::Message,
    database: impl SnapshotDatabase,
    ended: impl Future<Output = ()>,
) {
    let started = Instant::now();
    let index = message.snapshot.as_ref().map_or(0, |snapshot| snapshot.metadata.index.0);
    let head = head(message);
    let bytes = head.len() as u64 + database.size();
    let counts = &context.metrics.snapshots_sent;
    tracing::info!(snapshot_index = index, remote_peer_id = %context.id, bytes, "sending database snapshot");
    counts.in_flight.inc();
    // Decremented on cancellation too.
    let _in_flight = DecrementOnDrop(counts.in_flight.clone());
    let sent = tokio::select! {
        sent = post(&context, head, database) => sent,
        () = ended => Err(PostError::Stopped),
    };
    if let Err(error) = &sent {
        tracing::warn!(snapshot_index = index, remote_peer_id = %context.id, bytes, %error, "failed to send database snapshot");
        context.on_failure(NAME, "post", error);
        context.local.report_unreachable(context.id);
        context.metrics.sent_failures.inc();
        counts.failures.inc();
    } else {
        context.on_success();
        tracing::info!(snapshot_index = index, remote_peer_id = %context.id, bytes, "sent database snapshot");
        context.metrics.sent_bytes.inc_by(bytes);
        counts.success.inc();
        counts.duration.observe(started.elapsed().as_secs_f64());
    }
    context.local.report_snapshot(context.id, sent.is_ok());
}

/// Decrements a gauge on drop.
struct DecrementOnDrop(prometheus::IntGauge);

impl Drop for DecrementOnDrop {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn head(message: raft::Message) -> BytesMut {
    let mut head = BytesMut::new();
    message::encode(message, &mut head);
    head
}

async fn post(
    context: &PeerContext,
    head: BytesMut,
    database: impl SnapshotDatabase,
) -> Result<(), PostError> {
    let url = context.picker.pick().ok_or(RequestError::NoUrl)?;
    let reply = exchange(context, &url, head, database).await.map_err(PostError::from);
    let accepted = reply.and_then(|reply| check_reply(context, &reply, &url, PATH));
    accepted.inspect_err(|error| on_failure(context, &url, error))
}

async fn exchange(
    context: &PeerContext,
    url: &PeerUrl,
    head: BytesMut,
    database: impl SnapshotDatabase,
) -> Result<PeerReply, RequestError> {
    let (to, body, progress) = body_channel();
    let answer_max = STALL_MAX + Duration::from_secs(database.size() / SAVED_BYTES_MIN);
    let request = context.request(Method::POST, PATH, Some("application/octet-stream"), body);
    let writer = tokio::task::spawn_blocking(move || write(&head, &database, to));
    let stalls = async {
        let stall_max = || if progress.is_finished() { answer_max } else { STALL_MAX };
        while progress.stalled_for() < stall_max() {
            sleep(POLL_INTERVAL).await;
        }
    };
    let answered = tokio::select! {
        opened = context.client.open_stream(url, request) => opened,
        () = stalls => Err(RequestError::Timeout),
    };
    // A reply before the end means that the rest is not wanted. Dropping the connection ends the
    // body, and with it the writer.
    let (_connection, response) = answered?;
    drop(writer);
    let (parts, body) = response.into_parts();
    let body = timeout(ANSWER_TIME_MAX, collect(body, ANSWER_BYTES_MAX)).await;
    let body = body.unwrap_or(Err(RequestError::Timeout))?;
    Ok(PeerReply { status: parts.status, headers: parts.headers, body })
}

/// Writes the message and the database, on a blocking thread.
fn write(head: &[u8], database: &dyn SnapshotDatabase, mut to: BodyWriter) {
    use io::Write as _;
    let written = to.write_all(head).and_then(|()| database.write_to(&mut to));
    match written {
        // Fails if the receiver of the body was dropped.
        Ok(_) => drop(to.finish()),
        Err(error) => to.fail(error),
    }
}
