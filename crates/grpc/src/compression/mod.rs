//! Compression of the messages of a call.
//!
//! ```text
//!   grpc-encoding: gzip    01 len gzip ─► decompress ─► message   each message has its own flag
//!   grpc-encoding: gzip    reply ─► compress ─► 01 len gzip       in the encoding of the request
//! ```
//!
//! A connection shares its thread with many others, so long messages are processed by the
//! [`BlockingPool`]. The decompressed length is not known beforehand: a message is decompressed in
//! place up to a bound; if there is more, the output is dropped and a blocking thread starts over.
//! A message that waits for that takes no more memory than the client has sent.

pub(crate) mod gzip;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use net::SendBudget;

use crate::blocking::BlockingPool;
use crate::message::{PREFIX, ReadError, put_length};
use crate::status::Status;
use gzip::Decompressed;

/// The longest message that is processed on the thread of the connection: less than a millisecond.
const INLINE_BYTES_MAX: usize = 32 << 10;
/// The flag of a compressed message.
pub(crate) const COMPRESSED: u8 = 1;

/// The encoding of compressed messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Identity,
    Gzip,
}

impl Encoding {
    /// Parses a value of `grpc-encoding`; none if it is unknown.
    pub(crate) fn from_name(name: &str) -> Option<Encoding> {
        match name {
            "" | "identity" => Some(Encoding::Identity),
            "gzip" => Some(Encoding::Gzip),
            _ => None,
        }
    }

    /// The value of `grpc-encoding` in a response; none for identity.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Encoding::Identity => None,
            Encoding::Gzip => Some("gzip"),
        }
    }

    /// Compresses a framed message. A long one counts as unsent, as the uncompressed one may have.
    pub(crate) async fn compress(
        self,
        framed: Bytes,
        blocking: &BlockingPool,
        send_budget: &Arc<SendBudget>,
    ) -> Result<Bytes, Status> {
        // Compat: as in grpc-go, an empty message is never compressed.
        if self == Encoding::Identity || framed.len() == PREFIX {
            return Ok(framed);
        }
        if framed.len() <= INLINE_BYTES_MAX {
            return compressed(&framed);
        }
        let send_budget = Arc::clone(send_budget);
        let done = blocking.compute(move || Ok(send_budget.charge(compressed(&framed)?)));
        done.await.unwrap_or(Err(Status::CANCELED))
    }
}

fn compressed(framed: &[u8]) -> Result<Bytes, Status> {
    let mut out = vec![0; PREFIX];
    gzip::compress(&framed[PREFIX..], &mut out);
    let mut out = BytesMut::from(Bytes::from(out));
    put_length(&mut out, 0)?;
    out[0] = COMPRESSED;
    Ok(out.freeze())
}

/// A message that is being decompressed on a blocking thread.
pub(crate) struct Decompression {
    work: Pin<Box<dyn Future<Output = Result<Bytes, ReadError>> + Send>>,
    kept_bytes: usize,
}

