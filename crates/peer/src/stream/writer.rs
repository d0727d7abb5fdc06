//! The stream writer: the body that sends the messages of a [`StreamQueue`].

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use net::Connection;
use raft::Message;
use tokio::time::{Interval, MissedTickBehavior, interval_at};

use super::StreamKind;
use super::queue::{Detached, StreamId, StreamQueue};
use crate::codec::message;
use crate::codec::msgapp::MsgAppEncoder;
use crate::peers::context::PeerContext;

/// The size of a body chunk. A client that accepts one every few seconds is slow, and not stuck.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes a stream. Ends when another stream replaces it or the peer is removed; if dropped before,
/// the stream is lost.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    context: Arc<PeerContext>,
    queue: Arc<StreamQueue>,
    stream: StreamId,
    encoder: Encoder,
    /// Messages that are taken and not encoded.
    taken: Vec<Message>,
    buffer: BytesMut,
    /// Bytes that are encoded and not written.
    encoded: Bytes,
    heartbeat: Interval,
}

#[derive(Debug)]
enum Encoder {
    Message,
    MsgApp(MsgAppEncoder),
}

impl Encoder {
    fn new(kind: StreamKind) -> Encoder {
        match kind {
            StreamKind::Message => Encoder::Message,
            StreamKind::MsgApp => Encoder::MsgApp(MsgAppEncoder::default()),
        }
    }

    fn encode(&mut self, message: Message, to: &mut BytesMut) {
        match self {
            Encoder::Message => message::encode(message, to),
            Encoder::MsgApp(encoder) => encoder.encode(message, to),
        }
    }

    fn encode_link_heartbeat(&self, to: &mut BytesMut) {
        match self {
            Encoder::Message => message::encode_link_heartbeat(to),
            Encoder::MsgApp(_) => MsgAppEncoder::encode_link_heartbeat(to),
        }
    }
}

impl StreamWriter {
    /// Attaches a writer for the client that dialed. Returns `None` if the peer was removed.
    pub(crate) fn attach(
        context: &Arc<PeerContext>,
        queue: &Arc<StreamQueue>,
        connection: Arc<Connection>,
    ) -> Option<StreamWriter> {
        let (stream, previous) = queue.attach(connection)?;
        let writer = StreamWriter {
            context: Arc::clone(context),
            queue: Arc::clone(queue),
            stream,
            encoder: Encoder::new(queue.kind),
            taken: Vec::new(),
            buffer: BytesMut::new(),
            encoded: Bytes::new(),
            heartbeat: heartbeat(context),
        };
        if previous.had_messages {
            context.local.report_unreachable(context.id);
        }
        writer.log_attached(previous.was_attached);
        Some(writer)
    }

    fn log_attached(&self, was_attached: bool) {
        let (local, id, kind) = (self.context.identity.member, self.context.id, self.queue.kind);
        self.context.on_success();
        tracing::info!(from = %local, to = %id, stream_type = kind.name(), "set message encoder");
        if was_attached {
            tracing::warn!(
                stream_writer_type = kind.name(), local_member_id = %local, remote_peer_id = %id,
                "closed TCP streaming connection with remote peer"
            );
        }
        tracing::info!(
            stream_writer_type = kind.name(), local_member_id = %local, remote_peer_id = %id,
            "established TCP streaming connection with remote peer"
        );
    }

    /// Encodes the next messages, if any.
    fn encode(&mut self, cx: &mut Context<'_>) -> Result<(), Detached> {
        if !self.encoded.is_empty() {
            return self.queue.record_progress(self.stream);
        }
        self.queue.take(self.stream, &mut self.taken, cx)?;
        for message in self.taken.drain(..) {
            self.encoder.encode(message, &mut self.buffer);
        }
        if self.buffer.is_empty() && self.heartbeat.poll_tick(cx).is_ready() {
            self.encoder.encode_link_heartbeat(&mut self.buffer);
        }
        self.encoded = self.buffer.split().freeze();
        Ok(())
    }

    fn chunk(&mut self) -> Bytes {
        let chunk = self.encoded.split_to(self.encoded.len().min(CHUNK_BYTES));
        self.context.metrics.sent_bytes.inc_by(chunk.len() as u64);
        chunk
    }
}

fn heartbeat(context: &PeerContext) -> Interval {
    let period = context.timing.link_heartbeat();
    let mut interval = interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Body for StreamWriter {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.encode(cx).is_err() {
            return Poll::Ready(None);
        }
        let chunk = this.chunk();
        if chunk.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        let Some(previous) = self.queue.detach(self.stream) else { return };
        let context = &self.context;
        context.on_failure(self.queue.kind.name(), "write", &"the connection has ended");
        context.metrics.sent_failures.inc();
        if previous.had_messages {
            context.local.report_unreachable(context.id);
        }
        log_lost(context, self.queue.kind);
    }
}

/// Logs that a stream was lost.
pub(crate) fn log_lost(context: &PeerContext, kind: StreamKind) {
    tracing::warn!(
        stream_writer_type = kind.name(), local_member_id = %context.identity.member,
        remote_peer_id = %context.id, "lost TCP streaming connection with remote peer"
    );
}
