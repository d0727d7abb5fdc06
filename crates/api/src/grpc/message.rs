//! Messages on the wire, and how they are read off it.
//!
//! ```text
//!   00         00 00 00 05     0a 03 66 6f 6f
//!   plain      length          RangeRequest { key: "foo" }
//! ```
//!
//! A message that came in one piece, which is nearly every one, is handed on where it lies; one in several pieces is put together first, and one that is
//! compressed is unpacked (`packing`).
//! Nothing is read ahead: what the caller has not asked for stays with the connection, whose window then closes.
//!
//! What is wrong with one is told in the words of etcd's gRPC library ([`ReadError`]).

use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body::Body;

use super::gzip;
use super::heavy::Heavy;
use super::packing::{COMPRESSED, Encoding, Unpacking};
use super::status::{Code, Status};
use crate::intake::{GivenUp, Intake, Receiving};

/// What comes before a message.
pub(crate) const PREFIX: usize = 5;

/// The longest message that is sent: what etcd allows, 2^31-1 bytes.
const SEND_MAX: usize = i32::MAX as usize;

/// The body of a request. Pieces come as they were received.
pub trait RequestBody: Body<Data = Bytes, Error: Display> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Display> + Send + Unpin + 'static> RequestBody for B {}

/// The messages of a request, one after the other.
#[derive(Debug)]
pub(crate) struct Messages<B> {
    body: B,
    /// What was received of the next messages.
    pieces: Pieces,
    terms: Terms,
    receiving: Receiving,
    unpacking: Option<Unpacking>,
}

/// How messages are received.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The longest there may be, also unpacked.
    pub(crate) bytes_max: usize,
    /// How those are compressed that are.
    pub(crate) encoding: Encoding,
    /// Where those are counted that are not whole.
    pub(crate) intake: Intake,
    /// Where long ones are unpacked.
    pub(crate) heavy: Heavy,
}

impl<B: RequestBody> Messages<B> {
    pub(crate) fn new(body: B, terms: Terms) -> Messages<B> {
        let receiving = Receiving::default();
        Messages { body, pieces: Pieces::default(), terms, receiving, unpacking: None }
    }

    /// The next message; none if the client has sent its last.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same, for those who wait for something else too.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        loop {
            if self.unpacking.is_some() {
                return self.poll_unpacked(cx).map_ok(Some);
            }
            if let Some((flag, message)) = self.take()? {
                self.receiving.finished();
                match self.unpack(flag, message) {
                    Some(message) => return Poll::Ready(message.map(Some)),
                    None => continue,
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                let given_up = ready!(self.poll_wait(cx));
                return Poll::Ready(Err(given_up.into()));
            };
            match frame {
                // Trailers of a request mean nothing here.
                Some(Ok(frame)) => {
                    frame.into_data().into_iter().for_each(|data| self.pieces.add(data));
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(&error))),
                // Compat: an end within what comes before a message is an end like any other.
                None if self.pieces.len() < PREFIX => return Poll::Ready(Ok(None)),
                None => return Poll::Ready(Err(ReadError::CutOff)),
            }
        }
    }

    /// Waits for the rest of a message, unless that is given up.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<GivenUp> {
        // What has come is in the buffer that the connection read it into, which may be much larger, and must not be kept for a few bytes.
        self.pieces.join();
        self.receiving.poll_wait(&self.terms.intake, self.pieces.kept(), cx)
    }

    /// A message as it was meant. None if that takes longer.
    fn unpack(&mut self, flag: u8, message: Bytes) -> Option<Result<Bytes, ReadError>> {
        if flag != COMPRESSED {
            return Some(Ok(message));
        }
        let begun = Unpacking::begin(&message, self.terms.bytes_max, &self.terms.heavy);
        begun.map_err(|unpacking| self.unpacking = Some(unpacking)).ok()
    }

    /// Waits until a message is unpacked. It counts as one that is not whole.
    fn poll_unpacked(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ReadError>> {
        let Some(unpacking) = &mut self.unpacking else { return Poll::Pending };
        let unpacked = match unpacking.poll(cx) {
            Poll::Ready(unpacked) => unpacked,
            Poll::Pending => {
                let kept = unpacking.kept();
                Err(ready!(self.receiving.poll_wait(&self.terms.intake, kept, cx)).into())
            }
        };
        self.unpacking = None;
        self.receiving.finished();
        Poll::Ready(unpacked)
    }

    /// A whole message, if one is there, and whether it is compressed.
    fn take(&mut self) -> Result<Option<(u8, Bytes)>, ReadError> {
        let Some([flag, length @ ..]) = self.pieces.peek() else { return Ok(None) };
        let length = u32::from_be_bytes(length) as usize;
        let bytes_max = self.terms.bytes_max;
        if length > bytes_max {
            return Err(ReadError::TooLarge { length, bytes_max });
        }
        match (flag, self.terms.encoding) {
            (0, _) | (COMPRESSED, Encoding::Gzip) => {}
            (COMPRESSED, Encoding::Identity) => return Err(ReadError::Compressed),
            (flag, _) => return Err(ReadError::Format(flag)),
        }
        if self.pieces.len() < PREFIX + length {
            // No room is made for what may never come: the buffer grows with what is received.
            return Ok(None);
        }
        self.pieces.skip(PREFIX);
        Ok(Some((flag, self.pieces.take(length))))
    }
}

