//! A log of any bytes, applied to a member.
//!
//! ```text
//!   input    03 05 22 03 0a 01 61   0e 00   0c 02 08 01  ...
//!            │  │  └ data           │       └ kind 12: a change of members, 2 bytes
//!            │  └ length, a varint  └ kind 14: a turn of compaction, and a commit
//!            └ kind 3: a request; with bit 4 set, nobody waits for it
//! ```
//!
//! Shared by the fuzz target, by the tests that make up requests, and by the one that replays the fuzzer's corpus. Whatever the bytes are, nothing
//! panics; a request is carried out, or refused and then nothing is changed but the applied index, or it makes no sense and then nothing at
//! all is; and what is in memory is what a member reads that starts on the same file.

use prost::Message as _;
use prost::bytes::{Buf as _, Bytes};
use proto::etcdserverpb::InternalRaftRequest;
use raft::{Entry, EntryType};
use server::{Applied, Fault, Outcome};

use crate::support::member::{Member, Setup};
use crate::support::observe::{Answers, Pairs, buckets};

/// Longer input is cut, and so are logs: they would only take longer.
const INPUT_MAX: usize = 1 << 16;
const ITEMS_MAX: usize = 64;

/// With this bit, nobody waits.
const SILENT: u8 = 0x10;

/// What an item of the input asks for.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// An entry, and whether somebody waits for it.
    Entry {
        /// What the data is said to be.
        kind: EntryType,
        /// The data.
        data: Bytes,
        /// Whether somebody waits.
        waits: bool,
    },
    /// A turn of compaction, and a commit.
    Turn,
    /// A restart without a commit.
    Restart,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Carried out.
    pub(crate) done: usize,
    /// Refused.
    pub(crate) refused: usize,
    /// Made no sense.
    pub(crate) faults: usize,
}

/// Applies a log of any bytes, and looks at the member in the end.
pub(crate) fn exercise(input: &[u8]) {
    let input = Bytes::copy_from_slice(&input[..input.len().min(INPUT_MAX)]);
    let items = parse(input);
    let mut life = Life::new(Setup::default());
    for item in items.iter().take(ITEMS_MAX) {
        life.step(item);
    }
    life.assert_agrees();
}

/// Cuts the input into items. What is left at the end, and is none, is dropped.
fn parse(mut input: Bytes) -> Vec<Item> {
    let mut items = Vec::new();
    while input.has_remaining() {
        let control = input.get_u8();
        let Ok(len) = prost::encoding::decode_varint(&mut input) else { break };
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(input.remaining());
        let data = input.copy_to_bytes(len);
        let kind = match control & 0x0f {
            12 => EntryType::ConfChange,
            13 => EntryType::ConfChangeV2,
            _ => EntryType::Normal,
        };
        items.push(match control & 0x0f {
            14 => Item::Turn,
            15 => Item::Restart,
            _ => Item::Entry { kind, data, waits: control & SILENT == 0 },
        });
    }
    items
}

/// A member, through all that happens to it.
pub(crate) struct Life {
    /// None only while it restarts.
    member: Option<Member>,
    pub(crate) tally: Tally,
}

impl Life {
    pub(crate) fn new(setup: Setup) -> Life {
        Life { member: Some(Member::new(setup)), tally: Tally::default() }
    }

    pub(crate) fn member(&mut self) -> &mut Member {
        self.member.as_mut().expect("only gone while it restarts")
    }

    /// Does what an item asks for.
    pub(crate) fn step(&mut self, item: &Item) {
        match item {
            Item::Entry { kind, data, waits } => self.apply(*kind, data, *waits),
            Item::Turn => {
                self.member().turn_compaction();
                self.member().commit();
            }
            Item::Restart => self.restart(),
        }
    }

    /// In memory is what a member reads that starts on the same file.
    pub(crate) fn assert_agrees(&mut self) {
        let member = self.member();
        let (now, again) = (Answers::of(&member.machine), Answers::of(&member.reopened().machine));
        again.assert_same(&now, &"started on the same file");
    }

