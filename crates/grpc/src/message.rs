//! Length-prefixed messages: reading them from a request body, and framing them.
//!
//! ```text
//!   00            00 00 00 05     0a 03 66 6f 6f
//!   uncompressed  length          RangeRequest { key: "foo" }
//! ```
//!
//! A message that arrives in one piece, which is nearly every message, is handed on without a copy.
//! A message in several pieces is joined first, and decompressed if needed (`compression`). Nothing
//! is read ahead: bytes that the caller has not requested stay with the connection, whose
//! flow-control window then closes.
//!
//! The error texts are those of grpc-go ([`ReadError`]).

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body::Body;
use net::BoxError;

use crate::compression::{COMPRESSED, Decompression, Encoding, gzip};
use crate::receive_budget::{ReceiveError, Receiving};
use crate::status::{Code, Status};
use crate::transport::Transport;

/// The length of the prefix of a message: the compressed flag and the length.
pub const PREFIX: usize = 5;

/// The longest message that is sent: 2^31-1 bytes, as in etcd.
const SEND_MAX: usize = i32::MAX as usize;

/// The body of a request, in pieces as they were received.
pub trait RequestBody:
    Body<Data = Bytes, Error: Display + Into<BoxError>> + Send + Unpin + 'static
{
}

impl<B> RequestBody for B where
    B: Body<Data = Bytes, Error: Display + Into<BoxError>> + Send + Unpin + 'static
{
}

/// The messages of a request body.
#[derive(Debug)]
pub(crate) struct Messages<B> {
    body: B,
    /// Received bytes of the next messages.
    pieces: Pieces,
    pub(crate) transport: Arc<Transport>,
    /// The encoding of compressed messages.
    encoding: Encoding,
    receiving: Receiving,
    decompression: Option<Decompression>,
}

impl<B: RequestBody> Messages<B> {
    pub(crate) fn new(body: B, transport: Arc<Transport>, encoding: Encoding) -> Messages<B> {
        let (pieces, receiving) = (Pieces::default(), Receiving::default());
        Messages { body, pieces, transport, encoding, receiving, decompression: None }
    }

    /// Receives the next message; none if the client has sent its last.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next message.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        loop {
            if self.decompression.is_some() {
                return self.poll_decompressed(cx).map_ok(Some);
            }
            if let Some((flag, message)) = self.take()? {
                self.receiving.finish();
                match self.decompress(flag, message) {
                    Some(message) => return Poll::Ready(message.map(Some)),
                    None => continue,
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                let error = ready!(self.poll_wait(cx));
                return Poll::Ready(Err(error.into()));
            };
            match frame {
                // Trailers of a request have no meaning in gRPC.
                Some(Ok(frame)) => {
                    frame.into_data().into_iter().for_each(|data| self.pieces.add(data));
                }
                Some(Err(error)) => return Poll::Ready(Err(canceled(&error))),
                // Compat: as in grpc-go, an end within the prefix is a regular end.
                None if self.pieces.len() < PREFIX => return Poll::Ready(Ok(None)),
                None => return Poll::Ready(Err(ReadError::UnexpectedEof)),
            }
        }
    }

    /// Waits for the rest of a message within the receive budget.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<ReceiveError> {
        // The received piece shares the connection's read buffer, which may be much larger and must
        // not be kept for a few bytes.
        self.pieces.join();
        self.receiving.poll_wait(&self.transport.receive_budget, self.pieces.kept_bytes(), cx)
    }

    /// Returns the decompressed message, or none if that takes longer.
    fn decompress(&mut self, flag: u8, message: Bytes) -> Option<Result<Bytes, ReadError>> {
        if flag != COMPRESSED {
            return Some(Ok(message));
        }
        let Transport { message_bytes_max, blocking, .. } = &*self.transport;
        let started = Decompression::start(&message, *message_bytes_max, blocking);
        started.map_err(|decompression| self.decompression = Some(decompression)).ok()
    }

    /// Waits for the decompression of a message, which counts as partially received meanwhile.
    fn poll_decompressed(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ReadError>> {
        let Some(decompression) = &mut self.decompression else { return Poll::Pending };
        let decompressed = match decompression.poll(cx) {
            Poll::Ready(decompressed) => decompressed,
            Poll::Pending => {
                let held_bytes = decompression.kept_bytes();
                let budget = &self.transport.receive_budget;
                Err(ready!(self.receiving.poll_wait(budget, held_bytes, cx)).into())
            }
        };
        self.decompression = None;
        self.receiving.finish();
        Poll::Ready(decompressed)
    }

    /// Takes a complete message with its compressed flag, if there is one.
    fn take(&mut self) -> Result<Option<(u8, Bytes)>, ReadError> {
        let Some([flag, length @ ..]) = self.pieces.peek() else { return Ok(None) };
        let length = u32::from_be_bytes(length) as usize;
        let bytes_max = self.transport.message_bytes_max;
        if length > bytes_max {
            return Err(ReadError::TooLarge { length, bytes_max });
        }
        match (flag, self.encoding) {
            (0, _) | (COMPRESSED, Encoding::Gzip) => {}
            (COMPRESSED, Encoding::Identity) => return Err(ReadError::CompressedWithoutEncoding),
            (flag, _) => return Err(ReadError::Format(flag)),
        }
        if self.pieces.len() < PREFIX + length {
            // Nothing is reserved for bytes that may never arrive: the buffer grows as they do.
            return Ok(None);
        }
        self.pieces.skip(PREFIX);
        Ok(Some((flag, self.pieces.take(length))))
    }
}

