//! Bodies of requests, within bounds of length and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

/// Why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("unexpected EOF")]
    Broken(#[from] hyper::Error),
    #[error("i/o timeout")]
    Slow,
    #[error("http: request body too large")]
    TooLong,
    /// Others need the room.
    #[error("too much is being received")]
    Crowded,
}

/// What has to come at least in the time that a piece may take: whoever sends a byte now and then, so as not to be late, is as good as gone.
const BYTES_MIN: usize = 16 << 10;

/// A body that is read piece by piece, each of which must come in time.
pub(super) struct Body {
    incoming: Incoming,
    patience: Duration,
    pace: Pace,
}

/// How much came in the time that was waited for it.
#[derive(Debug, Default)]
struct Pace {
    waited: Duration,
    bytes: usize,
}

impl Pace {
    /// So much has come, after so long. Whether that is too slow.
    fn is_slow(&mut self, waited: Duration, bytes: usize, patience: Duration) -> bool {
        self.waited += waited;
        self.bytes += bytes;
        if self.waited < patience {
            return false;
        }
        let is_slow = self.bytes < BYTES_MIN;
        *self = Pace::default();
        is_slow
    }
}

impl Body {
    pub(super) fn new(incoming: Incoming, patience: Duration) -> Body {
        Body { incoming, patience, pace: Pace::default() }
    }

    /// The next piece; none at the end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            let begun = Instant::now();
            let frame = timeout(self.patience, self.incoming.frame()).await;
            let Some(frame) = frame.map_err(|_| ReadError::Slow)? else { return Ok(None) };
            // What is behind a body is of no interest.
            let piece = frame?.into_data().unwrap_or_default();
            if self.pace.is_slow(begun.elapsed(), piece.len(), self.patience) {
                return Err(ReadError::Slow);
            }
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    /// All of it. `grown` is told how long it is by now.
    pub(super) async fn all(
        mut self,
        bytes_max: usize,
        mut grown: impl FnMut(usize),
    ) -> Result<Bytes, ReadError> {
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if bytes.len() + piece.len() > bytes_max {
                return Err(ReadError::TooLong);
            }
            bytes.extend_from_slice(&piece);
            grown(bytes.len());
        }
        Ok(bytes.freeze())
    }

    /// All of it, if it is short.
    pub(super) async fn short(self, bytes_max: usize) -> Result<Bytes, ReadError> {
        self.all(bytes_max, |_| {}).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_next_to_nothing_is_slow_who_sends_little_is_not() {
        let (patience, second) = (Duration::from_secs(5), Duration::from_secs(1));
        let mut pace = Pace::default();
        let slow = (1..).find(|_| pace.is_slow(second, 1, patience));
        assert_eq!(slow, Some(5));
        let mut pace = Pace::default();
        assert!((0..100).all(|_| !pace.is_slow(second, BYTES_MIN / 5 + 1, patience)));
        let mut pace = Pace::default();
        assert!((0..100).all(|_| !pace.is_slow(Duration::ZERO, 1, patience)), "nobody waited");
    }
}
