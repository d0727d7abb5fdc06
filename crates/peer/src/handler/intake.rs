//! Bodies of requests, within bounds of length and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

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

/// A body that is read piece by piece, each of which must come in time.
pub(super) struct Body {
    incoming: Incoming,
    patience: Duration,
}

impl Body {
    pub(super) fn new(incoming: Incoming, patience: Duration) -> Body {
        Body { incoming, patience }
    }

    /// The next piece; none at the end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            let frame = timeout(self.patience, self.incoming.frame()).await;
            let Some(frame) = frame.map_err(|_| ReadError::Slow)? else { return Ok(None) };
            // What is behind a body is of no interest.
            if let Ok(piece) = frame?.into_data() {
                return Ok(Some(piece));
            }
        }
    }

    /// All of it. `grown` is told how long it is by now, and may end this.
    pub(super) async fn all(
        mut self,
        bytes_max: usize,
        mut grown: impl FnMut(usize) -> Result<(), ReadError>,
    ) -> Result<Bytes, ReadError> {
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if bytes.len() + piece.len() > bytes_max {
                return Err(ReadError::TooLong);
            }
            bytes.extend_from_slice(&piece);
            grown(bytes.len())?;
        }
        Ok(bytes.freeze())
    }

    /// All of it, if it is short.
    pub(super) async fn short(self, bytes_max: usize) -> Result<Bytes, ReadError> {
        self.all(bytes_max, |_| Ok(())).await
    }
}