/// The status for a request with an unknown `grpc-encoding`.
pub(crate) fn no_decompressor(encoding: &str) -> Status {
    let text = format!("grpc: Decompressor is not installed for grpc-encoding {encoding:?}");
    Status::new(Code::Unimplemented, text)
}

/// The reason why a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    /// The message is longer than the limit.
    #[error("grpc: received message larger than max ({length} vs. {bytes_max})")]
    TooLarge { length: usize, bytes_max: usize },
    /// The decompressed message is longer than the limit.
    #[error("grpc: received message after decompression larger than max {bytes_max}")]
    DecompressedTooLarge { bytes_max: usize },
    /// The compressed message has no valid gzip header.
    #[error("grpc: failed to decompress the message: {0}")]
    NotGzip(gzip::Error),
    /// The compressed message is corrupt.
    #[error("grpc: failed to read decompressed data: {0}")]
    CorruptGzip(gzip::Error),
    /// The message is flagged as compressed, but the request has no `grpc-encoding`.
    #[error("grpc: compressed flag set with identity or empty encoding")]
    CompressedWithoutEncoding,
    /// The compressed flag is neither 0 nor 1.
    #[error("grpc: received unexpected payload format {0}")]
    Format(u8),
    /// The body ended within a message.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// The rest of the message is not awaited.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The client has disconnected or its connection was dropped. The status is only counted in
    /// metrics.
    #[error("context canceled")]
    Canceled,
}

/// The status as a stream reports it.
impl From<ReadError> for Status {
    fn from(error: ReadError) -> Status {
        let code = match error {
            ReadError::TooLarge { .. } | ReadError::DecompressedTooLarge { .. } => {
                Code::ResourceExhausted
            }
            ReadError::NotGzip(_) | ReadError::CorruptGzip(_) => Code::Internal,
            ReadError::CompressedWithoutEncoding
            | ReadError::Format(_)
            | ReadError::UnexpectedEof => Code::Internal,
            ReadError::Receive(error) => return error.into(),
            ReadError::Canceled => return Status::CANCELED,
        };
        Status::new(code, error.to_string())
    }
}

fn canceled(error: &dyn Display) -> ReadError {
    tracing::debug!(%error, "the body of a request ended early");
    ReadError::Canceled
}

/// Received bytes: a single piece as it arrived, or several joined. At most one of the two fields
/// is not empty.
#[derive(Debug, Default)]
struct Pieces {
    first: Bytes,
    joined: BytesMut,
}

impl Pieces {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    /// The memory that is held for the joined bytes.
    fn kept_bytes(&self) -> usize {
        if self.len() == 0 { 0 } else { self.joined.capacity() }
    }

