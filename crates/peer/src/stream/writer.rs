//! The body of a stream: what an [`Outlet`] has to say, as bytes, for as long as somebody listens.

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
use super::outlet::{Ended, Outlet, StreamId};
use crate::codec::message;
use crate::codec::msgapp::MsgAppEncoder;
use crate::contact::Contact;

/// What is handed to the connection at once. Whoever takes one such piece every few seconds is slow, and not stuck.
const PIECE_BYTES: usize = 64 << 10;

/// Writes a stream. It ends when another takes its place, or when the member is removed; dropped before, it is lost.
#[derive(Debug)]
pub(crate) struct Writer {
    contact: Arc<Contact>,
    outlet: Arc<Outlet>,
    stream: StreamId,
    encoder: Encoder,
    /// What is taken, for as long as it is not encoded.
    taken: Vec<Message>,
    buffer: BytesMut,
    /// What is encoded and not handed on.
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

impl Writer {
    /// Writes to whoever has dialled. None if nothing is to be said to it any more.
    pub(crate) fn attach(
        contact: &Arc<Contact>,
        outlet: &Arc<Outlet>,
        connection: Arc<Connection>,
    ) -> Option<Writer> {
        let (stream, replaced) = outlet.attach(connection)?;
        let writer = Writer {
            contact: Arc::clone(contact),
            outlet: Arc::clone(outlet),
            stream,
            encoder: Encoder::new(outlet.kind),
            taken: Vec::new(),
            buffer: BytesMut::new(),
            encoded: Bytes::new(),
            heartbeat: heartbeat(contact),
        };
        if replaced.had_messages {
            contact.local.report_unreachable(contact.id);
        }
        writer.tell_attached(replaced.was_attached);
        Some(writer)
    }

    fn tell_attached(&self, was_attached: bool) {
        let (local, id, kind) = (self.contact.identity.member, self.contact.id, self.outlet.kind);
        self.contact.worked();
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

    /// Has something encoded, if there is anything to be said.
    fn encode(&mut self, cx: &mut Context<'_>) -> Result<(), Ended> {
        if !self.encoded.is_empty() {
            return self.outlet.goes_on(self.stream);
        }
        self.outlet.take(self.stream, &mut self.taken, cx)?;
        for message in self.taken.drain(..) {
            self.encoder.encode(message, &mut self.buffer);
        }
        if self.buffer.is_empty() && self.heartbeat.poll_tick(cx).is_ready() {
            self.encoder.encode_link_heartbeat(&mut self.buffer);
        }
        self.encoded = self.buffer.split().freeze();
        Ok(())
    }

    fn piece(&mut self) -> Bytes {
        let piece = self.encoded.split_to(self.encoded.len().min(PIECE_BYTES));
        self.contact.counts.sent_bytes.inc_by(piece.len() as u64);
        piece
    }
}

fn heartbeat(contact: &Contact) -> Interval {
    let period = contact.timing.link_heartbeat();
    let mut interval = interval_at(tokio::time::Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl Body for Writer {
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
        let piece = this.piece();
        if piece.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let Some(replaced) = self.outlet.detach(self.stream) else { return };
        let contact = &self.contact;
        contact.failed(self.outlet.kind.name(), "write", &"the connection has ended");
        contact.counts.sent_failures.inc();
        if replaced.had_messages {
            contact.local.report_unreachable(contact.id);
        }
        tell_lost(contact, self.outlet.kind);
    }
}

/// A stream has ended that should not have.
pub(crate) fn tell_lost(contact: &Contact, kind: StreamKind) {
    tracing::warn!(
        stream_writer_type = kind.name(), local_member_id = %contact.identity.member,
        remote_peer_id = %contact.id, "lost TCP streaming connection with remote peer"
    );
}
