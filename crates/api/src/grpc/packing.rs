//! How the messages of a call are compressed, and where that is done and undone.
//!
//! ```text
//!   grpc-encoding: gzip    01 len gzip ─► unpacked ─► message      a client says how it compresses; each message says whether it is
//!   grpc-encoding: gzip    reply ─► packed ─► 01 len gzip          and it is answered in the same way
//! ```
//!
//! A connection shares its thread with many others, so what takes long is done aside ([`Heavy`]). How long a message will be is not known: it is unpacked
//! at hand as far as that goes quickly; if there is more, what came out is dropped and the whole is done aside. Whatever waits for that is as long as its client
//! made it, and no longer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use net::SendBudget;

use super::gzip::{self, Unpacked};
use super::heavy::Heavy;
use super::message::{PREFIX, ReadError, put_length};
use super::status::Status;

/// The longest message that is packed or unpacked where its connection is served: less than a millisecond.
const AT_HAND_MAX: usize = 32 << 10;
/// What says, before a message, that it is compressed.
pub(crate) const COMPRESSED: u8 = 1;

/// How messages are compressed, if they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Identity,
    Gzip,
}

impl Encoding {
    /// What a client calls it; none if that is nothing we know.
    pub(crate) fn of(name: &str) -> Option<Encoding> {
        match name {
            "" | "identity" => Some(Encoding::Identity),
            "gzip" => Some(Encoding::Gzip),
            _ => None,
        }
    }

    /// What clients are told, if they have to be.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Encoding::Identity => None,
            Encoding::Gzip => Some("gzip"),
        }
    }

    /// A framed message as it goes out. It counts as unsent, as the one that came in may have.
    pub(crate) async fn pack(
        self,
        framed: Bytes,
        heavy: &Heavy,
        unsent: &Arc<SendBudget>,
    ) -> Result<Bytes, Status> {
        // Compat: what is empty is never compressed.
        if self == Encoding::Identity || framed.len() == PREFIX {
            return Ok(framed);
        }
        if framed.len() <= AT_HAND_MAX {
            return packed(&framed);
        }
        let unsent = Arc::clone(unsent);
        let aside = heavy.aside(move || Ok(unsent.charge(packed(&framed)?)));
        aside.await.unwrap_or(Err(Status::CANCELED))
    }
}

fn packed(framed: &[u8]) -> Result<Bytes, Status> {
    let mut out = vec![0; PREFIX];
    gzip::pack(&framed[PREFIX..], &mut out);
    let mut out = BytesMut::from(Bytes::from(out));
    put_length(&mut out, 0)?;
    out[0] = COMPRESSED;
    Ok(out.freeze())
}

/// A message that is being unpacked.
pub(crate) struct Unpacking {
    work: Pin<Box<dyn Future<Output = Result<Bytes, ReadError>> + Send>>,
    kept: usize,
}

impl Unpacking {
    /// Unpacks a message, or begins to.
    pub(crate) fn begin(
        message: &Bytes,
        bytes_max: usize,
        heavy: &Heavy,
    ) -> Result<Result<Bytes, ReadError>, Unpacking> {
        let at_hand = gzip::unpack(message, bytes_max.min(AT_HAND_MAX));
        if at_hand != Unpacked::TooLarge || bytes_max <= AT_HAND_MAX {
            return Ok(read(at_hand, bytes_max));
        }
        // What it lies in may be much larger, and must not be kept for it.
        let (message, heavy) = (message.to_vec(), heavy.clone());
        let kept = message.len();
        let work = Box::pin(async move {
            let unpacked = heavy.aside(move || gzip::unpack(&message, bytes_max)).await;
            unpacked.map_or(Err(ReadError::Gone), |unpacked| read(unpacked, bytes_max))
        });
        Err(Unpacking { work, kept })
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ReadError>> {
        self.work.as_mut().poll(cx)
    }

    /// How many bytes of it are in memory while it waits.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }
}

fn read(unpacked: Unpacked, bytes_max: usize) -> Result<Bytes, ReadError> {
    match unpacked {
        Unpacked::Whole(message) => Ok(message.into()),
        Unpacked::TooLarge => Err(ReadError::UnpackedTooLarge { bytes_max }),
        Unpacked::NotBegun(error) => Err(ReadError::NotPacked(error)),
        Unpacked::Broken(error) => Err(ReadError::BadlyPacked(error)),
    }
}

impl fmt::Debug for Unpacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacking").field("kept", &self.kept).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use net::{COUNTED_BYTES_MIN, UNSENT_BYTES_MAX};

