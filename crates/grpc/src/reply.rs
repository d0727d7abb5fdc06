//! Replies, as they are written.
//!
//! Most replies are protobuf messages and encode themselves. An application may implement [`Reply`]
//! for types that copy stored bytes into the response without decoding them. Long replies are
//! framed on the thread that reads the data, and arrive here as a [`FramedReply`].

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use net::SendBudget;
use prost::Message;

use crate::message::{PREFIX, put_length};
use crate::status::Status;

/// A reply that can be written.
pub trait Reply {
    /// The expected length in bytes, or 0 if unknown.
    fn size_hint(&self) -> usize {
        0
    }

    /// Appends the encoded reply.
    fn write(&self, out: &mut BytesMut);

    /// A short result for the log of slow requests.
    fn summary(&self) -> Summary {
        Summary::default()
    }

    /// Returns the encoded reply after this many zeros.
    fn into_message(self, headroom: usize) -> BytesMut
    where
        Self: Sized,
    {
        let mut out = BytesMut::with_capacity(headroom + self.size_hint());
        out.put_bytes(0, headroom);
        self.write(&mut out);
        out
    }

    /// Returns the reply with its length prefix.
    ///
    /// # Errors
    /// The reply is too long to be sent.
    fn into_frame(self) -> Result<Bytes, Status>
    where
        Self: Sized,
    {
        let mut out = self.into_message(PREFIX);
        put_length(&mut out, 0)?;
        Ok(out.freeze())
    }

    /// Returns the reply with its length prefix, whose bytes count as unsent until they are sent.
    ///
    /// # Errors
    /// The reply is too long to be sent.
    fn into_charged_frame(self, send_budget: &Arc<SendBudget>) -> Result<Bytes, Status>
    where
        Self: Sized,
    {
        Ok(send_budget.charge(self.into_frame()?))
    }
}

/// A short result of a request, for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summary {
    /// The number of items that were found or changed.
    Count(i64),
    /// The branch that a conditional request took.
    Branch {
        /// Whether the condition held.
        succeeded: bool,
    },
}

impl Default for Summary {
    fn default() -> Summary {
        Summary::Count(0)
    }
}

impl<M: Message> Reply for M {
    fn size_hint(&self) -> usize {
        self.encoded_len()
    }

    fn write(&self, out: &mut BytesMut) {
        self.encode(out).expect("BytesMut grows as needed");
    }
}

/// A reply that is already framed.
#[derive(Debug)]
pub struct FramedReply {
    bytes: Bytes,
    summary: Summary,
}

impl FramedReply {
    /// Frames a reply on the current thread. Its bytes count as unsent until they are sent.
    ///
    /// # Errors
    /// The reply is too long to be sent.
    pub fn new(reply: impl Reply, send_budget: &Arc<SendBudget>) -> Result<FramedReply, Status> {
        let summary = reply.summary();
        Ok(FramedReply { bytes: reply.into_charged_frame(send_budget)?, summary })
    }

    /// The encoded message without its length prefix.
    pub fn message(&self) -> Bytes {
        self.bytes.slice(PREFIX..)
    }
}

impl Reply for FramedReply {
    fn size_hint(&self) -> usize {
        self.bytes.len() - PREFIX
    }

    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.bytes[PREFIX..]);
    }

    fn summary(&self) -> Summary {
        self.summary
    }

    fn into_frame(self) -> Result<Bytes, Status> {
        Ok(self.bytes)
    }

    /// Returns the bytes, which were charged when the reply was framed.
    fn into_charged_frame(self, _: &Arc<SendBudget>) -> Result<Bytes, Status> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_follows_its_length_prefix() {
        // A prost message with field 1 = 5.
        let reply = || 5_i64;
        assert_eq!(reply().into_frame().unwrap(), [0, 0, 0, 0, 2, 8, 5][..]);
        let framed = FramedReply::new(reply(), &Arc::default()).unwrap();
        assert_eq!(framed.size_hint(), 2);
        let mut out = BytesMut::new();
        framed.write(&mut out);
        assert_eq!(out, [8, 5][..]);
        assert_eq!(framed.into_frame().unwrap(), [0, 0, 0, 0, 2, 8, 5][..]);
    }

    #[test]
    fn a_long_reply_is_charged_once_however_it_is_framed() {
        let long = || vec![7_u8; net::UNSENT_BYTES_MAX];
        let budget = Arc::new(SendBudget::default());
        let frame = long().into_charged_frame(&budget).unwrap();
        assert!(!budget.has_room(), "a plain message is charged");
        drop(frame);
        let framed = FramedReply::new(long(), &budget).unwrap();
        let frame = framed.into_charged_frame(&budget).unwrap();
        assert!(!budget.has_room());
        drop(frame);
        assert!(budget.has_room(), "all of it is refunded");
    }
}
