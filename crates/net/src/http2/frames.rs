//! Follows the frames of HTTP/2 in a stream of bytes, without copying or buffering any payload.
//!
//! ```text
//!   00 00 08   06     00      00 00 00 00    6f 68 20 68 65 6c 6c 6f     a PING
//!   length 8   PING   flags   stream 0       payload
//!   ─────────── the 9 bytes that are looked at   ─── skipped, however many
//! ```
//!
//! The bytes may come in any portions. A position is a *boundary* if another frame may begin there: not inside a frame, and not between the
//! HEADERS and the CONTINUATION frames of one block, where nothing else is allowed.

/// Bytes before the payload of a frame.
pub(crate) const FRAME_HEADER_BYTES: usize = 9;

/// Kinds of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Flags of frames. What a bit means depends on the kind.
mod flag {
    pub(super) const ACK: u8 = 0x1;
    pub(super) const END_STREAM: u8 = 0x1;
    pub(super) const END_HEADERS: u8 = 0x4;
}

/// The first bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) length: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Frame {
    pub(crate) fn decode(header: [u8; FRAME_HEADER_BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = header;
        let length = u32::from_be_bytes([0, l0, l1, l2]);
        // The highest bit is reserved.
        let stream = u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff;
        Self { length, kind, flags, stream }
    }

    pub(crate) fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    /// A ping that asks for an answer.
    pub(crate) fn asks_pong(self) -> bool {
        self.kind == kind::PING && self.flags & flag::ACK == 0
    }

    /// Whether its sender says no more on this stream.
    pub(crate) fn ends_stream(self) -> bool {
        self.carries_message() && self.flags & flag::END_STREAM != 0
    }

    /// Headers or data of a request or response.
    pub(crate) fn carries_message(self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS)
    }

    fn is_in_block(self) -> bool {
        matches!(self.kind, kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION)
    }

    fn ends_block(self) -> bool {
        self.flags & flag::END_HEADERS != 0
    }
}

/// Where in its frames a stream of bytes is.
#[derive(Clone, Debug)]
pub(crate) struct FrameScanner {
    /// The header of the next frame, as far as it has come.
    header: [u8; FRAME_HEADER_BYTES],
    filled: usize,
    /// Bytes to skip: what is left of the payload, or of the preface.
    skip: usize,
    /// Whether what is skipped belongs to a block of headers.
    skips_block: bool,
    /// Whether a block has begun whose last frame has not.
    in_block: bool,
}

impl FrameScanner {
    /// Skips so many bytes first.
    pub(crate) fn new(skip: usize) -> Self {
        Self { header: [0; _], filled: 0, skip, skips_block: false, in_block: false }
    }

