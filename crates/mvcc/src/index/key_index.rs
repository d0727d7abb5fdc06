//! The revisions of one key, grouped into generations, in a compact encoding.
//!
//! A generation starts with a put and ends with a tombstone (t). After put@2 put@3 delete@4 put@6
//! on "foo":
//!
//! ```text
//!     foo   generations  {2, 3, 4t} {6}
//!     compact(3) →       {3, 4t} {6}       compact(4) →  {4t} {6}       compact(5) →  {6}
//! ```
//!
//! Most keys have one revision, so a key index is a string of varints, newest revision first, each
//! as the distance from the one before it in the string:
//!
//! ```text
//!   generations << 1 | deleted                              4: two generations, not deleted
//!   per generation, newest first:                           {6}         {2, 3, 4t}
//!     version  count  main  sub  main - created             1 1 6 0 0   3 3 2 0 2  (2 = 6 - 4)
//!     then per older revision: distance in main, sub                    1 0  1 0  (4 - 3, 3 - 2)
//! ```
//!
//! A read of the latest revision decodes the first numbers; a put prepends a few bytes. A key with
//! a long history has another form, [`LongKeyIndex`](super::long_key_index::LongKeyIndex), that is
//! searched by bisection.
//!
//! Invariants: revisions grow within and across generations; only the newest generation may lack a
//! tombstone; there is at least one revision (a key without one is removed from the index). Values
//! are not here: they live in the backend under their revision.

use prost::encoding::{decode_varint, encode_varint};
use types::Revision;

use super::KeyMeta;

/// An encoded key index.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyIndex<'a>(pub(super) &'a [u8]);

/// The header of a generation.
#[derive(Clone, Copy, Debug)]
struct GenerationHeader {
    /// The number of revisions since the creation, with the tombstone.
    version: i64,
    /// The number of revisions that are left.
    count: u64,
    newest: Revision,
    created: i64,
}

/// A decoder that walks from the newest revision to the oldest.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
    /// The main revision at the cursor, from which the next distance is subtracted.
    main: i64,
}

/// The effect of a compaction on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyCompaction {
    /// The revision that is kept: the last at or below the compaction, unless the key is deleted by
    /// then.
    pub(super) revision: Option<Revision>,
    /// Whether the kept revision is a tombstone, which then is at the compacted revision.
    pub(super) tombstone: bool,
    /// Whether older revisions are discarded.
    pub(super) drops: bool,
    /// Whether no revision is left, so that the key is removed.
    pub(super) empty: bool,
}

impl<'a> KeyIndex<'a> {
    /// Encodes a key with a single revision: newly created, or the oldest that a database has.
    pub(super) fn begin(found: KeyMeta, tombstone: bool, out: &mut Vec<u8>) {
        let KeyMeta { modified: newest, created, version } = found;
        encode_varint(1 << 1 | u64::from(tombstone), out);
        GenerationHeader { version, count: 1, newest, created }.write(newest.main, out);
    }

    /// Returns whether the key exists at the latest revision.
    pub(super) fn is_live(self) -> bool {
        self.0[0] & 1 == 0
    }

    /// Returns the key at a revision, or `None` if it does not exist then.
    #[inline]
    pub(super) fn at(self, revision: i64) -> Option<KeyMeta> {
        let (generations, deleted, mut cursor) = self.cursor();
        for generation in 0..generations {
            let head = cursor.head(generation == 0);
            if (generation > 0 || deleted) && head.newest.main <= revision {
                return None;
            }
            let mut modified = head.newest;
            for older in 0..head.count {
                if modified.main <= revision {
                    let version = head.version - older.cast_signed();
                    return Some(KeyMeta { modified, created: head.created, version });
                }
                if older + 1 < head.count {
                    modified = cursor.older();
                }
            }
        }
        None
    }

    /// Encodes the key index with one more revision.
    ///
    /// # Panics
    /// If the revision is not the newest, or a tombstone of a deleted key.
    pub(super) fn add(self, revision: Revision, tombstone: bool, out: &mut Vec<u8>) {
        let (generations, deleted, mut cursor) = self.cursor();
        let head = cursor.head(true);
        assert!(revision > head.newest, "revision {revision} is not after {}", head.newest);
        assert!(!(tombstone && deleted), "the key is deleted already");
        let more = u64::from(deleted);
        encode_varint((generations + more) << 1 | u64::from(tombstone), out);
        if deleted {
            let (newest, created) = (revision, revision.main);
            GenerationHeader { version: 1, count: 1, newest, created }.write(newest.main, out);
            head.write(revision.main - head.newest.main, out);
        } else {
            let GenerationHeader { version, count, newest, created } = head;
            GenerationHeader { version: version + 1, count: count + 1, newest: revision, created }
                .write(revision.main, out);
            write_older(revision.main, newest, out);
        }
        out.extend_from_slice(cursor.bytes);
    }

