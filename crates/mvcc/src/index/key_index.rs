//! The revisions of one key, grouped into generations, in few bytes.
//!
//! A generation starts with a put and ends with a tombstone (t). After put@2 put@3 delete@4 put@6 on "foo":
//!
//! ```text
//!     foo   generations  {2, 3, 4t} {6}
//!     compact(3) →       {3, 4t} {6}       compact(4) →  {4t} {6}       compact(5) →  {6}
//! ```
//!
//! What is kept of a key is mostly one revision, so its history is a string of numbers in variable length, the newest first, each revision
//! as its distance from the one before it in the string:
//!
//! ```text
//!   generations << 1 | deleted                                        4 = two of them, not deleted
//!   for each, the newest first:   version  count  main  sub  main - created      1 1 6 0 0       3 3 2 0 2   (2 is 6 - 4)
//!                                 then for each older one   main before  sub                     1 0  1 0    (4 - 3, 3 - 2)
//! ```
//!
//! Whoever asks for the newest revision reads it first, whoever puts one writes a few bytes in front. A key that is put over and over between
//! two compactions is kept in another form ([`LongKeyIndex`](super::long_key_index::LongKeyIndex)) that can be searched.
//!
//! Invariants: revisions grow within and across generations; only the newest generation may be without a tombstone. Holds no values:
//! those live in the backend under the revision. A history has at least one revision: a key without one is taken out of the index.

use prost::encoding::{decode_varint, encode_varint};
use types::Revision;

use super::KeyMeta;

/// A history, in the form described above.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyIndex<'a>(pub(super) &'a [u8]);

/// What a generation begins with.
#[derive(Clone, Copy, Debug)]
struct GenerationHeader {
    /// How often the key was put in this generation, its tombstone counted too.
    version: i64,
    /// How many revisions are still there.
    count: u64,
    newest: Revision,
    created: i64,
}

/// A walk down a history.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
    /// The revision the cursor is at. Distances are counted from it.
    main: i64,
}

/// What compaction finds in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyCompaction {
    /// The newest revision at or before the compaction, unless the key was deleted by then.
    pub(super) revision: Option<Revision>,
    /// Whether that is a tombstone, which is then at the revision of the compaction.
    pub(super) tombstone: bool,
    /// Whether older revisions are to be dropped.
    pub(super) drops: bool,
    /// Whether nothing is left.
    pub(super) empty: bool,
}

impl<'a> KeyIndex<'a> {
    /// A key that was put once; or what is left of its history in a file.
    pub(super) fn begin(found: KeyMeta, tombstone: bool, out: &mut Vec<u8>) {
        let KeyMeta { modified: newest, created, version } = found;
        encode_varint(1 << 1 | u64::from(tombstone), out);
        GenerationHeader { version, count: 1, newest, created }.write(newest.main, out);
    }

    /// Whether the key is there by now.
    pub(super) fn is_live(self) -> bool {
        self.0[0] & 1 == 0
    }

    /// The key as of a revision.
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

    /// Writes the history with one more revision.
    ///
    /// # Panics
    /// If that is not the newest; or a tombstone of a key that is not there.
    pub(super) fn add(self, revision: Revision, tombstone: bool, out: &mut Vec<u8>) {
        let (generations, deleted, mut cursor) = self.cursor();
        let head = cursor.head(true);
        assert!(revision > head.newest, "{revision} comes after {}", head.newest);
        assert!(!(tombstone && deleted), "a key that is not there is not deleted");
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

    /// What a compaction keeps of it.
    pub(super) fn plan_compaction(self, at: i64) -> KeyCompaction {
        let (generations, deleted, mut cursor) = self.cursor();
        let mut kept =
            KeyCompaction { revision: None, tombstone: false, drops: false, empty: true };
        for generation in 0..generations {
            let head = cursor.head(generation == 0);
            let closed = generation > 0 || deleted;
            if kept.revision.is_some() || (closed && head.newest.main < at) {
                // All that is from here on was over before the compaction, or before the revision that is kept.
                kept.drops = true;
                return kept;
            }
            kept.empty = false;
            cursor.find_kept(head, closed, at, &mut kept);
        }
        kept
    }

    /// Writes what a compaction leaves of it. There is something left.
    pub(super) fn compact(self, at: i64, out: &mut Vec<u8>) {
        let long = super::long_key_index::LongKeyIndex::from(self).compact(at);
        long.write(out);
    }

    /// All generations, the newest first: version, created, and the revisions, the newest first.
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
    /// Writes it, with the newest revision itself in the first generation, and its distance from the one above in the others.
    fn write(self, main: i64, out: &mut Vec<u8>) {
        encode_varint(self.version.cast_unsigned(), out);
        encode_varint(self.count, out);
        encode_varint(main.cast_unsigned(), out);
        encode_varint(self.newest.sub.cast_unsigned(), out);
        encode_varint((self.newest.main - self.created).cast_unsigned(), out);
    }
}

/// Writes generations, the newest first, each with its revisions, the newest first.
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

    /// Looks through the revisions of a generation for the one that a compaction keeps.
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
        // Most are below 128.
        match self.bytes.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.bytes = rest;
                u64::from(byte)
            }
            _ => decode_varint(&mut self.bytes).expect("a history is as it was written"),
        }
    }
}
