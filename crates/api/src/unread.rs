//! Bodies of requests that are answered without being looked at.
//!
//! An answer that overtakes its request makes some clients give up: over HTTP/2 it comes with a reset, since the rest of the request is of no use, and curl takes that for a failure when
//! it has not sent everything. So what is short and on its way is let come in first.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::timeout;

use crate::grpc::RequestBody;

/// How much is let come in: what Go's server would read after an answer.
const BYTES_MAX: usize = 256 << 10;
/// How long that may take.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Reads what is left of a body, within bounds, and forgets it.
pub(crate) async fn discard<B: RequestBody>(mut body: B) {
    let mut left = BYTES_MAX;
    let read = poll_fn(|cx| {
        while left > 0 && !body.is_end_stream() {
            match ready!(Pin::new(&mut body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let length = frame.data_ref().map_or(0, bytes::Bytes::len);
                    left = left.saturating_sub(length);
                }
                Some(Err(_)) | None => break,
            }
        }
        Poll::Ready(())
    });
    // Whoever takes longer hears the answer meanwhile.
    let _ = timeout(TIME_MAX, read).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::channel::Channel;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_within_bounds() {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let reading = tokio::spawn(discard(body));
        for _ in 0..4 {
            sender.send_data(Bytes::from(vec![0; BYTES_MAX / 4])).await.unwrap();
        }
        reading.await.unwrap();
        assert!(sender.send_data(Bytes::new()).await.is_err(), "no more is read");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_not_waited_for_without_end() {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        sender.send_data(Bytes::from_static(b"a")).await.unwrap();
        let begun = tokio::time::Instant::now();
        discard(body).await;
        assert_eq!(begun.elapsed(), TIME_MAX);
    }
}