    /// Returns the effect of a compaction.
    pub(super) fn plan_compaction(self, at: i64) -> KeyCompaction {
        let (generations, deleted, mut cursor) = self.cursor();
        let mut kept =
            KeyCompaction { revision: None, tombstone: false, drops: false, empty: true };
        for generation in 0..generations {
            let head = cursor.head(generation == 0);
            let closed = generation > 0 || deleted;
            if kept.revision.is_some() || (closed && head.newest.main < at) {
                // From here on, all revisions are superseded.
                kept.drops = true;
                return kept;
            }
            kept.empty = false;
            cursor.find_kept(head, closed, at, &mut kept);
        }
        kept
    }

    /// Encodes the key index after a compaction that leaves at least one revision.
    pub(super) fn compact(self, at: i64, out: &mut Vec<u8>) {
        let long = super::long_key_index::LongKeyIndex::from(self).compact(at);
        long.write(out);
    }

    /// Decodes all generations, newest first: version, create revision, and the revisions, newest
    /// first.
    pub(super) fn generations(self) -> (bool, Vec<(i64, i64, Vec<Revision>)>) {
        let (generations, deleted, mut cursor) = self.cursor();
        let generations = (0..generations).map(|generation| {
            let head = cursor.head(generation == 0);
            let older = (1..head.count).map(|_| cursor.older());
            let revisions = std::iter::once(head.newest).chain(older).collect();
            (head.version, head.created, revisions)
        });
        (deleted, generations.collect())
    }

    fn cursor(self) -> (u64, bool, Cursor<'a>) {
        let mut cursor = Cursor { bytes: self.0, main: 0 };
        let first = cursor.number();
        (first >> 1, first & 1 == 1, cursor)
    }
}

impl GenerationHeader {
    /// Encodes the header. `main` is the newest revision in the first generation, and a distance in
    /// the others.
    fn write(self, main: i64, out: &mut Vec<u8>) {
        encode_varint(self.version.cast_unsigned(), out);
        encode_varint(self.count, out);
        encode_varint(main.cast_unsigned(), out);
        encode_varint(self.newest.sub.cast_unsigned(), out);
        encode_varint((self.newest.main - self.created).cast_unsigned(), out);
    }
}

/// Encodes generations, newest first, each with its revisions, newest first.
pub(super) fn write_generations(
    deleted: bool,
    generations: &[(i64, i64, Vec<Revision>)],
    out: &mut Vec<u8>,
) {
    encode_varint((generations.len() as u64) << 1 | u64::from(deleted), out);
    let mut above = None;
    for (version, created, revisions) in generations {
        let newest = revisions[0];
        let (version, created, count) = (*version, *created, revisions.len() as u64);
        let head = GenerationHeader { version, count, newest, created };
        head.write(above.map_or(newest.main, |above: i64| above - newest.main), out);
        let mut last = newest.main;
        for older in &revisions[1..] {
            write_older(last, *older, out);
            last = older.main;
        }
        above = Some(last);
    }
}

fn write_older(above: i64, revision: Revision, out: &mut Vec<u8>) {
    encode_varint((above - revision.main).cast_unsigned(), out);
    encode_varint(revision.sub.cast_unsigned(), out);
}

impl Cursor<'_> {
    fn head(&mut self, first: bool) -> GenerationHeader {
        let (version, count) = (self.number().cast_signed(), self.number());
        let main = self.number().cast_signed();
        self.main = if first { main } else { self.main - main };
        let newest = Revision { main: self.main, sub: self.number().cast_signed() };
        let created = self.main - self.number().cast_signed();
        GenerationHeader { version, count, newest, created }
    }

    fn older(&mut self) -> Revision {
        self.main -= self.number().cast_signed();
        Revision { main: self.main, sub: self.number().cast_signed() }
    }

    /// Finds the revision of a generation that a compaction keeps.
    fn find_kept(
        &mut self,
        head: GenerationHeader,
        closed: bool,
        at: i64,
        kept: &mut KeyCompaction,
    ) {
        let mut revision = head.newest;
        for older in 0..head.count {
            if kept.revision.is_some() {
                kept.drops = true;
            } else if revision.main <= at {
                kept.revision = Some(revision);
                kept.tombstone = closed && older == 0;
            }
            if older + 1 < head.count {
                revision = self.older();
            }
        }
    }

    #[inline]
    fn number(&mut self) -> u64 {
        // Most numbers fit into one byte.
        match self.bytes.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.bytes = rest;
                u64::from(byte)
            }
            _ => decode_varint(&mut self.bytes).expect("a key index is well-formed"),
        }
    }
}
