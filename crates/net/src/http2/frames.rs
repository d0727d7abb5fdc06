//! Scans the HTTP/2 frames in a byte stream without copying or buffering payloads.
//!
//! ```text
//!   00 00 08   06     00      00 00 00 00    6f 68 20 68 65 6c 6c 6f     a PING
//!   length 8   PING   flags   stream 0       payload
//!   ─────────── the 9 bytes that are parsed      ─── skipped, whatever the length
//! ```
//!
//! The bytes may arrive in any portions. A position is a *boundary* if another frame may begin
//! there: not inside a frame, and not between the HEADERS and CONTINUATION frames of one header
//! block, where no other frame is allowed.

/// The length of a frame header.
pub(crate) const FRAME_HEADER_BYTES: usize = 9;

/// The length of the priority in a HEADERS frame.
const PRIORITY_BYTES: usize = 5;

/// Frame types.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Frame flags. The meaning of a bit depends on the type.
mod flag {
    pub(super) const ACK: u8 = 0x1;
    pub(super) const END_STREAM: u8 = 0x1;
    pub(super) const END_HEADERS: u8 = 0x4;
    pub(super) const PADDED: u8 = 0x8;
    pub(super) const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
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

    /// Returns whether this is a PING that requires an answer.
    pub(crate) fn asks_pong(self) -> bool {
        self.kind == kind::PING && self.flags & flag::ACK == 0
    }

    /// Returns whether the sender ends its side of the stream.
    pub(crate) fn ends_stream(self) -> bool {
        self.carries_message() && self.flags & flag::END_STREAM != 0
    }

    /// Returns whether the frame carries headers or data of a request or response.
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

/// A part of the byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramePart<'a> {
    /// The header of a frame.
    Header(Frame),
    /// Bytes of the payload of a frame that belongs to a header block.
    BlockPayload(&'a [u8]),
}

/// The payload of a HEADERS or CONTINUATION frame, of which only a part are header fields.
///
/// ```text
///   flag PADDED: 1 byte   PRIORITY: 5 bytes   header fields   PADDED: that many bytes
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockPayload {
    left: usize,
    pads: bool,
    pad: usize,
    priority_left: usize,
}

impl BlockPayload {
    pub(crate) fn new(frame: Frame) -> Self {
        let has = |flag: u8| frame.kind == kind::HEADERS && frame.flags & flag != 0;
        let priority_left = if has(flag::PRIORITY) { PRIORITY_BYTES } else { 0 };
        Self { left: frame.length as usize, pads: has(flag::PADDED), pad: 0, priority_left }
    }

    /// Takes the next bytes of the payload. Returns those of header fields.
    pub(crate) fn fields<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        if self.pads
            && let [pad, rest @ ..] = bytes
        {
            (self.pads, self.pad, bytes) = (false, usize::from(*pad), rest);
            self.left = self.left.saturating_sub(1);
        }
        let skipped = self.priority_left.min(bytes.len());
        self.priority_left -= skipped;
        bytes = &bytes[skipped..];
        self.left = self.left.saturating_sub(skipped);
        let fields = bytes.len().min(self.left.saturating_sub(self.pad));
        self.left = self.left.saturating_sub(bytes.len());
        &bytes[..fields]
    }
}

/// The position of a byte stream within its frames.
#[derive(Clone, Debug)]
pub(crate) struct FrameScanner {
    /// The header of the next frame, as far as it has arrived.
    header: [u8; FRAME_HEADER_BYTES],
    filled: usize,
    /// Bytes left to skip of a payload or of the preface.
    skip: usize,
    /// Whether the skipped bytes belong to a header block.
    skips_block: bool,
    /// Whether a header block has begun whose last frame has not.
    in_block: bool,
}

impl FrameScanner {
    /// Creates a scanner that first skips `skip` bytes.
    pub(crate) fn new(skip: usize) -> Self {
        Self { header: [0; _], filled: 0, skip, skips_block: false, in_block: false }
    }

    /// Scans the next bytes, and calls `each` for every frame whose header is complete and for the
    /// payload of header blocks.
    pub(crate) fn feed<'a>(&mut self, mut bytes: &'a [u8], mut each: impl FnMut(FramePart<'a>)) {
        while !bytes.is_empty() {
            let is_block = self.skip > 0 && self.skips_block;
            let (size, frame) = self.step(bytes);
            let (step, rest) = bytes.split_at(size);
            match frame {
                Some(frame) => each(FramePart::Header(frame)),
                None if is_block => each(FramePart::BlockPayload(step)),
                None => {}
            }
            bytes = rest;
        }
    }

    /// Returns whether another frame may begin here.
    pub(crate) fn at_boundary(&self) -> bool {
        self.skip == 0 && self.filled == 0 && !self.in_block
    }

    /// Returns whether a header block has begun and not ended.
    pub(crate) fn headers_unfinished(&self) -> bool {
        self.in_block || (self.skips_block && self.skip > 0)
    }

