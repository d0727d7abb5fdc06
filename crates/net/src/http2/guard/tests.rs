use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::task::Waker;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const LIMITS: GuardLimits = GuardLimits {
    ping_min_time: Some(SECOND),
    first_frame_timeout: SECOND,
    headers_timeout: SECOND,
};

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const SETTINGS: u8 = 4;

/// A frame with a payload of sixes, which would be pings if they were taken for headers.
fn frame(kind: u8, flags: u8, stream: u32, length: u32) -> Vec<u8> {
    let header = Frame { length, kind, flags, stream }.encode();
    [&header[..], &vec![6; length as usize]].concat()
}

fn ping() -> Vec<u8> {
    frame(kind::PING, 0, 0, 8)
}

/// What every client says first.
fn greeting() -> Vec<u8> {
    [&PREFACE[..], &frame(SETTINGS, 0, 0, 6)].concat()
}

fn goaway(last: u8) -> Vec<u8> {
    let mut bytes = vec![0, 0, 22, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, 11];
    bytes.extend_from_slice(b"too_many_pings");
    bytes
}

/// A socket whose other end is the test.
#[derive(Debug)]
struct Socket {
    incoming: VecDeque<u8>,
    /// Whether the client has closed its side after that.
    ended: bool,
    sent: Vec<u8>,
    closed: bool,
    /// As many bytes go through at a time.
    portion: usize,
}

