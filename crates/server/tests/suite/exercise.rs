//! Applies a log of arbitrary bytes to a member and checks the invariants.
//!
//! ```text
//!   input    03 05 22 03 0a 01 61   0e 00   0c 02 08 01  ...
//!            │  │  └ data           │       └ kind 12: a conf change of 2 bytes
//!            │  └ length, a varint  └ kind 14: a turn of compaction, and a commit
//!            └ kind 3: a request; bit 4 set: without a waiter
//! ```
//!
//! The fuzz targets and the tests of `server` share this file. Invariants for any input: nothing
//! panics; a refused entry changes only the applied index; an invalid entry changes nothing; the
//! state in memory equals the state of a member that is opened on the same database.

use prost::Message as _;
use prost::bytes::{Buf as _, Bytes};
use proto::etcdserverpb::InternalRaftRequest;
use raft::{Entry, EntryType};
use server::{Applied, Fault, Outcome};

use crate::support::member::{Member, Setup};
use crate::support::observe::{InMemoryState, Pairs, buckets};

/// Bytes of the input that are used. A longer input only takes longer.
const INPUT_MAX: usize = 1 << 16;
/// Items that are executed.
const ITEMS_MAX: usize = 64;

/// Bit of the control byte: the entry has no waiter.
const NO_WAITER: u8 = 0x10;

/// A step of the input.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// Applies an entry.
    Entry {
        /// The type of the entry.
        kind: EntryType,
        /// The encoded request or conf change.
        data: Bytes,
        /// Whether the request has a waiter.
        waits: bool,
    },
    /// Runs a turn of compaction and commits.
    CompactAndCommit,
    /// Restarts without a commit.
    Restart,
}

/// Counts of the results.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Applied entries.
    pub(crate) applied: usize,
    /// Refused entries.
    pub(crate) refused: usize,
    /// Invalid entries.
    pub(crate) faults: usize,
}

/// Applies the log that the input encodes and checks the invariants.
pub(crate) fn exercise(input: &[u8]) {
    let input = Bytes::copy_from_slice(&input[..input.len().min(INPUT_MAX)]);
    let items = parse(input);
    let mut fuzzed = FuzzedMember::new(Setup::default());
    for item in items.iter().take(ITEMS_MAX) {
        fuzzed.step(item);
    }
    fuzzed.assert_memory_matches_database();
}

/// Parses the input into items. An incomplete last item is dropped.
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
            14 => Item::CompactAndCommit,
            15 => Item::Restart,
            _ => Item::Entry { kind, data, waits: control & NO_WAITER == 0 },
        });
    }
    items
}

/// A member that executes items and checks the invariants after each.
pub(crate) struct FuzzedMember {
    /// None only during a restart.
    member: Option<Member>,
    pub(crate) tally: Tally,
}

impl FuzzedMember {
    pub(crate) fn new(setup: Setup) -> FuzzedMember {
        FuzzedMember { member: Some(Member::new(setup)), tally: Tally::default() }
    }

    pub(crate) fn member(&mut self) -> &mut Member {
        self.member.as_mut().expect("absent only during a restart")
    }

    /// Executes an item.
    pub(crate) fn step(&mut self, item: &Item) {
        match item {
            Item::Entry { kind, data, waits } => self.apply(*kind, data, *waits),
            Item::CompactAndCommit => {
                self.member().turn_compaction();
                self.member().commit();
            }
            Item::Restart => self.restart(),
        }
    }

    /// Checks that a member opened on the same database has the same state in memory.
    pub(crate) fn assert_memory_matches_database(&mut self) {
        let member = self.member();
        let (now, again) =
            (InMemoryState::of(&member.machine), InMemoryState::of(&member.reopened().machine));
        again.assert_same(&now, &"opened on the same database");
    }

    fn restart(&mut self) {
        let member = self.member.take().expect("absent only during a restart");
        self.member = Some(member.restart().expect("a disk without faults"));
    }

    fn apply(&mut self, kind: EntryType, data: &Bytes, waits: bool) {
        let member = self.member();
        let entry = Entry { data: data.clone(), ..member.next_raw(kind, Vec::new()) };
        let before = EntryState::of(member);
        let applied = member.machine.apply(&entry, &|_| waits, &mut member.voters);
        let after = EntryState::of(member);
        match applied {
            Ok(applied) => self.assert_applied(&entry, &applied, &before, &after),
            Err(fault) => {
                assert_entry_is_invalid(&entry, &fault);
                assert_eq!(after.view.sequence(), before.view.sequence(), "{fault}");
                self.tally.faults += 1;
                // A fault stops the member. A view would keep the file in use.
                drop((before, after));
                self.member().commit();
                self.restart();
            }
        }
    }

    fn assert_applied(
        &mut self,
        entry: &Entry,
        applied: &Applied,
        old: &EntryState,
        new: &EntryState,
    ) {
        assert_eq!(self.member().applied(), (entry.index, entry.term));
        let growth = new.revision - old.revision;
        assert!((0..=1).contains(&growth), "revision {} grew by {growth}", old.revision);
        if let Applied::Request(Outcome { revision, .. }) = applied {
            assert_eq!(*revision, new.revision, "revision of the reply");
        }
        match refusal(applied) {
            Some(refusal) => {
                assert_eq!(new.without_index(), old.without_index(), "{refusal}");
                self.tally.refused += 1;
            }
            None => self.tally.applied += 1,
        }
    }
}

/// Returns why an entry was refused.
fn refusal(applied: &Applied) -> Option<String> {
    match applied {
        Applied::Request(Outcome { result: Some(Err(refusal)), .. }) => Some(refusal.to_string()),
        Applied::ConfChange { result: Err(refused), .. } => Some(refused.to_string()),
        _ => None,
    }
}

/// Checks that a fault is due to the entry, because the database is sound.
fn assert_entry_is_invalid(entry: &Entry, fault: &Fault) {
    use membership::StopError as Stop;
    let known = InternalRaftRequest::decode(entry.data.clone());
    match fault {
        Fault::UnknownKind(_) => assert_eq!(entry.kind, EntryType::ConfChangeV2),
        Fault::Decode { .. } if entry.kind == EntryType::Normal => assert!(known.is_err()),
        Fault::Decode { .. } => assert_eq!(entry.kind, EntryType::ConfChange),
        Fault::Unknown(_) => {
            let mut request = known.expect("an unknown request was decoded");
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
            assert_eq!(request, nothing, "a known request was not applied");
        }
        Fault::Membership(Stop::Decode(_) | Stop::UnknownMember(_) | Stop::Incompatible(_)) => {}
        other => panic!("{entry:?}: {other}"),
    }
}

/// The state of a member before or after an entry.
struct EntryState {
    view: backend::BackendView,
    revision: i64,
}

impl EntryState {
    fn of(member: &Member) -> EntryState {
        let machine = &member.machine;
        EntryState { view: machine.backend().view(), revision: machine.store().current() }
    }

    /// Content of all buckets without the applied index and term.
    fn without_index(&self) -> Vec<(&'static str, Pairs)> {
        let mut all: Vec<(&'static str, Pairs)> = buckets(&self.view).into_iter().collect();
        for (_, pairs) in all.iter_mut().filter(|(bucket, _)| *bucket == "meta") {
            pairs.retain(|(key, _)| !matches!(&key[..], b"consistent_index" | b"term"));
        }
        all
    }
}
