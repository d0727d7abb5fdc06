//! Request bodies that are answered without being read, or read whole.
//!
//! A response that overtakes its request makes some clients fail: over HTTP/2 it comes with a
//! reset, because the rest of the request is of no use, and curl reports an error when it has not
//! sent everything. So a short body that is in flight is drained first.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use grpc::RequestBody;
use http::header::{CONNECTION, EXPECT, HeaderValue};
use http::request::Parts;
use http::{Response, Version};
use tokio::time::timeout;

/// The bytes that are drained: as many as Go's server reads after a response.
const BYTES_MAX: usize = 256 << 10;
/// The time that draining may take.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Drains the body of a request that is answered without it.
///
/// Compat: as in Go, a client that waits for `100 Continue` does not get it, and a response that
/// leaves a body unread announces the end of the connection.
pub(crate) async fn drain_before<B: RequestBody, R>(
    head: &Parts,
    body: B,
    response: &mut Response<R>,
) {
    let is_awaited = head.headers.contains_key(EXPECT);
    let is_drained = body.is_end_stream() || (!is_awaited && drain(body).await);
    if !is_drained && head.version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Reads and discards the rest of a body, within bounds of bytes and time. Returns whether that was
/// all of it.
pub(crate) async fn drain<B: RequestBody>(mut body: B) -> bool {
    let mut left = BYTES_MAX;
    let read = poll_fn(|cx| {
        while left > 0 && !body.is_end_stream() {
            match ready!(Pin::new(&mut body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let length = frame.data_ref().map_or(0, bytes::Bytes::len);
                    left = left.saturating_sub(length);
                }
                Some(Err(_)) => return Poll::Ready(false),
                None => return Poll::Ready(true),
            }
        }
        Poll::Ready(body.is_end_stream())
    });
    // On a timeout the client receives the response while it is still sending.
    timeout(TIME_MAX, read).await.unwrap_or(false)
}

/// Reads a body up to a bound of bytes, within [`TIME_MAX`] for each part. Returns what was read,
/// and the body with the rest.
pub(crate) async fn collect<B: RequestBody>(mut body: B, bytes_max: usize) -> (Vec<u8>, B) {
    let mut content = Vec::new();
    while content.len() < bytes_max && !body.is_end_stream() {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let Ok(Some(Ok(frame))) = timeout(TIME_MAX, frame).await else { break };
        let part = frame.data_ref().map_or(&[][..], |part| part);
        content.extend_from_slice(&part[..part.len().min(bytes_max - content.len())]);
    }
    (content, body)
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
        assert!(!reading.await.unwrap());
        assert!(sender.send_data(Bytes::new()).await.is_err(), "no more is read");
    }

    #[tokio::test(start_paused = true)]
    async fn draining_stops_at_the_time_bound() {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        sender.send_data(Bytes::from_static(b"a")).await.unwrap();
        let started = tokio::time::Instant::now();
        assert!(!drain(body).await);
        assert_eq!(started.elapsed(), TIME_MAX);
    }

    /// Answers a request whose body has one part so far. Returns the `Connection` header.
    async fn connection_header(request: http::request::Builder, is_whole: bool) -> Option<String> {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        sender.send_data(Bytes::from_static(b"a")).await.unwrap();
        let _open = (!is_whole).then_some(sender);
        let (head, ()) = request.body(()).unwrap().into_parts();
        let mut response = Response::new(());
        drain_before(&head, body, &mut response).await;
        response.headers().get(CONNECTION).map(|value| value.to_str().unwrap().to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_leaves_a_body_unread_ends_an_http1_connection() {
        let close = Some("close".to_owned());
        let request = http::Request::builder;
        assert_eq!(connection_header(request(), true).await, None);
        assert_eq!(connection_header(request(), false).await, close);
        assert_eq!(connection_header(request().version(Version::HTTP_2), false).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_for_100_continue_is_not_drained() {
        let started = tokio::time::Instant::now();
        let request = http::Request::builder().header(EXPECT, "100-continue");
        assert_eq!(connection_header(request, false).await.as_deref(), Some("close"));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_collected_up_to_a_bound() {
        for (bytes_max, expected) in [(0, ""), (3, "abc"), (9, "abcdef")] {
            let (mut sender, body) = Channel::<Bytes, Infallible>::new(2);
            sender.send_data(Bytes::from_static(b"abcd")).await.unwrap();
            sender.send_data(Bytes::from_static(b"ef")).await.unwrap();
            drop(sender);
            assert_eq!(collect(body, bytes_max).await.0, expected.as_bytes());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_not_waited_for() {
        let (_sender, body) = Channel::<Bytes, Infallible>::new(1);
        assert_eq!(collect(body, 9).await.0, b"");
    }
}