    /// Takes the next bytes, and calls for each frame once its header is complete.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Frame)) {
        while !bytes.is_empty() {
            let (size, frame) = self.step(bytes);
            bytes = &bytes[size..];
            frame.into_iter().for_each(&mut each);
        }
    }

    /// Whether another frame could begin here.
    pub(crate) fn at_boundary(&self) -> bool {
        self.skip == 0 && self.filled == 0 && !self.in_block
    }

    /// Whether a block of headers has begun and not ended.
    pub(crate) fn headers_unfinished(&self) -> bool {
        self.in_block || (self.skips_block && self.skip > 0)
    }

    /// How many of these bytes lead to the next boundary; all, if they do not reach it.
    pub(crate) fn until_boundary(&self, bytes: &[u8]) -> usize {
        let (mut ahead, mut position) = (self.clone(), 0);
        while position < bytes.len() && !ahead.at_boundary() {
            position += ahead.step(&bytes[position..]).0;
        }
        position
    }

    /// Goes on to the end of a header or of a payload, if the bytes reach so far; how many it took, and the frame that begins.
    fn step(&mut self, bytes: &[u8]) -> (usize, Option<Frame>) {
        if self.skip > 0 {
            let size = self.skip.min(bytes.len());
            self.skip -= size;
            return (size, None);
        }
        let size = (FRAME_HEADER_BYTES - self.filled).min(bytes.len());
        self.header[self.filled..][..size].copy_from_slice(&bytes[..size]);
        self.filled += size;
        (size, (self.filled == FRAME_HEADER_BYTES).then(|| self.begin()))
    }

    fn begin(&mut self) -> Frame {
        let frame = Frame::decode(self.header);
        self.filled = 0;
        self.skip = frame.length as usize;
        self.skips_block = frame.is_in_block();
        self.in_block = if self.skips_block { !frame.ends_block() } else { self.in_block };
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: [Frame; 3] = [
        Frame { length: 3, kind: kind::HEADERS, flags: 0, stream: 1 },
        Frame { length: 0, kind: kind::CONTINUATION, flags: 0, stream: 1 },
        Frame { length: 2, kind: kind::CONTINUATION, flags: flag::END_HEADERS, stream: 1 },
    ];
    const PING: Frame = Frame { length: 8, kind: kind::PING, flags: 0, stream: 0 };
    const LARGE: Frame = Frame {
        length: 0x01_02_03,
        kind: kind::DATA,
        flags: flag::END_STREAM,
        stream: 0x7fff_ffff,
    };

    fn bytes_of(frames: &[Frame]) -> Vec<u8> {
        let bytes = |frame: &Frame| [&frame.encode()[..], &vec![6; frame.length as usize]].concat();
        frames.iter().flat_map(bytes).collect()
    }

    fn frames_of(follower: &mut FrameScanner, bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        follower.feed(bytes, |frame| frames.push(frame));
        frames
    }

    #[test]
    fn a_header_is_what_the_picture_shows() {
        let header = [0, 0, 8, 6, 0, 0, 0, 0, 0];
        assert_eq!(Frame::decode(header), PING);
        assert_eq!(PING.encode(), header);
        assert_eq!(Frame::decode(LARGE.encode()), LARGE);
        let reserved = Frame::decode([0, 0, 0, 0, 0, 0x80, 0, 0, 1]);
        assert_eq!(reserved.stream, 1);
    }

    #[test]
    fn frames_are_found_however_the_bytes_come() {
        let frames = [PING, BLOCK[0], BLOCK[1], BLOCK[2], PING];
        let bytes = [&b"preface"[..], &bytes_of(&frames)].concat();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut follower = FrameScanner::new(7);
                let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let found: Vec<Frame> =
                    parts.iter().flat_map(|part| frames_of(&mut follower, part)).collect();
                assert_eq!(found, frames, "{first} {second}");
                assert!(follower.at_boundary());
            }
        }
    }

    #[test]
    fn a_large_payload_is_skipped() {
        let mut follower = FrameScanner::new(0);
        assert_eq!(frames_of(&mut follower, &bytes_of(&[LARGE, PING])), [LARGE, PING]);
    }

    #[test]
    fn boundaries_are_between_frames_and_outside_of_blocks() {
        let bytes = bytes_of(&[PING, BLOCK[0], BLOCK[1], BLOCK[2], PING]);
        let mut follower = FrameScanner::new(0);
        let mut boundaries = vec![];
        for (position, byte) in bytes.iter().enumerate() {
            if follower.at_boundary() {
                boundaries.push(position);
            }
            frames_of(&mut follower, &[*byte]);
        }
        // A ping of 17 bytes, a block of 12, 9 and 11, and another ping.
        assert_eq!(boundaries, [0, 17, 49]);
    }

    #[test]
    fn the_way_to_the_next_boundary_is_seen_ahead() {
        let bytes = bytes_of(&[PING, BLOCK[0], BLOCK[1], BLOCK[2], PING]);
        for position in 0..bytes.len() {
            let mut follower = FrameScanner::new(0);
            frames_of(&mut follower, &bytes[..position]);
            let next = [0, 17, 49, 66].into_iter().find(|next| *next >= position).unwrap();
            assert_eq!(follower.until_boundary(&bytes[position..]), next - position, "{position}");
            // With fewer bytes, as far as they go.
            let few = &bytes[position..][..1];
            assert_eq!(follower.until_boundary(few), usize::from(next > position));
        }
    }

    #[test]
    fn headers_are_unfinished_from_their_first_frame_to_the_last_byte() {
        let bytes = bytes_of(&[PING, BLOCK[0], BLOCK[1], BLOCK[2], PING]);
        let mut follower = FrameScanner::new(0);
        let mut unfinished = vec![];
        for (position, byte) in bytes.iter().enumerate() {
            frames_of(&mut follower, &[*byte]);
            if follower.headers_unfinished() {
                unfinished.push(position);
            }
        }
        // From the ninth byte of the HEADERS on, to the last but one of the block.
        assert_eq!(unfinished, (25..48).collect::<Vec<_>>());
    }
}