/// A way of compressing that is not known here.
pub(crate) fn no_decompressor(encoding: &str) -> Status {
    let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
    Status::new(Code::Unimplemented, text)
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    /// Longer than any may be.
    #[error("grpc: received message larger than max ({length} vs. {bytes_max})")]
    TooLarge { length: usize, bytes_max: usize },
    /// The same, once it was unpacked.
    #[error("grpc: received message after decompression larger than max {bytes_max}")]
    UnpackedTooLarge { bytes_max: usize },
    /// Nothing that was compressed, though it says so.
    #[error("grpc: failed to decompress the message: {0}")]
    NotPacked(gzip::Error),
    /// It cannot be unpacked.
    #[error("grpc: failed to read decompressed data: {0}")]
    BadlyPacked(gzip::Error),
    /// Said to be compressed, by a client that said nothing is.
    #[error("grpc: compressed flag set with identity or empty encoding")]
    Compressed,
    /// What comes before it makes no sense.
    #[error("grpc: received unexpected payload format {0}")]
    Format(u8),
    /// The client has said its last, in the middle of it.
    #[error("unexpected EOF")]
    CutOff,
    /// The rest of it is not waited for.
    #[error(transparent)]
    GivenUp(#[from] GivenUp),
    /// The client has gone, or its connection. Nobody will read this, but the metrics count it.
    #[error("context canceled")]
    Gone,
}

/// As a stream is told.
impl From<ReadError> for Status {
    fn from(error: ReadError) -> Status {
        let code = match error {
            ReadError::TooLarge { .. } | ReadError::UnpackedTooLarge { .. } => {
                Code::ResourceExhausted
            }
            ReadError::NotPacked(_) | ReadError::BadlyPacked(_) => Code::Internal,
            ReadError::Compressed | ReadError::Format(_) | ReadError::CutOff => Code::Internal,
            ReadError::GivenUp(given_up) => return given_up.into(),
            ReadError::Gone => return Status::CANCELED,
        };
        Status::new(code, error.to_string())
    }
}

fn broken(error: &dyn Display) -> ReadError {
    tracing::debug!(%error, "the body of a request ended early");
    ReadError::Gone
}

/// Received bytes: one piece as it came, or several put together. At most one of the two holds something.
#[derive(Debug, Default)]
struct Pieces {
    first: Bytes,
    joined: BytesMut,
}

impl Pieces {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    /// What is held in memory for it.
    fn kept(&self) -> usize {
        if self.len() == 0 { 0 } else { self.joined.capacity() }
    }

    /// Adds what was received. Only what does not end with a message is ever copied.
    fn add(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        self.join();
        self.joined.put_slice(&data);
    }

    fn join(&mut self) {
        if !self.first.is_empty() {
            self.joined.put_slice(&std::mem::take(&mut self.first));
        }
    }

    fn bytes(&self) -> &[u8] {
        if self.first.is_empty() { &self.joined } else { &self.first }
    }

    /// What comes before the next message.
    fn peek(&self) -> Option<[u8; PREFIX]> {
        self.bytes().first_chunk().copied()
    }

    fn skip(&mut self, count: usize) {
        if self.first.is_empty() { self.joined.advance(count) } else { self.first.advance(count) }
    }

    fn take(&mut self, count: usize) -> Bytes {
        match self.first.is_empty() {
            // With the last of it goes the buffer: what one message took must not stay for the life of a stream.
            true if self.joined.len() == count => std::mem::take(&mut self.joined).freeze(),
            true => self.joined.split_to(count).freeze(),
            false => self.first.split_to(count),
        }
    }
}

/// Appends a message, which `write` appends itself, with what comes before one.
pub(crate) fn frame(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Result<(), Status> {
    let start = out.len();
    out.put_bytes(0, PREFIX);
    write(out);
    put_length(out, start)
}

/// A message of a request, with what comes before one.
pub(crate) fn framed(message: &[u8]) -> Result<Bytes, Status> {
    let mut out = BytesMut::with_capacity(PREFIX + message.len());
    frame(&mut out, |out| out.put_slice(message))?;
    Ok(out.freeze())
}

/// Says how long the message is that was written behind the room for that, at `start`.
pub(crate) fn put_length(out: &mut BytesMut, start: usize) -> Result<(), Status> {
    let length = out.len() - start - PREFIX;
    if length > SEND_MAX {
        out.truncate(start);
        let text =
            format!("grpc: trying to send message larger than max ({length} vs. {SEND_MAX})");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let length = u32::try_from(length).expect("at most 2^31-1");
    out[start + 1..start + PREFIX].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;
    use crate::intake::RECEIVING_BYTES_MAX;

    const MAX: usize = 64;

    fn terms() -> Terms {
        let (encoding, intake) = (Encoding::Identity, Intake::new(MAX));
        Terms { bytes_max: MAX, encoding, intake, heavy: Heavy::default() }
    }

    fn message(payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        frame(&mut out, |out| out.put_slice(payload)).unwrap();
        out.to_vec()
    }

    /// What comes out of pieces that come in.
    async fn read(pieces: Vec<Vec<u8>>) -> Vec<Result<Bytes, ReadError>> {
        let frames = pieces.into_iter().map(|piece| {
            Ok::<_, std::convert::Infallible>(http_body::Frame::data(Bytes::from(piece)))
        });
        let body = StreamBody::new(Frames(frames));
        let mut messages = Messages::new(body, terms());
        let mut all = Vec::new();
        loop {
            match messages.next().await {
                Ok(Some(message)) => all.push(Ok(message)),
                Ok(None) => return all,
                Err(error) => {
                    all.push(Err(error));
                    return all;
                }
            }
        }
    }

    struct Frames<I>(I);

    impl<I: Iterator + Unpin> tonic::codegen::tokio_stream::Stream for Frames<I> {
        type Item = I::Item;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
            Poll::Ready(self.0.next())
        }
    }

    #[tokio::test]
    async fn messages_are_the_same_wherever_they_are_cut() {
        let bytes = [message(b"one"), message(b""), message(b"three")].concat();
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let pieces = vec![
                    bytes[..first].to_vec(),
                    bytes[first..second].to_vec(),
                    bytes[second..].to_vec(),
                ];
                let read = read(pieces).await;
                let read: Vec<_> = read.into_iter().map(Result::unwrap).collect();
                assert_eq!(read, [&b"one"[..], b"", b"three"], "cut at {first} and {second}");
            }
        }
    }

    #[tokio::test]
    async fn each_message_says_whether_it_is_compressed() {
        let bytes_max = 1 << 20;
        let terms = Terms { bytes_max, encoding: Encoding::Gzip, ..terms() };
        let packed = |length: usize| {
            let mut packed = Vec::new();
            gzip::pack(&vec![7; length], &mut packed);
            let mut message = message(&packed);
            message[0] = COMPRESSED;
            message
        };
        let lengths = [3, 0, bytes_max, 5];
        let all = lengths.map(packed).concat();
        let all = [all, message(b"plain"), packed(bytes_max + 1)].concat();
        let mut messages = Messages::new(Full::new(Bytes::from(all)), terms);
        for length in lengths {
            assert_eq!(messages.next().await.unwrap().unwrap(), vec![7; length]);
        }
        assert_eq!(messages.next().await.unwrap().unwrap(), "plain");
        assert_eq!(messages.next().await, Err(ReadError::UnpackedTooLarge { bytes_max }));
    }

    #[tokio::test]
    async fn a_message_in_one_piece_is_not_copied() {
        let piece = Bytes::from(message(b"here"));
        let mut messages = Messages::new(Full::new(piece.clone()), terms());
        let read = messages.next().await.unwrap().unwrap();
        assert_eq!(read.as_ptr(), piece[PREFIX..].as_ptr());
    }

    #[test]
    fn a_message_that_was_put_together_leaves_nothing_behind() {
        let mut pieces = Pieces::default();
        for piece in [vec![1; 1000], vec![2; 100_000]] {
            pieces.add(piece.into());
        }
        assert_eq!(pieces.take(101_000).len(), 101_000);
        assert_eq!((pieces.len(), pieces.joined.capacity()), (0, 0));
    }

    /// A body that begins with these bytes, and never goes on.
    struct Endless(Option<Bytes>);

    impl Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            match self.0.take() {
                Some(bytes) => Poll::Ready(Some(Ok(http_body::Frame::data(bytes)))),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test]
    async fn messages_that_never_end_take_bounded_memory() {
        let (length, intake) = (16 << 20, Intake::new(1));
        let terms = Terms { bytes_max: length, intake, ..terms() };
        let count = 2 * RECEIVING_BYTES_MAX / length;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut begun = Vec::new();
        for _ in 0..count {
            let unfinished = Bytes::from(message(&vec![0; length])).slice(..PREFIX + length - 1);
            let mut messages = Messages::new(Endless(Some(unfinished)), terms.clone());
            assert!(messages.poll_next(&mut cx).is_pending());
            begun.push(messages);
            // Those that were given up are told, and let go.
            begun.retain_mut(|messages| messages.poll_next(&mut cx).is_pending());
            let kept: usize = begun.iter().map(|messages| messages.pieces.kept()).sum();
            assert!(kept <= RECEIVING_BYTES_MAX, "{kept}");
        }
        assert!(begun.len() > count / 4, "{}", begun.len());
    }

    #[tokio::test]
    async fn what_waits_keeps_no_more_than_it_is() {
        let read_into = Bytes::from(vec![0; 1 << 20]);
        let mut messages = Messages::new(Endless(Some(read_into.slice(..3))), terms());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(messages.poll_next(&mut cx).is_pending());
        assert!(read_into.is_unique(), "the buffer of the connection is free");
        assert_eq!(messages.pieces.len(), 3);
    }

    async fn refused(bytes: Vec<u8>) -> (Code, String) {
        let error = read(vec![bytes]).await.pop().unwrap().unwrap_err();
        let status = Status::from(error);
        (status.code, status.message.into_owned())
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_told_in_grpcs_words() {
        let large = message(&[0; MAX + 1]);
        let told = refused(large[..PREFIX].to_vec()).await;
        let text = "grpc: received message larger than max (65 vs. 64)";
        assert_eq!(told, (Code::ResourceExhausted, text.to_owned()));

        let told = refused(vec![1, 0, 0, 0, 0]).await;
        let text = "grpc: compressed flag set with identity or empty encoding";
        assert_eq!(told, (Code::Internal, text.to_owned()));

        let told = refused(vec![7, 0, 0, 0, 0]).await;
        assert_eq!(told, (Code::Internal, "grpc: received unexpected payload format 7".to_owned()));

        let told = refused(message(b"cut")[..7].to_vec()).await;
        assert_eq!(told, (Code::Internal, "unexpected EOF".to_owned()));
        assert_eq!(read(vec![message(b"cut")[..4].to_vec()]).await, []);
    }
}