impl Decompression {
    /// Decompresses a short message, or starts to decompress a long one.
    pub(crate) fn start(
        message: &Bytes,
        bytes_max: usize,
        blocking: &BlockingPool,
    ) -> Result<Result<Bytes, ReadError>, Decompression> {
        let inline = gzip::decompress(message, bytes_max.min(INLINE_BYTES_MAX));
        if inline != Decompressed::TooLarge || bytes_max <= INLINE_BYTES_MAX {
            return Ok(result(inline, bytes_max));
        }
        // A copy: the message shares the connection's read buffer, which must not be kept for it.
        let message = message.to_vec();
        let kept_bytes = message.len();
        let done = blocking.compute(move || gzip::decompress(&message, bytes_max));
        let work = Box::pin(async move {
            let done = done.await;
            done.map_or(Err(ReadError::Canceled), |decompressed| result(decompressed, bytes_max))
        });
        Err(Decompression { work, kept_bytes })
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ReadError>> {
        self.work.as_mut().poll(cx)
    }

    /// The memory that the compressed message takes while it waits.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

fn result(decompressed: Decompressed, bytes_max: usize) -> Result<Bytes, ReadError> {
    match decompressed {
        Decompressed::Complete(message) => Ok(message.into()),
        Decompressed::TooLarge => Err(ReadError::DecompressedTooLarge { bytes_max }),
        Decompressed::InvalidHeader(error) => Err(ReadError::NotGzip(error)),
        Decompressed::Corrupt(error) => Err(ReadError::CorruptGzip(error)),
    }
}

impl fmt::Debug for Decompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Decompression");
        debug.field("kept_bytes", &self.kept_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use net::{COUNTED_BYTES_MIN, UNSENT_BYTES_MAX};

    use super::*;
    use crate::message::frame_message;
    use crate::receive_budget::ReceiveBudget;
    use crate::transport::tests::STOPPED;

    fn blocking() -> BlockingPool {
        BlockingPool::new(ReceiveBudget::new(1, "too many requests"), STOPPED)
    }

    fn gzipped(bytes: &[u8]) -> Bytes {
        let mut out = Vec::new();
        gzip::compress(bytes, &mut out);
        out.into()
    }

    #[test]
    fn only_gzip_and_identity_are_known() {
        for (name, encoding) in [("", Encoding::Identity), ("identity", Encoding::Identity)] {
            assert_eq!(Encoding::from_name(name), Some(encoding));
            assert_eq!(encoding.name(), None);
        }
        assert_eq!(Encoding::from_name("gzip").and_then(Encoding::name), Some("gzip"));
        assert_eq!(Encoding::from_name("GZIP"), None);
    }

    #[tokio::test]
    async fn replies_of_any_length_are_compressed() {
        let (blocking, send_budget) = (blocking(), Arc::<SendBudget>::default());
        for length in [1, 100, INLINE_BYTES_MAX, 1 << 20] {
            let message = vec![7; length];
            let reply = frame_message(&message).unwrap();
            let compressed = Encoding::Gzip.compress(reply, &blocking, &send_budget).await.unwrap();
            let prefix = u32::from_be_bytes(*compressed[1..].first_chunk().unwrap());
            assert_eq!((compressed[0], prefix as usize), (COMPRESSED, compressed.len() - PREFIX));
            let decompressed = gzip::decompress(&compressed[PREFIX..], length);
            assert_eq!(decompressed, Decompressed::Complete(message));
        }
        for (encoding, message) in [(Encoding::Gzip, &b""[..]), (Encoding::Identity, b"plain")] {
            let reply = frame_message(message).unwrap();
            assert_eq!(
                encoding.compress(reply.clone(), &blocking, &send_budget).await.unwrap(),
                reply
            );
        }
    }

    #[tokio::test]
    async fn a_long_reply_counts_as_unsent_until_it_is_sent() {
        let (blocking, send_budget) = (blocking(), Arc::<SendBudget>::default());
        let noise: Vec<u8> = (0u32..1 << 20).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
        let filler = send_budget.charge(vec![0; UNSENT_BYTES_MAX - 1].into());
        let reply = frame_message(&noise).unwrap();
        let compressed = Encoding::Gzip.compress(reply, &blocking, &send_budget).await.unwrap();
        assert!(compressed.len() > COUNTED_BYTES_MIN, "{}", compressed.len());
        assert!(!send_budget.has_room());
        drop(compressed);
        assert!(send_budget.has_room());
        drop(filler);
    }

    #[tokio::test]
    async fn long_messages_are_decompressed_on_a_blocking_thread() {
        let blocking = blocking();
        let short = Decompression::start(&gzipped(b"short"), 1 << 20, &blocking);
        assert_eq!(short.unwrap().unwrap(), "short");
        let bytes_max = 1 << 20;
        for (length, expected) in [
            (bytes_max, Ok(bytes_max)),
            (bytes_max + 1, Err(ReadError::DecompressedTooLarge { bytes_max })),
        ] {
            let compressed = gzipped(&vec![0; length]);
            let mut long = Decompression::start(&compressed, bytes_max, &blocking).unwrap_err();
            assert!(long.kept_bytes() < 4 << 10, "{long:?}");
            let decompressed = std::future::poll_fn(|cx| long.poll(cx)).await;
            assert_eq!(decompressed.map(|message| message.len()), expected);
        }
    }
}
