//! A list that grows at its end, and whose copies share what is no longer changed.
//!
//! ```text
//!   chunks  [0 .. 1023] [1024 .. 2047]     shared between copies
//!   tail    [2048 .. 2501]                 a copy's own
//! ```

use std::sync::Arc;

/// Items of a full chunk.
const CHUNK: usize = if cfg!(test) { 16 } else { 1024 };

/// A list that is only added to. Its last item may be changed.
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

    /// How many items there is memory for.
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

    /// The first item for which a condition does not hold that holds for those before it.
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
