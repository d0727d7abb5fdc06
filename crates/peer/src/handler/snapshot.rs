//! `POST /raft/snapshot`: receives a message followed by a database.
//!
//! A blocking thread saves the database while further chunks arrive:
//!
//! ```text
//!   connection ──► next_chunk ──► channel of CHUNKS_MAX ──► ChunkReader ──► receive_snapshot
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
use super::body_reader::{BodyReader, ReadError};
use super::responses::{self, HandlerResponse};
use crate::codec::StreamError;
use crate::codec::message::MessageDecoder;
use crate::metrics::{SnapshotMetrics, UNKNOWN};

/// The size limit of the message before the database. As in etcd.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// The most chunks of a database that wait for the disk.
const CHUNKS_MAX: usize = 4;
/// The metric label of a sender that is not known yet.
const UNKNOWN_SENDER: &str = "UNKNOWN_SNAPSHOT_SENDER";

/// The reason the message before the database could not be decoded.
#[derive(Debug, thiserror::Error)]
enum HeadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Malformed(#[from] StreamError),
    #[error(transparent)]
    Unknown(#[from] raft::wire::DecodeError),
    #[error("EOF")]
    Empty,
    #[error("unexpected EOF")]
    Short,
}

impl Call<'_> {
    pub(super) async fn snapshot(&self, request: Request<Incoming>) -> HandlerResponse {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let metrics = &self.shared.metrics;
        if let Err(error) = self.check(&parts.headers) {
            metrics.snapshots_from(UNKNOWN_SENDER).failures.inc();
            return self.incompatible(error);
        }
        self.add_remote(&parts.headers);
        // Before the body is read, because the message alone can be large.
        let Ok(permit) = Arc::clone(&self.shared.snapshots).try_acquire_owned() else {
            metrics.snapshots_from(UNKNOWN_SENDER).failures.inc();
            return self.with_cluster_id(save_failed(&"too many snapshots are being received"));
        };
        let mut body = BodyReader::new(body, self.shared.timing.read);
        let (message, bytes, rest) = match head(&mut body).await {
            Ok(head) => head,
            Err(error) => {
                tracing::warn!(local_member_id = %self.attached.identity.member, remote = %self.connection.remote, %error, "failed to decode Raft message");
                metrics.received_failure(UNKNOWN);
                metrics.snapshots_from(UNKNOWN_SENDER).failures.inc();
                return self.bad_request(format_args!("failed to decode raft message ({error})"));
            }
        };
        self.count_received(message.from, bytes);
        let is_known = self.shared.peers().get(message.from).is_some();
        let from = if is_known { message.from.to_string() } else { UNKNOWN_SENDER.to_owned() };
        let counts = metrics.snapshots_from(&from);
        if message.kind != MessageType::MsgSnap {
            tracing::warn!(local_member_id = %self.attached.identity.member, remote_snapshot_sender_id = from, message_type = message.kind.as_str(), "unexpected Raft message type");
            counts.failures.inc();
            return self.bad_request("wrong raft message type");
        }
        let answer = self.database(message, body, rest, &counts, permit).await;
        if answer.status() == StatusCode::NO_CONTENT {
            counts.success.inc();
            counts.duration.observe(started.elapsed().as_secs_f64());
        } else {
            counts.failures.inc();
        }
        self.with_cluster_id(answer)
    }

    /// Saves the database and delivers the message.
    async fn database(
        &self,
        message: raft::Message,
        mut body: BodyReader,
        rest: Bytes,
        counts: &SnapshotMetrics,
        permit: OwnedSemaphorePermit,
    ) -> HandlerResponse {
        counts.in_flight.inc();
        let (from, local) = (message.from, Arc::clone(&self.attached.local));
        let index = message.snapshot.as_ref().map_or(0, |snapshot| snapshot.metadata.index.0);
        let local_member_id = self.attached.identity.member;
        tracing::info!(%local_member_id, remote_snapshot_sender_id = %from, incoming_snapshot_index = index, "receiving database snapshot");
        let (to, chunks) = mpsc::channel(CHUNKS_MAX);
        let in_flight = counts.in_flight.clone();
        let saving = tokio::task::spawn_blocking(move || {
            let mut database = ChunkReader { chunks, chunk: rest, is_finished: false };
            let saved = local.receive_snapshot(message, &mut database);
            in_flight.dec();
            drop(permit);
            saved
        });
        feed(&mut body, to).await;
        match saving.await {
            Ok(Ok(bytes)) => {
                self.count_received(from, bytes);
                tracing::info!(%local_member_id, remote_snapshot_sender_id = %from, incoming_snapshot_index = index, incoming_snapshot_size_bytes = bytes, "received and saved database snapshot");
                responses::no_content()
            }
            Ok(Err(refused)) => self.refused(from, index, &refused),
            // The thread panicked, or the runtime is stopping.
            Err(error) => save_failed(&error),
        }
    }

    fn refused(
        &self,
        from: types::MemberId,
        index: u64,
        refused: &ReceiveSnapshotError,
    ) -> HandlerResponse {
        let local_member_id = self.attached.identity.member;
        tracing::warn!(%local_member_id, remote_snapshot_sender_id = %from, incoming_snapshot_index = index, error = %refused, "failed to save incoming database snapshot");
        match refused {
            ReceiveSnapshotError::Message(error) => {
                let text = format!("failed to process raft message ({error})");
                responses::error(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            ReceiveSnapshotError::NoSnapshot => responses::error(StatusCode::BAD_REQUEST, refused),
            ReceiveSnapshotError::File(_) => {
                responses::error(StatusCode::INTERNAL_SERVER_ERROR, refused)
            }
            ReceiveSnapshotError::Database(_) => save_failed(refused),
        }
    }
}

fn save_failed(why: &dyn std::fmt::Display) -> HandlerResponse {
    let text = format!("failed to save KV snapshot ({why})");
    responses::error(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// Reads the message. Returns it with its size and the first bytes of the database.
async fn head(body: &mut BodyReader) -> Result<(raft::Message, u64, Bytes), HeadError> {
    use crate::codec::Decode as _;
    use prost::Message as _;
    let (mut decoder, mut is_empty) = (MessageDecoder::bounded(MESSAGE_BYTES_MAX), true);
    loop {
        let Some(chunk) = body.next_chunk().await? else {
            return Err(if is_empty { HeadError::Empty } else { HeadError::Short });
        };
        is_empty &= chunk.is_empty();
        decoder.feed(chunk);
        if let Some(wire) = decoder.next_wire()? {
            let wire: raftpb::Message = wire;
            let bytes = wire.encoded_len() as u64;
            return Ok((wire.try_into()?, bytes, decoder.into_rest()));
        }
    }
}

/// Forwards the rest of a body to the thread that saves it, until that stops reading.
async fn feed(body: &mut BodyReader, to: mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let chunk = match body.next_chunk().await {
            Ok(Some(chunk)) if chunk.is_empty() => continue,
            Ok(chunk) => Ok(chunk.unwrap_or_default()),
            Err(error) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string())),
        };
        // An empty chunk marks the end.
        let is_last = chunk.as_ref().map_or(true, Bytes::is_empty);
        if to.send(chunk).await.is_err() || is_last {
            return;
        }
    }
}

/// Reads chunks from a channel on a blocking thread. A channel that closes without an end marker is
/// a truncated body.
struct ChunkReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    chunk: Bytes,
    is_finished: bool,
}

impl Read for ChunkReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() && !self.is_finished {
            let cut_off = || Err(io::ErrorKind::UnexpectedEof.into());
            self.chunk = self.chunks.blocking_recv().unwrap_or_else(cut_off)?;
            self.is_finished = self.chunk.is_empty();
        }
        let count = into.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}
