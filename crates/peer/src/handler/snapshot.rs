//! `POST /raft/snapshot`: a message, and behind it a database.
//!
//! The database is kept by a thread that waits for the disk, while the next pieces come:
//!
//! ```text
//!   connection ──► piece() ──► PIECES_MAX in a channel ──► Incoming as Read ──► Local::receive_snapshot
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use proto::raftpb;
use raft::MessageType;
use server::ReceiveSnapshotError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::Call;
use super::answer::{self, Answer};
use super::intake::{Body, ReadError};
use crate::codec::StreamError;
use crate::codec::message::MessageDecoder;
use crate::metrics::{SnapshotCounts, UNKNOWN};

/// The largest message that a database may be behind. That of etcd.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// Pieces of a database that wait for the disk.
const PIECES_MAX: usize = 4;
/// Who sent it, if it does not get as far as to say so.
const UNKNOWN_SENDER: &str = "UNKNOWN_SNAPSHOT_SENDER";

/// Why there is no message before the database.
#[derive(Debug, thiserror::Error)]
enum HeadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Nonsense(#[from] StreamError),
    #[error(transparent)]
    Unknown(#[from] raft::wire::DecodeError),
    #[error("EOF")]
    Empty,
    #[error("unexpected EOF")]
    Short,
}

impl Call<'_> {
    pub(super) async fn snapshot(&self, request: Request<Incoming>) -> Answer {
        let begun = Instant::now();
        let (parts, body) = request.into_parts();
        let metrics = &self.shared.metrics;
        if let Err(error) = self.check(&parts.headers) {
            metrics.snapshots_from(UNKNOWN_SENDER).failures.inc();
            return self.incompatible(error);
        }
        self.add_remote(&parts.headers);
        // Before anything is read: what is before the database can be long, too.
        let Ok(place) = Arc::clone(&self.shared.snapshots).try_acquire_owned() else {
            metrics.snapshots_from(UNKNOWN_SENDER).failures.inc();
            return self.signed(not_saved(&"too many snapshots are being received"));
        };
        let mut body = Body::new(body, self.shared.timing.read);
        let (message, bytes, rest) = match head(&mut body).await {
            Ok(head) => head,
            Err(error) => {
                tracing::warn!(local_member_id = %self.attached.identity.member, remote = %self.connection.remote, %error, "failed to decode Raft message");
                metrics.received_failure(UNKNOWN);
                metrics.snapshots_from(UNKNOWN_SENDER).failures.inc();
                return self.bad(format_args!("failed to decode raft message ({error})"));
            }
        };
        self.count_received(message.from, bytes);
        let is_known = self.shared.peers().get(message.from).is_some();
        let from = if is_known { message.from.to_string() } else { UNKNOWN_SENDER.to_owned() };
        let counts = metrics.snapshots_from(&from);
        if message.kind != MessageType::MsgSnap {
            tracing::warn!(local_member_id = %self.attached.identity.member, remote_snapshot_sender_id = from, message_type = message.kind.as_str(), "unexpected Raft message type");
            counts.failures.inc();
            return self.bad("wrong raft message type");
        }
        let answer = self.database(message, body, rest, &counts, place).await;
        if answer.status() == StatusCode::NO_CONTENT {
            counts.success.inc();
            counts.duration.observe(begun.elapsed().as_secs_f64());
        } else {
            counts.failures.inc();
        }
        self.signed(answer)
    }

    /// Takes the database, and with that the message.
    async fn database(
        &self,
        message: raft::Message,
        mut body: Body,
        rest: Bytes,
        counts: &SnapshotCounts,
        place: OwnedSemaphorePermit,
    ) -> Answer {
        counts.in_flight.inc();
        let (from, local) = (message.from, Arc::clone(&self.attached.local));
        let index = message.snapshot.as_ref().map_or(0, |snapshot| snapshot.metadata.index.0);
        let local_member_id = self.attached.identity.member;
        tracing::info!(%local_member_id, remote_snapshot_sender_id = %from, incoming_snapshot_index = index, "receiving database snapshot");
        let (to, pieces) = mpsc::channel(PIECES_MAX);
        let in_flight = counts.in_flight.clone();
        let keeping = tokio::task::spawn_blocking(move || {
            let mut database = Pieces { pieces, piece: rest, is_over: false };
            let kept = local.receive_snapshot(message, &mut database);
            in_flight.dec();
            drop(place);
            kept
        });
        feed(&mut body, to).await;
        match keeping.await {
            Ok(Ok(bytes)) => {
                self.count_received(from, bytes);
                tracing::info!(%local_member_id, remote_snapshot_sender_id = %from, incoming_snapshot_index = index, incoming_snapshot_size_bytes = bytes, "received and saved database snapshot");
                answer::taken()
            }
            Ok(Err(refused)) => self.refused(from, index, &refused),
            // It panicked, or the runtime stops.
            Err(error) => not_saved(&error),
        }
    }

    fn refused(&self, from: types::MemberId, index: u64, refused: &ReceiveSnapshotError) -> Answer {
        let local_member_id = self.attached.identity.member;
        tracing::warn!(%local_member_id, remote_snapshot_sender_id = %from, incoming_snapshot_index = index, error = %refused, "failed to save incoming database snapshot");
        match refused {
            ReceiveSnapshotError::Message(error) => {
                let text = format!("failed to process raft message ({error})");
                answer::error(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            ReceiveSnapshotError::NoSnapshot => answer::error(StatusCode::BAD_REQUEST, refused),
            ReceiveSnapshotError::File(_) => {
                answer::error(StatusCode::INTERNAL_SERVER_ERROR, refused)
            }
            ReceiveSnapshotError::Database(_) => not_saved(refused),
        }
    }
}

fn not_saved(why: &dyn std::fmt::Display) -> Answer {
    let text = format!("failed to save KV snapshot ({why})");
    answer::error(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// The message, how long it was, and what has come of the database with it.
async fn head(body: &mut Body) -> Result<(raft::Message, u64, Bytes), HeadError> {
    use crate::codec::Decode as _;
    use prost::Message as _;
    let (mut decoder, mut is_empty) = (MessageDecoder::bounded(MESSAGE_BYTES_MAX), true);
    loop {
        let Some(piece) = body.piece().await? else {
            return Err(if is_empty { HeadError::Empty } else { HeadError::Short });
        };
        is_empty &= piece.is_empty();
        decoder.feed(piece);
        if let Some(wire) = decoder.next_wire()? {
            let wire: raftpb::Message = wire;
            let bytes = wire.encoded_len() as u64;
            return Ok((wire.try_into()?, bytes, decoder.into_rest()));
        }
    }
}

/// Hands the rest of a body to whoever keeps it, for as long as that is wanted.
async fn feed(body: &mut Body, to: mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let piece = match body.piece().await {
            Ok(Some(piece)) if piece.is_empty() => continue,
            Ok(piece) => Ok(piece.unwrap_or_default()),
            Err(error) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string())),
        };
        // An empty piece is the end.
        let is_last = piece.as_ref().map_or(true, Bytes::is_empty);
        if to.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

/// Pieces as they come, read by a thread that may wait. One that is not followed by an end has been cut off.
struct Pieces {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    is_over: bool,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !self.is_over {
            let cut_off = || Err(io::ErrorKind::UnexpectedEof.into());
            self.piece = self.pieces.blocking_recv().unwrap_or_else(cut_off)?;
            self.is_over = self.piece.is_empty();
        }
        let count = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}
