//! Reads arbitrary bytes as a connection: protocol detection, then the scan of HTTP/2 frames, then
//! the guard between a client and h2.
//!
//! Invariants: no panic. The detected protocol, the frames found and their boundaries do not depend
//! on how the bytes are cut; detection loses no byte. The guard passes all bytes on unchanged in
//! both directions, until it ends a connection that pings too often or has a path with a fragment:
//! then the client has received whole frames of h2, and a GOAWAY after them.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/net/src/http2"]
mod http2 {
    pub(crate) mod frames;
    mod goaway;
    pub(crate) mod guard;
    mod huffman;
    mod path_fragments;
    mod pings;
    mod streams;
}
#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/net/src/open"]
mod open {
    pub(crate) mod protocol;
    pub(crate) use protocol::PREFACE;
}

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http2::frames::{FRAME_HEADER_BYTES, Frame, FramePart, FrameScanner, kind};
use http2::guard::{GuardLimits, Http2Guard};
use libfuzzer_sys::fuzz_target;
use open::PREFACE;
use open::protocol::{Protocol, detect};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// No run of the target lasts so long.
const HOUR: Duration = Duration::from_secs(3600);
/// The length of a GOAWAY before its debug data: header, last stream and error code.
const GOAWAY_BYTES: usize = FRAME_HEADER_BYTES + 4 + 4;
/// The debug data of the two rules that end a connection.
const DEBUG_DATA: [&[u8]; 2] = [b"too_many_pings", b"fragment in :path"];
const READ_BYTES: usize = 64;

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("create a runtime")
});

fuzz_target!(|input: &[u8]| {
    // The first byte chooses the length of the pieces, the second the share of the client.
    let Some((&[piece, share], input)) = input.split_first_chunk() else { return };
    let piece = usize::from(piece) + 1;
    check_scanner(input, piece);
    check_detection(input, piece);
    let (client, h2) = input.split_at(input.len() * usize::from(share) / 255);
    check_guard(&[&PREFACE[..], client].concat(), h2, piece);
});

fn check_scanner(input: &[u8], piece: usize) {
    let (frames, whole) = scan(input, input.len().max(1));
    let (by_piece, pieces) = scan(input, piece);
    assert_eq!(by_piece, frames);
    assert_eq!(pieces.at_boundary(), whole.at_boundary());
    assert_eq!(pieces.headers_unfinished(), whole.headers_unfinished());
    for frame in frames {
        assert_eq!(Frame::decode(frame.encode()), frame);
    }
    // The distance to the next boundary is where the scanner arrives at one.
    let (start, rest) = input.split_at(piece.min(input.len()));
    let (_, scanner) = scan(start, start.len().max(1));
    let distance = scanner.until_boundary(rest);
    let mut ahead = scanner.clone();
    ahead.feed(&rest[..distance], |_| {});
    assert!(ahead.at_boundary() || distance == rest.len());
}

fn scan(input: &[u8], piece: usize) -> (Vec<Frame>, FrameScanner) {
    let (mut scanner, mut frames) = (FrameScanner::new(0), Vec::new());
    for piece in input.chunks(piece) {
        scanner.feed(piece, |part| match part {
            FramePart::Header(frame) => frames.push(frame),
            FramePart::BlockPayload(_) => {}
        });
    }
    (frames, scanner)
}

fn check_detection(input: &[u8], piece: usize) {
    let expected = match input {
        [0x16, ..] => Some(Protocol::Tls),
        _ if input.starts_with(PREFACE) => Some(Protocol::Http2),
        _ if PREFACE.starts_with(input) => None,
        _ => Some(Protocol::Http1),
    };
    let detected = poll(pin!(detect(Socket::new(input, piece))));
    let Poll::Ready(Ok(detected)) = detected else { panic!("the socket never blocks or fails") };
    assert_eq!(detected.as_ref().map(|(protocol, _)| *protocol), expected);
    if let Some((_, mut replay)) = detected {
        assert_eq!(read_all(&mut replay).expect("the socket never fails"), input);
    }
}

