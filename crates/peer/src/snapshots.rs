//! Sends snapshots: a message, and behind it the database, `POST /raft/snapshot`.
//!
//! ```text
//!   length, 8 bytes   raftpb.Message (MsgSnap)   the database file, to the end of the body
//! ```
//!
//! A thread reads the database while another member takes it, a few pieces ahead at most, whatever its size.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::Method;
use server::DatabaseImage;
use tokio::time::{Instant, sleep, timeout};

use crate::addresses::Url;
use crate::client::{CallError, Pieces, Reply, collect, pieces};
use crate::codec::message;
use crate::contact::Contact;
use crate::post::{ANSWER_BYTES_MAX, PostError, judge, regret};

const PATH: &str = "/raft/snapshot";
/// Its name in logs.
const NAME: &str = "sendMsgSnap";
/// How long nothing may happen before a snapshot is given up.
const STALL_MAX: Duration = Duration::from_secs(120);
/// When all is sent, whoever takes it checks it and syncs it to disk before it answers; slower than this in a second it hardly does.
const KEPT_BYTES_MIN: u64 = 1 << 20;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long an answer may take that has begun.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// What is sent behind the message. A trait, so that tests can have databases that fail.
pub(crate) trait Database: Send + 'static {
    fn size(&self) -> u64;
    fn write_to(&self, to: &mut dyn io::Write) -> io::Result<u64>;
}

impl Database for DatabaseImage {
    fn size(&self) -> u64 {
        DatabaseImage::size(self)
    }

    fn write_to(&self, to: &mut dyn io::Write) -> io::Result<u64> {
        DatabaseImage::write_to(self, to)
    }
}

/// Sends a snapshot, and reports how it went. If it is `ended` before, because there is no such member any more, that is what went wrong.
pub(crate) async fn send(
    contact: Arc<Contact>,
    message: raft::Message,
    database: impl Database,
    ended: impl Future<Output = ()>,
) {
    let begun = Instant::now();
    let index = message.snapshot.as_ref().map_or(0, |snapshot| snapshot.metadata.index.0);
    let head = head(message);
    let bytes = head.len() as u64 + database.size();
    let counts = &contact.counts.snapshots_sent;
    tracing::info!(snapshot_index = index, remote_peer_id = %contact.id, bytes, "sending database snapshot");
    counts.in_flight.inc();
    // Also if this is given up.
    let _in_flight = Leave(counts.in_flight.clone());
    let sent = tokio::select! {
        sent = post(&contact, head, database) => sent,
        () = ended => Err(PostError::Stopped),
    };
    if let Err(error) = &sent {
        tracing::warn!(snapshot_index = index, remote_peer_id = %contact.id, bytes, %error, "failed to send database snapshot");
        contact.failed(NAME, "post", error);
        contact.local.report_unreachable(contact.id);
        contact.counts.sent_failures.inc();
        counts.failures.inc();
    } else {
        contact.worked();
        tracing::info!(snapshot_index = index, remote_peer_id = %contact.id, bytes, "sent database snapshot");
        contact.counts.sent_bytes.inc_by(bytes);
        counts.success.inc();
        counts.duration.observe(begun.elapsed().as_secs_f64());
    }
    contact.local.report_snapshot(contact.id, sent.is_ok());
}

/// Counts one less when it goes.
struct Leave(prometheus::IntGauge);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn head(message: raft::Message) -> BytesMut {
    let mut head = BytesMut::new();
    message::encode(message, &mut head);
    head
}

async fn post(contact: &Contact, head: BytesMut, database: impl Database) -> Result<(), PostError> {
    let url = contact.picker.pick().ok_or(CallError::NoUrl)?;
    let reply = exchange(contact, &url, head, database).await.map_err(PostError::from);
    let taken = reply.and_then(|reply| judge(contact, &reply, &url, PATH));
    taken.inspect_err(|error| regret(contact, &url, error))
}

async fn exchange(
    contact: &Contact,
    url: &Url,
    head: BytesMut,
    database: impl Database,
) -> Result<Reply, CallError> {
    let (to, body, progress) = pieces();
    let answer_max = STALL_MAX + Duration::from_secs(database.size() / KEPT_BYTES_MIN);
    let request = contact.request(Method::POST, PATH, Some("application/octet-stream"), body);
    let writer = tokio::task::spawn_blocking(move || write(&head, &database, to));
    let stalls = async {
        let patience = || if progress.is_over() { answer_max } else { STALL_MAX };
        while progress.stalled_for() < patience() {
            sleep(LOOK).await;
        }
    };
    let answered = tokio::select! {
        opened = contact.client.open(url, request) => opened,
        () = stalls => Err(CallError::Late),
    };
    // Whoever answers before the end does not want the rest; with the connection goes the body, and with that the writer.
    let (_wire, response) = answered?;
    drop(writer);
    let (parts, body) = response.into_parts();
    let body = timeout(ANSWER_TIME_MAX, collect(body, ANSWER_BYTES_MAX)).await;
    let body = body.unwrap_or(Err(CallError::Late))?;
    Ok(Reply { status: parts.status, headers: parts.headers, body })
}

/// Writes all of it, on a thread that may wait.
fn write(head: &[u8], database: &dyn Database, mut to: Pieces) {
    use io::Write as _;
    let written = to.write_all(head).and_then(|()| database.write_to(&mut to));
    match written {
        // An error says that nobody wants the end any more.
        Ok(_) => drop(to.finish()),
        Err(error) => to.fail(error),
    }
}
