//! Answers, as they are written.
//!
//! Most are messages and encode themselves. Answers about keys are put together from what is stored, without being decoded in between
//! ([`mvcc::Response`]); long ones are framed before they come here, where they were read ([`Framed`]).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use net::SendBudget;
use prost::Message;
use proto::etcdserverpb::ResponseHeader;

use super::message::{PREFIX, frame, put_length};
use super::status::Status;

/// An answer that can be written.
pub(crate) trait Reply {
    /// How long it is, as far as that is known beforehand.
    fn size_hint(&self) -> usize {
        0
    }

    /// Appends it.
    fn write(&self, out: &mut BytesMut);

    /// What the log of slow requests is told of it.
    fn outcome(&self) -> Outcome {
        Outcome::default()
    }

    /// The whole message, as it goes out.
    fn into_frame(self) -> Result<Bytes, Status>
    where
        Self: Sized,
    {
        let mut out = BytesMut::with_capacity(PREFIX + self.size_hint());
        frame(&mut out, |out| self.write(out))?;
        Ok(out.freeze())
    }
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// So many keys were found, or deleted.
    Count(i64),
    /// Which way a transaction went.
    Txn {
        /// Whether its comparisons held.
        succeeded: bool,
    },
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome::Count(0)
    }
}

impl<M: Message> Reply for M {
    fn size_hint(&self) -> usize {
        self.encoded_len()
    }

    fn write(&self, out: &mut BytesMut) {
        self.encode(out).expect("the buffer grows as needed");
    }
}

/// An answer about keys, with its header.
#[derive(Debug)]
pub(crate) struct Answer<R> {
    pub(crate) header: ResponseHeader,
    pub(crate) result: R,
    pub(crate) outcome: Outcome,
}

impl<R: mvcc::Response> Reply for Answer<R> {
    fn size_hint(&self) -> usize {
        self.result.encoded_len(&self.header)
    }

    fn write(&self, out: &mut BytesMut) {
        self.result.encode(&self.header, out);
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Where the keys lie already, if that can be.
    fn into_frame(self) -> Result<Bytes, Status> {
        let mut out = self.result.into_message(&self.header, PREFIX);
        put_length(&mut out, 0)?;
        Ok(out.freeze())
    }
}

/// An answer that is framed already.
#[derive(Debug)]
pub(crate) struct Framed {
    bytes: Bytes,
    outcome: Outcome,
}

impl Framed {
    /// Frames an answer, wherever that is best done. It counts as unsent until it is sent.
    pub(crate) fn new(reply: impl Reply, unsent: &Arc<SendBudget>) -> Result<Framed, Status> {
        let outcome = reply.outcome();
        Ok(Framed { bytes: unsent.charge(reply.into_frame()?), outcome })
    }

    /// The message, without what comes before it.
    pub(crate) fn message(&self) -> Bytes {
        self.bytes.slice(PREFIX..)
    }
}

impl Reply for Framed {
    fn size_hint(&self) -> usize {
        self.bytes.len() - PREFIX
    }

    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.bytes[PREFIX..]);
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn into_frame(self) -> Result<Bytes, Status> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::etcdserverpb::LeaseStatus;

    #[test]
    fn a_reply_goes_out_behind_its_length() {
        let reply = LeaseStatus { id: 5 };
        assert_eq!(reply.into_frame().unwrap(), [0, 0, 0, 0, 2, 8, 5][..]);
        let framed = Framed::new(reply, &Arc::default()).unwrap();
        assert_eq!(framed.size_hint(), 2);
        let mut out = BytesMut::new();
        framed.write(&mut out);
        assert_eq!(out, [8, 5][..]);
        assert_eq!(framed.into_frame().unwrap(), [0, 0, 0, 0, 2, 8, 5][..]);
    }
}