impl Socket {
    fn new(portion: usize) -> Self {
        let incoming = VecDeque::new();
        Self { incoming, ended: false, sent: Vec::new(), closed: false, portion }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.incoming.is_empty() {
            return if self.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let size = self.portion.min(buffer.remaining()).min(self.incoming.len());
        let portion: Vec<u8> = self.incoming.drain(..size).collect();
        buffer.put_slice(&portion);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let size = self.portion.min(bytes.len());
        self.sent.extend_from_slice(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let size = self.portion.min(all.len());
        self.sent.extend_from_slice(&all[..size]);
        Poll::Ready(Ok(size))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closed = true;
        Poll::Ready(Ok(()))
    }
}

fn guard(portion: usize) -> Http2Guard<Socket> {
    Http2Guard::new(Socket::new(portion), LIMITS)
}

/// Lets the client say something, and reads what there is to read: until there is no more for now, or until the error.
fn receive(guard: &mut Http2Guard<Socket>, bytes: &[u8]) -> (Vec<u8>, Option<io::ErrorKind>) {
    guard.stream.incoming.extend(bytes);
    let mut cx = Context::from_waker(Waker::noop());
    let (mut read, mut scratch) = (Vec::new(), [0; 100]);
    loop {
        let mut buffer = ReadBuf::new(&mut scratch);
        match Pin::new(&mut *guard).poll_read(&mut cx, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return (read, None),
            Poll::Ready(Ok(())) => read.extend_from_slice(buffer.filled()),
            Poll::Ready(Err(error)) => return (read, Some(error.kind())),
            Poll::Pending => return (read, None),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_go_through_as_they_are() {
    let said = [greeting(), frame(kind::HEADERS, END_HEADERS, 1, 40), ping(), ping()].concat();
    let answer = [frame(kind::HEADERS, END_HEADERS, 1, 9), frame(kind::DATA, 1, 1, 99)].concat();
    for portion in 1..=said.len() {
        let mut guard = guard(portion);
        assert_eq!(receive(&mut guard, &said), (said.clone(), None));
        guard.write_all(&answer).await.unwrap();
        assert_eq!(guard.stream.sent, answer);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_pings_end_the_connection_however_they_come() {
    // A call that is over, then four pings with no call running; the last is not handed on.
    let before = [greeting(), frame(kind::HEADERS, END_HEADERS | END_STREAM, 5, 20)].concat();
    let reset = frame(kind::RST_STREAM, 0, 5, 4);
    let said = [before, reset, ping(), ping(), ping(), ping()].concat();
    for portion in 1..=said.len() {
        let mut guard = guard(portion);
        guard.stream.ended = true;
        let (read, error) = receive(&mut guard, &said);
        assert_eq!(error, Some(io::ErrorKind::ConnectionAborted), "in portions of {portion}");
        assert!(said.starts_with(&read) && read.len() < said.len());
        assert_eq!(guard.stream.sent, goaway(5));
        assert!(guard.stream.closed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_frame_waits_for_the_end_of_another() {
    // What h2 has to write: a block of two frames, then a ping.
    let block =
        [frame(kind::HEADERS, 0, 1, 5), frame(kind::CONTINUATION, END_HEADERS, 1, 3)].concat();
    let said = [greeting(), ping().repeat(5)].concat();
    let writing = [block.clone(), ping()].concat();
    let boundaries = [0, block.len(), writing.len()];
    for portion in [1, 2, 7, 1000] {
        for written in 0..=writing.len() {
            let mut guard = guard(portion);
            guard.stream.ended = true;
            guard.write_all(&writing[..written]).await.unwrap();
            let (_, error) = receive(&mut guard, &said);
            let end = boundaries.into_iter().find(|end| *end >= written).unwrap();
            // At a boundary it is over at once; else the rest of the frame is awaited.
            assert_eq!(error.is_some(), end == written, "{portion} {written}");
            if error.is_none() {
                let error = guard.write_all(&writing[written..]).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            }
            assert_eq!(guard.stream.sent, [&writing[..end], &goaway(0)].concat());
            assert!(guard.stream.closed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_last_frame_is_not_sent() {
    let mut guard = guard(1000);
    let (_, error) = receive(&mut guard, &[greeting(), ping().repeat(4)].concat());
    assert_eq!(error, None, "the client has not closed yet");
    guard.write_all(&ping()).await.unwrap();
    let (first, second) = (ping(), ping());
    let slices = [IoSlice::new(&[]), IoSlice::new(&first), IoSlice::new(&second)];
    assert_eq!(guard.write_vectored(&slices).await.unwrap(), first.len());
    assert_eq!(guard.stream.sent, goaway(0));

    // What the client still says is thrown away, until it closes.
    assert_eq!(receive(&mut guard, &ping().repeat(1000)), (vec![], None));
    guard.stream.ended = true;
    let aborted = Some(io::ErrorKind::ConnectionAborted);
    assert_eq!(receive(&mut guard, &[]), (vec![], aborted));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stays_is_left() {
    let mut guard = guard(1000);
    assert_eq!(receive(&mut guard, &[greeting(), ping().repeat(4)].concat()).1, None);
    let start = Instant::now();
    let error = guard.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    assert!(start.elapsed() >= SECOND && start.elapsed() < 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_call_allows_pings_at_the_least_interval() {
    let mut guard = guard(1000);
    receive(&mut guard, &[greeting(), frame(kind::HEADERS, END_HEADERS, 1, 20)].concat());
    for _ in 0..10 {
        assert_eq!(receive(&mut guard, &ping()), (ping(), None));
        tokio::time::advance(SECOND).await;
    }
    // The call ends: from now on these are too many. The first is free, for a response was sent.
    guard.write_all(&frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, 4)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(receive(&mut guard, &ping()), (ping(), None));
        tokio::time::advance(SECOND).await;
    }
    assert_eq!(receive(&mut guard, &ping()), (vec![], None));
    assert!(guard.stream.sent.ends_with(&goaway(1)));
}

#[tokio::test(start_paused = true)]
async fn responses_are_seen_in_vectored_writes() {
    for portion in [1, 5, 1000] {
        let mut guard = guard(portion);
        receive(&mut guard, &greeting());
        for _ in 0..10 {
            assert_eq!(receive(&mut guard, &ping()), (ping(), None));
            assert_eq!(receive(&mut guard, &ping()), (ping(), None));
            let data = frame(kind::DATA, 0, 1, 30);
            let (mut head, mut tail) = data.split_at(9);
            while !tail.is_empty() {
                let slices = [IoSlice::new(head), IoSlice::new(tail)];
                let size = guard.write_vectored(&slices).await.unwrap();
                let (of_head, of_tail) = (size.min(head.len()), size.saturating_sub(head.len()));
                (head, tail) = (&head[of_head..], &tail[of_tail..]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_our_ping_is_no_ping() {
    let mut guard = guard(1000);
    let said = [greeting(), frame(kind::PING, 1, 0, 8).repeat(100)].concat();
    assert_eq!(receive(&mut guard, &said), (said.clone(), None));
}

/// When reading fails for having waited too long, after the client has said this.
async fn cut_after(guard: &mut Http2Guard<Socket>, bytes: &[u8]) -> Option<Duration> {
    let start = Instant::now();
    assert_eq!(receive(guard, bytes), (bytes.to_vec(), None));
    let read = poll_fn(|cx| {
        let mut scratch = [0; 1];
        Pin::new(&mut *guard).poll_read(cx, &mut ReadBuf::new(&mut scratch))
    });
    let result = tokio::time::timeout(100 * SECOND, read).await.ok()?;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    Some(start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn the_first_frame_must_come_in_time() {
    let greeting = greeting();
    for length in 0..=greeting.len() {
        let cut = cut_after(&mut guard(1000), &greeting[..length]).await;
        // With the header of the frame it is there; its payload is of no concern.
        assert_eq!(cut.is_some(), length < PREFACE.len() + 9, "{length}");
        assert!(cut.is_none_or(|after| after < 2 * SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn headers_that_have_begun_must_end_in_time() {
    let block =
        [frame(kind::HEADERS, 0, 1, 5), frame(kind::CONTINUATION, END_HEADERS, 1, 3)].concat();
    for length in 0..=block.len() {
        let said = [&greeting(), &block[..length]].concat();
        let cut = cut_after(&mut guard(1000), &said).await;
        assert_eq!(cut.is_some(), (9..block.len()).contains(&length), "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_block_of_headers_has_its_own_time() {
    let block = frame(kind::HEADERS, END_HEADERS, 1, 5);
    let mut guard = guard(1000);
    receive(&mut guard, &[&greeting(), &block[..12]].concat());
    tokio::time::advance(SECOND / 2).await;
    // The first ends and the next begins.
    let more = [&block[12..], &block[..12]].concat();
    assert_eq!(receive(&mut guard, &more), (more.clone(), None));
    tokio::time::advance(SECOND * 3 / 4).await;
    assert_eq!(receive(&mut guard, &block[12..]), (block[12..].to_vec(), None));
    assert_eq!(cut_after(&mut guard, &ping()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_trickle_of_headers_gets_no_more_time() {
    let mut guard = guard(1000);
    let said = [greeting(), frame(kind::HEADERS, 0, 1, 1)].concat();
    receive(&mut guard, &said);
    let trickle = frame(kind::CONTINUATION, 0, 1, 1);
    tokio::time::advance(SECOND * 3 / 4).await;
    assert_eq!(receive(&mut guard, &trickle), (trickle.clone(), None));
    let left = cut_after(&mut guard, &trickle).await.unwrap();
    assert!(left <= SECOND / 2, "{left:?}");
}