    /// Adds received bytes. Only a piece that does not end with a message is ever copied.
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

    /// Returns the prefix of the next message.
    fn peek(&self) -> Option<[u8; PREFIX]> {
        self.bytes().first_chunk().copied()
    }

    fn skip(&mut self, count: usize) {
        if self.first.is_empty() { self.joined.advance(count) } else { self.first.advance(count) }
    }

    fn take(&mut self, count: usize) -> Bytes {
        match self.first.is_empty() {
            // The last bytes take the buffer with them: the memory of one message must not stay for
            // the life of a stream.
            true if self.joined.len() == count => std::mem::take(&mut self.joined).freeze(),
            true => self.joined.split_to(count).freeze(),
            false => self.first.split_to(count),
        }
    }
}

/// Appends a message with its prefix. `write` appends the message.
pub(crate) fn frame(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Result<(), Status> {
    let start = out.len();
    out.put_bytes(0, PREFIX);
    write(out);
    put_length(out, start)
}

/// Returns an encoded message with its prefix.
///
/// # Errors
/// The message is too long.
pub fn frame_message(message: &[u8]) -> Result<Bytes, Status> {
    let mut out = BytesMut::with_capacity(PREFIX + message.len());
    frame(&mut out, |out| out.put_slice(message))?;
    Ok(out.freeze())
}

/// Fills in the prefix at `start` for the message that follows it, up to the end of the buffer.
///
/// # Errors
/// The message is too long. It is then removed from the buffer.
pub(crate) fn put_length(out: &mut BytesMut, start: usize) -> Result<(), Status> {
    let length = out.len() - start - PREFIX;
    if length > SEND_MAX {
        out.truncate(start);
        let text =
            format!("grpc: trying to send message larger than max ({length} vs. {SEND_MAX})");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let length = u32::try_from(length).expect("SEND_MAX is 2^31-1");
    out[start + 1..start + PREFIX].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Reads the messages of a body that arrives in these pieces, up to the first error. A piece that
/// is empty is a moment in which nothing has arrived.
#[cfg(fuzzing)]
pub async fn read_pieces(
    pieces: Vec<Bytes>,
    transport: Arc<Transport>,
    is_gzip: bool,
) -> (Vec<Bytes>, Option<Status>) {
    struct PiecewiseBody(std::vec::IntoIter<Bytes>);

    impl Body for PiecewiseBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            match self.0.next() {
                Some(nothing) if nothing.is_empty() => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                piece => Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece)))),
            }
        }
    }

    let encoding = if is_gzip { Encoding::Gzip } else { Encoding::Identity };
    let mut messages = Messages::new(PiecewiseBody(pieces.into_iter()), transport, encoding);
    let mut all = Vec::new();
    loop {
        match messages.next().await {
            Ok(Some(message)) => all.push(message),
            Ok(None) => return (all, None),
            Err(error) => return (all, Some(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;
    use crate::receive_budget::RECEIVE_BYTES_MAX;
    use crate::transport::tests::transport;

    const MAX: usize = 64;

    fn messages<B: RequestBody>(body: B) -> Messages<B> {
        Messages::new(body, transport(MAX), Encoding::Identity)
    }

    fn message(payload: &[u8]) -> Vec<u8> {
        frame_message(payload).unwrap().to_vec()
    }

    /// Reads all messages of a body that arrives in pieces.
    async fn read(pieces: Vec<Vec<u8>>) -> Vec<Result<Bytes, ReadError>> {
        let frames = pieces.into_iter().map(|piece| {
            Ok::<_, std::convert::Infallible>(http_body::Frame::data(Bytes::from(piece)))
        });
        let mut messages = messages(StreamBody::new(futures_util::stream::iter(frames)));
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

    #[tokio::test]
    async fn messages_are_joined_wherever_they_are_cut() {
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
    async fn each_message_has_its_own_compressed_flag() {
        let bytes_max = 1 << 20;
        let compressed = |length: usize| {
            let mut compressed = Vec::new();
            gzip::compress(&vec![7; length], &mut compressed);
            let mut message = message(&compressed);
            message[0] = COMPRESSED;
            message
        };
        let lengths = [3, 0, bytes_max, 5];
        let all = lengths.map(compressed).concat();
        let all = [all, message(b"plain"), compressed(bytes_max + 1)].concat();
        let body = Full::new(Bytes::from(all));
        let mut messages = Messages::new(body, transport(bytes_max), Encoding::Gzip);
        for length in lengths {
            assert_eq!(messages.next().await.unwrap().unwrap(), vec![7; length]);
        }
        assert_eq!(messages.next().await.unwrap().unwrap(), "plain");
        assert_eq!(messages.next().await, Err(ReadError::DecompressedTooLarge { bytes_max }));
    }

    #[tokio::test]
    async fn a_message_in_one_piece_is_not_copied() {
        let piece = Bytes::from(message(b"here"));
        let mut messages = messages(Full::new(piece.clone()));
        let read = messages.next().await.unwrap().unwrap();
        assert_eq!(read.as_ptr(), piece[PREFIX..].as_ptr());
    }

    #[test]
    fn a_joined_message_keeps_no_capacity() {
        let mut pieces = Pieces::default();
        for piece in [vec![1; 1000], vec![2; 100_000]] {
            pieces.add(piece.into());
        }
        assert_eq!(pieces.take(101_000).len(), 101_000);
        assert_eq!((pieces.len(), pieces.joined.capacity()), (0, 0));
    }

    /// A body that starts with these bytes and never ends.
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
        let length = 16 << 20;
        let transport = transport(length);
        let count = 2 * RECEIVE_BYTES_MAX / length;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut waiting = Vec::new();
        for _ in 0..count {
            let partial = Bytes::from(message(&vec![0; length])).slice(..PREFIX + length - 1);
            let (body, transport) = (Endless(Some(partial)), Arc::clone(&transport));
            let mut messages = Messages::new(body, transport, Encoding::Identity);
            assert!(messages.poll_next(&mut cx).is_pending());
            waiting.push(messages);
            // Evicted messages end with an error and are dropped.
            waiting.retain_mut(|messages| messages.poll_next(&mut cx).is_pending());
            let kept: usize = waiting.iter().map(|messages| messages.pieces.kept_bytes()).sum();
            assert!(kept <= RECEIVE_BYTES_MAX, "{kept}");
        }
        assert!(waiting.len() > count / 4, "{}", waiting.len());
    }

    #[tokio::test]
    async fn a_waiting_message_does_not_keep_the_read_buffer() {
        let read_buffer = Bytes::from(vec![0; 1 << 20]);
        let mut messages = messages(Endless(Some(read_buffer.slice(..3))));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(messages.poll_next(&mut cx).is_pending());
        assert!(read_buffer.is_unique());
        assert_eq!(messages.pieces.len(), 3);
    }

    async fn status_of(bytes: Vec<u8>) -> (Code, String) {
        let error = read(vec![bytes]).await.pop().unwrap().unwrap_err();
        let status = Status::from(error);
        (status.code, status.message.into_owned())
    }

    #[tokio::test]
    async fn malformed_messages_are_refused_with_the_texts_of_grpc_go() {
        let large = message(&[0; MAX + 1]);
        let status = status_of(large[..PREFIX].to_vec()).await;
        let text = "grpc: received message larger than max (65 vs. 64)";
        assert_eq!(status, (Code::ResourceExhausted, text.to_owned()));

        let status = status_of(vec![1, 0, 0, 0, 0]).await;
        let text = "grpc: compressed flag set with identity or empty encoding";
        assert_eq!(status, (Code::Internal, text.to_owned()));

        let status = status_of(vec![7, 0, 0, 0, 0]).await;
        let text = "grpc: received unexpected payload format 7";
        assert_eq!(status, (Code::Internal, text.to_owned()));

        let status = status_of(message(b"cut")[..7].to_vec()).await;
        assert_eq!(status, (Code::Internal, "unexpected EOF".to_owned()));
        assert_eq!(read(vec![message(b"cut")[..4].to_vec()]).await, []);
    }
}