fn check_guard(client: &[u8], h2: &[u8], piece: usize) {
    let _entered = RUNTIME.enter();
    let limits =
        GuardLimits { ping_min_time: Some(HOUR), first_frame_timeout: HOUR, headers_timeout: HOUR };
    let socket = Socket::new(client, piece);
    let sent = Rc::clone(&socket.sent);
    let mut guard = Http2Guard::new(socket, limits);
    let (mut received, mut unsent, mut is_open) = (Vec::new(), h2, true);
    while is_open {
        let (more, read) = read_once(&mut guard, &mut received);
        let wrote = write_once(&mut guard, &mut unsent);
        // Blocked: the GOAWAY waits for the end of a frame that h2 does not write.
        is_open = (more || wrote) && read.is_ok();
    }
    assert!(client.starts_with(&received), "the client's bytes pass unchanged");
    let sent = sent.borrow();
    let Some(at) = goaway_at(&sent, h2) else {
        assert!(h2.starts_with(&sent), "the bytes of h2 pass unchanged");
        return;
    };
    let (frames, goaway) = sent.split_at(at);
    assert!(h2.starts_with(frames) && scan(frames, at.max(1)).1.at_boundary());
    let header = Frame::decode(*goaway.first_chunk().expect("the header of a GOAWAY"));
    assert_eq!((header.kind, header.stream), (kind::GOAWAY, 0));
    assert_eq!(goaway.len(), FRAME_HEADER_BYTES + header.length as usize);
}

/// Reads once. Returns whether there may be more to read, and the error if the connection ended.
fn read_once(
    guard: &mut Http2Guard<Socket>,
    received: &mut Vec<u8>,
) -> (bool, Result<(), io::Error>) {
    let mut bytes = [0; READ_BYTES];
    let mut buffer = ReadBuf::new(&mut bytes);
    let mut cx = Context::from_waker(Waker::noop());
    let read = Pin::new(guard).poll_read(&mut cx, &mut buffer);
    received.extend_from_slice(buffer.filled());
    match read {
        Poll::Ready(Ok(())) => (!buffer.filled().is_empty(), Ok(())),
        Poll::Ready(Err(error)) => (false, Err(error)),
        Poll::Pending => (false, Ok(())),
    }
}

/// Writes once and returns whether a byte was taken.
fn write_once(guard: &mut Http2Guard<Socket>, unsent: &mut &[u8]) -> bool {
    if unsent.is_empty() {
        return false;
    }
    let mut cx = Context::from_waker(Waker::noop());
    let (first, second) = unsent.split_at(unsent.len() / 3);
    let slices = [IoSlice::new(first), IoSlice::new(second)];
    match Pin::new(guard).poll_write_vectored(&mut cx, &slices) {
        Poll::Ready(Ok(taken)) => {
            *unsent = &unsent[taken..];
            taken > 0
        }
        Poll::Ready(Err(_)) | Poll::Pending => false,
    }
}

/// Returns where the bytes of h2 end and others begin.
fn goaway_at(sent: &[u8], h2: &[u8]) -> Option<usize> {
    let data = DEBUG_DATA.iter().find(|data| sent.ends_with(data))?;
    let goaway = sent.len().checked_sub(GOAWAY_BYTES + data.len())?;
    (!h2.starts_with(sent)).then_some(goaway)
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn read_all(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let (mut all, mut bytes) = (Vec::new(), [0; READ_BYTES]);
    loop {
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut *stream).poll_read(&mut cx, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Ok(all),
            Poll::Ready(Ok(())) => all.extend_from_slice(buffer.filled()),
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Pending => panic!("the socket never blocks"),
        }
    }
}

/// A socket that transfers a number of bytes at a time.
#[derive(Debug)]
struct Socket {
    unread: Vec<u8>,
    read: usize,
    sent: Rc<RefCell<Vec<u8>>>,
    piece: usize,
}

impl Socket {
    fn new(unread: &[u8], piece: usize) -> Socket {
        Socket { unread: unread.to_vec(), read: 0, sent: Rc::default(), piece }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.piece.min(buffer.remaining()).min(self.unread.len() - self.read);
        buffer.put_slice(&self.unread[self.read..][..size]);
        self.read += size;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let size = self.piece.min(bytes.len());
        self.sent.borrow_mut().extend_from_slice(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
