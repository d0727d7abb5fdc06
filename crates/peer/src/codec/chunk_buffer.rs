//! Collects bytes that arrive in chunks into portions of a known length.

use bytes::{Buf, Bytes, BytesMut};

/// The most bytes reserved ahead for a portion. Longer ones grow as bytes arrive.
const RESERVED_MAX: usize = 1 << 20;

/// Bytes that arrived and were not taken.
#[derive(Debug, Default)]
pub(super) struct ChunkBuffer {
    /// The unread rest of the last chunk.
    chunk: Bytes,
    /// The beginning of an incomplete portion.
    partial: BytesMut,
}

impl ChunkBuffer {
    /// Adds a chunk. The previous one must have been read.
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(
            self.chunk.is_empty(),
            "the previous chunk must be read before the next is fed"
        );
        self.chunk = chunk;
    }

    /// Takes `count` bytes once they have arrived. Copies them, because they may be kept for long
    /// and the chunk may be much longer.
    pub(super) fn take(&mut self, count: usize) -> Option<Bytes> {
        if self.partial.is_empty() {
            self.partial.reserve(count.min(RESERVED_MAX));
        }
        let now = self.chunk.len().min(count - self.partial.len());
        self.partial.extend_from_slice(&self.chunk[..now]);
        self.chunk.advance(now);
        (self.partial.len() == count).then(|| std::mem::take(&mut self.partial).freeze())
    }

    /// Takes an 8-byte big-endian number.
    pub(super) fn take_number(&mut self) -> Option<u64> {
        if self.partial.is_empty() && self.chunk.len() >= size_of::<u64>() {
            return Some(self.chunk.get_u64());
        }
        self.take(size_of::<u64>()).map(|mut bytes| bytes.get_u64())
    }

    /// Returns whether everything was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.chunk.is_empty() && self.partial.is_empty()
    }

    /// Returns the unread rest.
    pub(super) fn into_rest(self) -> Bytes {
        self.chunk
    }

    pub(super) fn take_byte(&mut self) -> Option<u8> {
        self.chunk.try_get_u8().ok()
    }
}
