//! Answers, as they are written.
//!
//! Most are messages and encode themselves. Answers about keys are put together from what is stored, without being decoded in between
//! ([`mvcc::Response`]); long ones are framed before they come here, where they were read ([`Framed`]).

use bytes::{Bytes, BytesMut};
use prost::Message;
use proto::etcdserverpb::ResponseHeader;

use super::message::{PREFIX, frame};
use super::status::Status;

/// An answer that can be written.
pub(crate) trait Reply {
    /// How long it is, as far as that is known beforehand.
    fn size_hint(&self) -> usize {
        0
    }

    /// Appends it.
    fn write(&self, out: &mut BytesMut);

    /// What the log of slow requests says that it counts.
    fn count(&self) -> i64 {
        0
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
    pub(crate) count: i64,
}

impl<R: mvcc::Response> Reply for Answer<R> {
    fn size_hint(&self) -> usize {
        self.result.encoded_len(&self.header)
    }

    fn write(&self, out: &mut BytesMut) {
        self.result.encode(&self.header, out);
    }

    fn count(&self) -> i64 {
        self.count
    }
}

/// An answer that is framed already.
#[derive(Debug)]
pub(crate) struct Framed {
    bytes: Bytes,
    count: i64,
}

impl Framed {
    /// Frames an answer, wherever that is best done.
    pub(crate) fn new(reply: impl Reply) -> Result<Framed, Status> {
        let count = reply.count();
        Ok(Framed { bytes: reply.into_frame()?, count })
    }
}

impl Reply for Framed {
    fn size_hint(&self) -> usize {
        self.bytes.len() - PREFIX
    }

    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.bytes[PREFIX..]);
    }

    fn count(&self) -> i64 {
        self.count
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
        let framed = Framed::new(reply).unwrap();
        assert_eq!(framed.size_hint(), 2);
        let mut out = BytesMut::new();
        framed.write(&mut out);
        assert_eq!(out, [8, 5][..]);
        assert_eq!(framed.into_frame().unwrap(), [0, 0, 0, 0, 2, 8, 5][..]);
    }
}
