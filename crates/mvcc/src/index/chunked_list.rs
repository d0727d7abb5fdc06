//! An append-only list whose clones share the full chunks.
//!
//! ```text
//!   chunks  [0 .. 1023] [1024 .. 2047]     shared between clones
//!   tail    [2048 .. 2501]                 owned by each clone
//! ```

use std::sync::Arc;

/// The number of items in a full chunk.
const CHUNK: usize = if cfg!(test) { 16 } else { 1024 };

/// An append-only list. The last item may be modified.
#[derive(Clone, Debug)]
pub(super) struct ChunkedList<T> {
    chunks: Vec<Arc<[T]>>,
    /// Not empty, unless the list is.
    tail: Vec<T>,
}

impl<T> Default for ChunkedList<T> {
    fn default() -> ChunkedList<T> {
        ChunkedList { chunks: Vec::new(), tail: Vec::new() }
    }
}

impl<T> ChunkedList<T> {
    pub(super) fn len(&self) -> usize {
        self.chunks.len() * CHUNK + self.tail.len()
    }

    /// Returns the number of items that memory is allocated for.
    pub(super) fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK + self.tail.capacity()
    }

    pub(super) fn get(&self, at: usize) -> &T {
        match self.chunks.get(at / CHUNK) {
            Some(chunk) => &chunk[at % CHUNK],
            None => &self.tail[at - self.chunks.len() * CHUNK],
        }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).chain(&self.tail)
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.tail.last()
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.tail.last_mut()
    }

    pub(super) fn push(&mut self, item: T) {
        if self.tail.len() == CHUNK {
            self.chunks.push(std::mem::take(&mut self.tail).into());
        }
        self.tail.push(item);
    }

    /// Returns the first position for which a predicate is false, if it is true for a prefix of the
    /// list.
    pub(super) fn partition_point(&self, holds: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if holds(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl<T> FromIterator<T> for ChunkedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> ChunkedList<T> {
        let mut all = ChunkedList::default();
        items.into_iter().for_each(|item| all.push(item));
        all
    }
}
