//! Reads request bodies within limits of size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

/// The reason a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("unexpected EOF")]
    Broken(#[from] hyper::Error),
    #[error("i/o timeout")]
    Slow,
    #[error("http: request body too large")]
    TooLong,
    /// The limit on bytes of messages in reception is exceeded.
    #[error("too many bytes of messages are being received")]
    Evicted,
}

/// The least bytes within the time that a chunk may take: a client that sends single bytes to avoid
/// the timeout is cut off.
const BYTES_MIN: usize = 16 << 10;

/// Reads a body chunk by chunk, each within a timeout.
pub(super) struct BodyReader {
    incoming: Incoming,
    time_limit: Duration,
    rate: ReceiveRate,
}

/// The bytes received within the time spent waiting.
#[derive(Debug, Default)]
struct ReceiveRate {
    waited: Duration,
    bytes: usize,
}

impl ReceiveRate {
    /// Records received bytes and the time spent waiting. Returns whether the rate is too low.
    fn is_too_slow(&mut self, waited: Duration, bytes: usize, time_limit: Duration) -> bool {
        self.waited += waited;
        self.bytes += bytes;
        if self.waited < time_limit {
            return false;
        }
        let is_too_slow = self.bytes < BYTES_MIN;
        *self = ReceiveRate::default();
        is_too_slow
    }
}

impl BodyReader {
    pub(super) fn new(incoming: Incoming, time_limit: Duration) -> BodyReader {
        BodyReader { incoming, time_limit, rate: ReceiveRate::default() }
    }

    /// Reads the next chunk; `None` at the end.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            let started = Instant::now();
            let frame = timeout(self.time_limit, self.incoming.frame()).await;
            let Some(frame) = frame.map_err(|_| ReadError::Slow)? else { return Ok(None) };
            // Trailers are ignored.
            let chunk = frame?.into_data().unwrap_or_default();
            if self.rate.is_too_slow(started.elapsed(), chunk.len(), self.time_limit) {
                return Err(ReadError::Slow);
            }
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
    }

    /// Reads the whole body. Calls `grown` with its size after each chunk.
    pub(super) async fn read_all(
        mut self,
        bytes_max: usize,
        mut grown: impl FnMut(usize),
    ) -> Result<Bytes, ReadError> {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.next_chunk().await? {
            if bytes.len() + chunk.len() > bytes_max {
                return Err(ReadError::TooLong);
            }
            bytes.extend_from_slice(&chunk);
            grown(bytes.len());
        }
        Ok(bytes.freeze())
    }

    /// Reads the whole body of a short request.
    pub(super) async fn read_short(self, bytes_max: usize) -> Result<Bytes, ReadError> {
        self.read_all(bytes_max, |_| {}).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rate_below_the_minimum_is_too_slow() {
        let (time_limit, second) = (Duration::from_secs(5), Duration::from_secs(1));
        let mut rate = ReceiveRate::default();
        let slow = (1..).find(|_| rate.is_too_slow(second, 1, time_limit));
        assert_eq!(slow, Some(5));
        let mut rate = ReceiveRate::default();
        assert!((0..100).all(|_| !rate.is_too_slow(second, BYTES_MIN / 5 + 1, time_limit)));
        let mut rate = ReceiveRate::default();
        assert!(
            (0..100).all(|_| !rate.is_too_slow(Duration::ZERO, 1, time_limit)),
            "without waiting nothing is too slow"
        );
    }
}
