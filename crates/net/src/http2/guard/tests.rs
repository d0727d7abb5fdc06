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
const PADDED: u8 = 8;
const SETTINGS: u8 = 4;

/// A frame with a payload of sixes, which would be PINGs if parsed as headers.
fn frame(kind: u8, flags: u8, stream: u32, length: u32) -> Vec<u8> {
    let header = Frame { length, kind, flags, stream }.encode();
    [&header[..], &vec![6; length as usize]].concat()
}

fn ping() -> Vec<u8> {
    frame(kind::PING, 0, 0, 8)
}

/// The first bytes of every client.
fn preface_and_settings() -> Vec<u8> {
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
    /// Whether the client closes its side after these bytes.
    ended: bool,
    sent: Vec<u8>,
    closed: bool,
    /// The number of bytes per read or write.
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

/// Sends bytes as the client and reads until nothing more is ready or an error occurs.
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
async fn bytes_pass_through_unchanged() {
    let input =
        [preface_and_settings(), frame(kind::HEADERS, END_HEADERS, 1, 40), ping(), ping()].concat();
    let answer = [frame(kind::HEADERS, END_HEADERS, 1, 9), frame(kind::DATA, 1, 1, 99)].concat();
    for portion in 1..=input.len() {
        let mut guard = guard(portion);
        assert_eq!(receive(&mut guard, &input), (input.clone(), None));
        guard.write_all(&answer).await.unwrap();
        assert_eq!(guard.stream.sent, answer);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_pings_end_the_connection_however_the_bytes_are_split() {
    // A call that is over, then four pings with no call in flight; the last one is not passed on.
    let before =
        [preface_and_settings(), frame(kind::HEADERS, END_HEADERS | END_STREAM, 5, 20)].concat();
    let reset = frame(kind::RST_STREAM, 0, 5, 4);
    let input = [before, reset, ping(), ping(), ping(), ping()].concat();
    for portion in 1..=input.len() {
        let mut guard = guard(portion);
        guard.stream.ended = true;
        let (read, error) = receive(&mut guard, &input);
        assert_eq!(error, Some(io::ErrorKind::ConnectionAborted), "in portions of {portion}");
        assert!(input.starts_with(&read) && read.len() < input.len());
        assert_eq!(guard.stream.sent, goaway(5));
        assert!(guard.stream.closed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_with_a_fragment_ends_the_connection_however_the_bytes_are_split() {
    // A block in two frames, the first of them padded: POST, http, and a literal path.
    let headers = Frame { length: 7, kind: kind::HEADERS, flags: PADDED, stream: 5 }.encode();
    let last = Frame { length: 3, kind: kind::CONTINUATION, flags: END_HEADERS, stream: 5 };
    let block = |path: [u8; 4]| {
        let [first, rest @ ..] = path;
        [&headers[..], &[1, 0x83, 0x86, 4, 4, first, 0], &last.encode(), &rest].concat()
    };
    let mut goaway = vec![0, 0, 25, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1];
    goaway.extend_from_slice(b"fragment in :path");
    for (path, expected) in [(*b"/a#b", &goaway[..]), (*b"/a?b", &[])] {
        let input = [preface_and_settings(), block(path)].concat();
        for portion in 1..=input.len() {
            let mut guard = guard(portion);
            guard.stream.ended = true;
            let (read, _) = receive(&mut guard, &input);
            assert_eq!(guard.stream.sent, expected, "in portions of {portion}");
            assert_eq!(read.len() < input.len(), !expected.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_goaway_waits_for_a_frame_boundary() {
    // h2 has two frames of a header block to write, then a ping.
    let block =
        [frame(kind::HEADERS, 0, 1, 5), frame(kind::CONTINUATION, END_HEADERS, 1, 3)].concat();
    let input = [preface_and_settings(), ping().repeat(5)].concat();
    let writing = [block.clone(), ping()].concat();
    let boundaries = [0, block.len(), writing.len()];
    for portion in [1, 2, 7, 1000] {
        for written in 0..=writing.len() {
            let mut guard = guard(portion);
            guard.stream.ended = true;
            guard.write_all(&writing[..written]).await.unwrap();
            let (_, error) = receive(&mut guard, &input);
            let end = boundaries.into_iter().find(|end| *end >= written).unwrap();
            // At a boundary the connection ends at once; otherwise the rest of the frame is
            // awaited.
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
async fn nothing_is_sent_after_the_goaway() {
    let mut guard = guard(1000);
    let (_, error) = receive(&mut guard, &[preface_and_settings(), ping().repeat(4)].concat());
    assert_eq!(error, None, "the client has not closed yet");
    guard.write_all(&ping()).await.unwrap();
    let (first, second) = (ping(), ping());
    let slices = [IoSlice::new(&[]), IoSlice::new(&first), IoSlice::new(&second)];
    assert_eq!(guard.write_vectored(&slices).await.unwrap(), first.len());
    assert_eq!(guard.stream.sent, goaway(0));

    // The client's bytes are discarded until it closes.
    assert_eq!(receive(&mut guard, &ping().repeat(1000)), (vec![], None));
    guard.stream.ended = true;
    let aborted = Some(io::ErrorKind::ConnectionAborted);
    assert_eq!(receive(&mut guard, &[]), (vec![], aborted));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_close_is_disconnected_after_the_linger() {
    let mut guard = guard(1000);
    assert_eq!(receive(&mut guard, &[preface_and_settings(), ping().repeat(4)].concat()).1, None);
    let start = Instant::now();
    let error = guard.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    assert!(start.elapsed() >= SECOND && start.elapsed() < 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn pings_at_min_time_are_allowed_during_a_call() {
    let mut guard = guard(1000);
    receive(
        &mut guard,
        &[preface_and_settings(), frame(kind::HEADERS, END_HEADERS, 1, 20)].concat(),
    );
    for _ in 0..10 {
        assert_eq!(receive(&mut guard, &ping()), (ping(), None));
        tokio::time::advance(SECOND).await;
    }
    // The call ends: from now on pings exceed the limit. The first is free, since a response was
    // sent.
    guard.write_all(&frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, 4)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(receive(&mut guard, &ping()), (ping(), None));
        tokio::time::advance(SECOND).await;
    }
    assert_eq!(receive(&mut guard, &ping()), (vec![], None));
    assert!(guard.stream.sent.ends_with(&goaway(1)));
}

#[tokio::test(start_paused = true)]
async fn responses_in_vectored_writes_clear_the_strikes() {
    for portion in [1, 5, 1000] {
        let mut guard = guard(portion);
        receive(&mut guard, &preface_and_settings());
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
async fn ping_acknowledgements_are_not_counted() {
    let mut guard = guard(1000);
    let input = [preface_and_settings(), frame(kind::PING, 1, 0, 8).repeat(100)].concat();
    assert_eq!(receive(&mut guard, &input), (input.clone(), None));
}

/// Sends bytes as the client and returns the time until reading times out.
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
async fn the_first_frame_has_a_deadline() {
    let opening = preface_and_settings();
    for length in 0..=opening.len() {
        let cut = cut_after(&mut guard(1000), &opening[..length]).await;
        // The header of the frame suffices, without its payload.
        assert_eq!(cut.is_some(), length < PREFACE.len() + 9, "{length}");
        assert!(cut.is_none_or(|after| after < 2 * SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_block_has_a_deadline() {
    let block =
        [frame(kind::HEADERS, 0, 1, 5), frame(kind::CONTINUATION, END_HEADERS, 1, 3)].concat();
    for length in 0..=block.len() {
        let input = [&preface_and_settings(), &block[..length]].concat();
        let cut = cut_after(&mut guard(1000), &input).await;
        assert_eq!(cut.is_some(), (9..block.len()).contains(&length), "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_header_block_has_its_own_deadline() {
    let block = frame(kind::HEADERS, END_HEADERS, 1, 5);
    let mut guard = guard(1000);
    receive(&mut guard, &[&preface_and_settings(), &block[..12]].concat());
    tokio::time::advance(SECOND / 2).await;
    // The first block ends and the next begins.
    let more = [&block[12..], &block[..12]].concat();
    assert_eq!(receive(&mut guard, &more), (more.clone(), None));
    tokio::time::advance(SECOND * 3 / 4).await;
    assert_eq!(receive(&mut guard, &block[12..]), (block[12..].to_vec(), None));
    assert_eq!(cut_after(&mut guard, &ping()).await, None);
}

#[tokio::test(start_paused = true)]
async fn continuation_frames_do_not_extend_the_deadline() {
    let mut guard = guard(1000);
    let input = [preface_and_settings(), frame(kind::HEADERS, 0, 1, 1)].concat();
    receive(&mut guard, &input);
    let trickle = frame(kind::CONTINUATION, 0, 1, 1);
    tokio::time::advance(SECOND * 3 / 4).await;
    assert_eq!(receive(&mut guard, &trickle), (trickle.clone(), None));
    let left = cut_after(&mut guard, &trickle).await.unwrap();
    assert!(left <= SECOND / 2, "{left:?}");
}