    /// Returns how many of these bytes lead to the next boundary: all, if they do not reach it.
    pub(crate) fn until_boundary(&self, bytes: &[u8]) -> usize {
        let (mut ahead, mut position) = (self.clone(), 0);
        while position < bytes.len() && !ahead.at_boundary() {
            position += ahead.step(&bytes[position..]).0;
        }
        position
    }

    /// Advances to the end of a header or payload, if the bytes suffice. Returns the number of
    /// bytes used and the frame that begins.
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

    fn frames_of(scanner: &mut FrameScanner, bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        scanner.feed(bytes, |part| match part {
            FramePart::Header(frame) => frames.push(frame),
            FramePart::BlockPayload(payload) => assert!(payload.iter().all(|byte| *byte == 6)),
        });
        frames
    }

    #[test]
    fn a_frame_header_is_encoded_as_documented() {
        let header = [0, 0, 8, 6, 0, 0, 0, 0, 0];
        assert_eq!(Frame::decode(header), PING);
        assert_eq!(PING.encode(), header);
        assert_eq!(Frame::decode(LARGE.encode()), LARGE);
        let reserved = Frame::decode([0, 0, 0, 0, 0, 0x80, 0, 0, 1]);
        assert_eq!(reserved.stream, 1);
    }

    #[test]
    fn frames_are_found_however_the_bytes_are_split() {
        let frames = [PING, BLOCK[0], BLOCK[1], BLOCK[2], PING];
        let bytes = [&b"preface"[..], &bytes_of(&frames)].concat();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut scanner = FrameScanner::new(7);
                let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let found: Vec<Frame> =
                    parts.iter().flat_map(|part| frames_of(&mut scanner, part)).collect();
                assert_eq!(found, frames, "{first} {second}");
                assert!(scanner.at_boundary());
            }
        }
    }

    #[test]
    fn a_large_payload_is_skipped() {
        let mut scanner = FrameScanner::new(0);
        assert_eq!(frames_of(&mut scanner, &bytes_of(&[LARGE, PING])), [LARGE, PING]);
    }

    #[test]
    fn padding_and_priority_are_no_header_fields() {
        let payload = [3, 9, 9, 9, 9, 9, 1, 2, 0, 0, 0];
        let flags = flag::PADDED | flag::PRIORITY;
        for (kind, flags, expected) in [
            (kind::HEADERS, flags, &payload[6..8]),
            (kind::HEADERS, flag::PADDED, &payload[1..8]),
            (kind::HEADERS, flag::PRIORITY, &payload[5..]),
            (kind::HEADERS, 0, &payload[..]),
            (kind::CONTINUATION, flags, &payload[..]),
        ] {
            for split in 0..=payload.len() {
                let mut block = BlockPayload::new(Frame { length: 11, kind, flags, stream: 1 });
                let parts = [&payload[..split], &payload[split..]];
                let fields: Vec<u8> = parts.map(|part| block.fields(part)).concat();
                assert_eq!(fields, expected, "{kind} {flags} {split}");
            }
        }
    }

    #[test]
    fn boundaries_are_between_frames_and_outside_of_header_blocks() {
        let bytes = bytes_of(&[PING, BLOCK[0], BLOCK[1], BLOCK[2], PING]);
        let mut scanner = FrameScanner::new(0);
        let mut boundaries = vec![];
        for (position, byte) in bytes.iter().enumerate() {
            if scanner.at_boundary() {
                boundaries.push(position);
            }
            frames_of(&mut scanner, &[*byte]);
        }
        // A ping of 17 bytes, a header block of 12, 9 and 11, and another ping.
        assert_eq!(boundaries, [0, 17, 49]);
    }

    #[test]
    fn the_distance_to_the_next_boundary_is_computed_ahead() {
        let bytes = bytes_of(&[PING, BLOCK[0], BLOCK[1], BLOCK[2], PING]);
        for position in 0..bytes.len() {
            let mut scanner = FrameScanner::new(0);
            frames_of(&mut scanner, &bytes[..position]);
            let next = [0, 17, 49, 66].into_iter().find(|next| *next >= position).unwrap();
            assert_eq!(scanner.until_boundary(&bytes[position..]), next - position, "{position}");
            // With fewer bytes, as far as they reach.
            let few = &bytes[position..][..1];
            assert_eq!(scanner.until_boundary(few), usize::from(next > position));
        }
    }

    #[test]
    fn a_header_block_is_unfinished_until_its_last_byte() {
        let bytes = bytes_of(&[PING, BLOCK[0], BLOCK[1], BLOCK[2], PING]);
        let mut scanner = FrameScanner::new(0);
        let mut unfinished = vec![];
        for (position, byte) in bytes.iter().enumerate() {
            frames_of(&mut scanner, &[*byte]);
            if scanner.headers_unfinished() {
                unfinished.push(position);
            }
        }
        // From the ninth byte of the HEADERS frame to the last but one of the block.
        assert_eq!(unfinished, (25..48).collect::<Vec<_>>());
    }
}