    fn restart(&mut self) {
        let member = self.member.take().expect("only gone while it restarts");
        self.member = Some(member.restart().expect("a disk without faults"));
    }

    fn apply(&mut self, kind: EntryType, data: &Bytes, waits: bool) {
        let member = self.member();
        let entry = Entry { data: data.clone(), ..member.next_raw(kind, Vec::new()) };
        let before = Before::of(member);
        let applied = member.machine.apply(&entry, &|_| waits, &mut member.voters);
        let after = Before::of(member);
        match applied {
            Ok(applied) => self.assert_applied(&entry, &applied, &before, &after),
            Err(fault) => {
                assert_makes_no_sense(&entry, &fault);
                assert_eq!(after.view.sequence(), before.view.sequence(), "{fault}");
                self.tally.faults += 1;
                // It has to stop. A view would keep the file in use.
                drop((before, after));
                self.member().commit();
                self.restart();
            }
        }
    }

    fn assert_applied(&mut self, entry: &Entry, applied: &Applied, old: &Before, new: &Before) {
        assert_eq!(self.member().applied(), (entry.index, entry.term));
        let grown = new.revision - old.revision;
        assert!((0..=1).contains(&grown), "the revision went from {} on by {grown}", old.revision);
        if let Applied::Request(Outcome { revision, .. }) = applied {
            assert_eq!(*revision, new.revision, "in the header of the answer");
        }
        match refusal(applied) {
            Some(refusal) => {
                assert_eq!(new.without_index(), old.without_index(), "{refusal}");
                self.tally.refused += 1;
            }
            None => self.tally.done += 1,
        }
    }
}

/// Why an entry was refused; none if it was not.
fn refusal(applied: &Applied) -> Option<String> {
    match applied {
        Applied::Request(Outcome { result: Some(Err(refusal)), .. }) => Some(refusal.to_string()),
        Applied::ConfChange { result: Err(refused), .. } => Some(refused.to_string()),
        _ => None,
    }
}

/// The database is sound, so all that can be wrong is the entry.
fn assert_makes_no_sense(entry: &Entry, fault: &Fault) {
    use membership::StopError as Stop;
    let known = InternalRaftRequest::decode(entry.data.clone());
    match fault {
        Fault::UnknownKind(_) => assert_eq!(entry.kind, EntryType::ConfChangeV2),
        Fault::Decode { .. } if entry.kind == EntryType::Normal => assert!(known.is_err()),
        Fault::Decode { .. } => assert_eq!(entry.kind, EntryType::ConfChange),
        Fault::Unknown(_) => {
            let mut request = known.expect("it was decoded");
            if request
                .cluster_member_attr_set
                .as_ref()
                .is_some_and(|set| set.member_attributes.is_none())
            {
                return;
            }
            request.cluster_member_attr_set = None;
            let (header, id) = (request.header.clone(), request.id);
            let nothing = InternalRaftRequest { header, id, ..InternalRaftRequest::default() };
            assert_eq!(request, nothing, "something is asked for");
        }
        Fault::Membership(Stop::Decode(_) | Stop::UnknownMember(_) | Stop::Incompatible(_)) => {}
        other => panic!("{entry:?}: {other}"),
    }
}

/// A member before an entry, or after it.
struct Before {
    view: backend::View,
    revision: i64,
}

impl Before {
    fn of(member: &Member) -> Before {
        let machine = &member.machine;
        Before { view: machine.backend.view(), revision: machine.store.current() }
    }

    /// All there is in the database, but how far the log was applied.
    fn without_index(&self) -> Vec<(&'static str, Pairs)> {
        let mut all: Vec<(&'static str, Pairs)> = buckets(&self.view).into_iter().collect();
        for (_, pairs) in all.iter_mut().filter(|(bucket, _)| *bucket == "meta") {
            pairs.retain(|(key, _)| !matches!(&key[..], b"consistent_index" | b"term"));
        }
        all
    }
}
