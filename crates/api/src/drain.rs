//! Request bodies that are answered without being read.
//!
//! A response that overtakes its request makes some clients fail: over HTTP/2 it comes with a
//! reset, because the rest of the request is of no use, and curl reports an error when it has not
//! sent everything. So a short body that is on its way is drained first.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use grpc::RequestBody;
use tokio::time::timeout;

/// The bytes that are drained: as many as Go's server reads after a response.
const BYTES_MAX: usize = 256 << 10;
/// The time that draining may take.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Reads and discards the rest of a body, within bounds of bytes and time.
pub(crate) async fn drain<B: RequestBody>(mut body: B) {
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
    // On a timeout the client receives the response while it is still sending.
    let _ = timeout(TIME_MAX, read).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http_body_util::channel::Channel;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn draining_stops_at_the_byte_bound() {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let reading = tokio::spawn(drain(body));
        for _ in 0..4 {
            sender.send_data(Bytes::from(vec![0; BYTES_MAX / 4])).await.unwrap();
        }
        reading.await.unwrap();
        assert!(sender.send_data(Bytes::new()).await.is_err(), "no more is read");
    }

    #[tokio::test(start_paused = true)]
    async fn draining_stops_at_the_time_bound() {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        sender.send_data(Bytes::from_static(b"a")).await.unwrap();
        let started = tokio::time::Instant::now();
        drain(body).await;
        assert_eq!(started.elapsed(), TIME_MAX);
    }
}
