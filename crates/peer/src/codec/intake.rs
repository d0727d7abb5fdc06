//! Bytes that come in pieces, taken in portions.

use bytes::{Buf, Bytes, BytesMut};

/// What is reserved at once for a portion. Longer ones grow as they come.
const RESERVED_MAX: usize = 1 << 20;

/// What has come and was not taken.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// The piece that came last, as far as nobody has looked at it.
    piece: Bytes,
    /// The beginning of a portion that is not whole.
    begun: BytesMut,
}

impl Intake {
    /// A piece comes. The last one has been used up.
    pub(super) fn feed(&mut self, piece: Bytes) {
        debug_assert!(self.piece.is_empty(), "a piece is fed when the last one was read");
        self.piece = piece;
    }

    /// So many bytes, once they have come. They are copied, into memory of their own: they may be kept for long, and the piece may be much longer.
    pub(super) fn take(&mut self, count: usize) -> Option<Bytes> {
        if self.begun.is_empty() {
            self.begun.reserve(count.min(RESERVED_MAX));
        }
        let now = self.piece.len().min(count - self.begun.len());
        self.begun.extend_from_slice(&self.piece[..now]);
        self.piece.advance(now);
        (self.begun.len() == count).then(|| std::mem::take(&mut self.begun).freeze())
    }

    /// A number of eight bytes, the most significant first.
    pub(super) fn take_number(&mut self) -> Option<u64> {
        if self.begun.is_empty() && self.piece.len() >= size_of::<u64>() {
            return Some(self.piece.get_u64());
        }
        self.take(size_of::<u64>()).map(|mut bytes| bytes.get_u64())
    }

    /// Whether all that has come was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.piece.is_empty() && self.begun.is_empty()
    }

    /// What nobody has looked at.
    pub(super) fn into_piece(self) -> Bytes {
        self.piece
    }

    pub(super) fn take_byte(&mut self) -> Option<u8> {
        self.piece.try_get_u8().ok()
    }
}