    use super::*;
    use crate::grpc::message::framed;

    fn gzipped(bytes: &[u8]) -> Bytes {
        let mut out = Vec::new();
        gzip::pack(bytes, &mut out);
        out.into()
    }

    #[test]
    fn only_gzip_is_known() {
        for (name, encoding) in [("", Encoding::Identity), ("identity", Encoding::Identity)] {
            assert_eq!(Encoding::of(name), Some(encoding));
            assert_eq!(encoding.name(), None);
        }
        assert_eq!(Encoding::of("gzip").and_then(Encoding::name), Some("gzip"));
        assert_eq!(Encoding::of("GZIP"), None);
    }

    #[tokio::test]
    async fn replies_are_packed_whatever_their_length() {
        let (heavy, unsent) = (Heavy::default(), Arc::<SendBudget>::default());
        for length in [1, 100, AT_HAND_MAX, 1 << 20] {
            let message = vec![7; length];
            let reply = framed(&message).unwrap();
            let packed = Encoding::Gzip.pack(reply, &heavy, &unsent).await.unwrap();
            let told = u32::from_be_bytes(*packed[1..].first_chunk().unwrap());
            assert_eq!((packed[0], told as usize), (COMPRESSED, packed.len() - PREFIX));
            assert_eq!(gzip::unpack(&packed[PREFIX..], length), Unpacked::Whole(message));
        }
        let empty = framed(b"").unwrap();
        assert_eq!(Encoding::Gzip.pack(empty.clone(), &heavy, &unsent).await.unwrap(), empty);
        let plain = framed(b"plain").unwrap();
        assert_eq!(Encoding::Identity.pack(plain.clone(), &heavy, &unsent).await.unwrap(), plain);
    }

    #[tokio::test]
    async fn a_long_reply_is_unsent_until_it_is_sent() {
        let (heavy, unsent) = (Heavy::default(), Arc::<SendBudget>::default());
        let noise: Vec<u8> = (0u32..1 << 20).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
        let filler = unsent.charge(vec![0; UNSENT_BYTES_MAX - 1].into());
        let reply = framed(&noise).unwrap();
        let packed = Encoding::Gzip.pack(reply, &heavy, &unsent).await.unwrap();
        assert!(packed.len() > COUNTED_BYTES_MIN, "{}", packed.len());
        assert!(!unsent.has_room());
        drop(packed);
        assert!(unsent.has_room());
        drop(filler);
    }

    #[tokio::test]
    async fn what_is_short_is_unpacked_at_once_and_what_is_long_aside() {
        let heavy = Heavy::default();
        let short = Unpacking::begin(&gzipped(b"short"), 1 << 20, &heavy);
        assert_eq!(short.unwrap().unwrap(), "short");
        let bytes_max = 1 << 20;
        for (length, told) in [
            (bytes_max, Ok(bytes_max)),
            (bytes_max + 1, Err(ReadError::UnpackedTooLarge { bytes_max })),
        ] {
            let packed = gzipped(&vec![0; length]);
            let mut long = Unpacking::begin(&packed, bytes_max, &heavy).unwrap_err();
            assert!(long.kept() < 4 << 10, "{long:?}");
            let unpacked = std::future::poll_fn(|cx| long.poll(cx)).await;
            assert_eq!(unpacked.map(|message| message.len()), told);
        }
    }
}
