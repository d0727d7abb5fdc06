//! Steps messages of arbitrary bytes into a member of a cluster, in any situation.
//!
//! ```text
//!   input    06 1f   02 08 08 03 10 01 18 02 20 04   01   ...
//!            │  │    │  │  └ a raftpb.Message        └ 1: takes a Ready and does storage work
//!            │  │    │  └ length
//!            │  │    └ 2: steps a message; 0: a tick
//!            │  └ the options of the member, one bit each
//!            └ the situation: a leader with reads in progress
//! ```
//!
//! Invariants: no panic. A refused message changes nothing. Terms and the commit index never
//! decrease, and no committed entry ever changes. The member can always restart from its storage.

#![no_main]

#[expect(dead_code, reason = "the tests use the rest of it")]
#[path = "../../crates/raft/tests/hostile/member.rs"]
mod member;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use member::{Member, Setup, Situation};
use prost::Message as _;
use proto::raftpb;
use raft::{Entry, Message, Storage as _};

/// The most steps of a run, to bound its time.
const STEPS_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    let Some((&[situation, options], mut input)) = input.split_first_chunk() else { return };
    let mut member = Member::new(&setup(situation, options));
    let mut before = Durable::of(&member);
    for _ in 0..STEPS_MAX {
        let Some((&action, rest)) = input.split_first() else { break };
        input = rest;
        match action % 4 {
            0 => member.node.tick(),
            1 => {
                member.take_ready();
                member.work();
            }
            2 => step(&mut member, take_message(&mut input)),
            _ => member.compact(),
        }
        before = Durable::of(&member).checked_against(&before);
    }
    member.settle();
    member.restart();
    Durable::of(&member).checked_against(&before);
});

fn setup(situation: u8, options: u8) -> Setup {
    let is_set = |bit: u8| options & 1 << bit != 0;
    let situation = Situation::ALL[usize::from(situation) % Situation::ALL.len()];
    Setup {
        situation,
        async_storage_writes: is_set(0),
        pre_vote: is_set(1),
        check_quorum: is_set(2),
        lease_reads: is_set(3),
        tight_limits: is_set(4),
        step_down_on_removal: is_set(5),
    }
}

/// Takes a message with the length in front of it.
fn take_message<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let Some((&length, rest)) = input.split_first() else { return &[] };
    let (message, rest) = rest.split_at(usize::from(length).min(rest.len()));
    *input = rest;
    message
}

fn step(member: &mut Member, bytes: &[u8]) {
    let Ok(wire) = raftpb::Message::decode(Bytes::copy_from_slice(bytes)) else { return };
    let Ok(message) = Message::try_from(wire) else { return };
    let before = member.view();
    if member.step(message).is_err() {
        assert_eq!(member.view(), before, "a refused message changes nothing");
    }
}

/// The part of a member that no message may take back.
struct Durable {
    term: u64,
    commit: u64,
    /// The entries in storage that the commit index in storage covers.
    ///
    /// The commit index of the node may be ahead: with asynchronous storage writes it can cover an
    /// entry that is still queued to replace the one in storage.
    committed: Vec<Entry>,
}

impl Durable {
    fn of(member: &Member) -> Durable {
        let state = member.node.basic_status().hard_state;
        let storage = member.node.storage();
        let (first, last) = (storage.first_index(), storage.last_index());
        let end = storage.hard_state().commit.min(last).next().max(first);
        let committed = storage.entries(first, end, u64::MAX).expect("entries in storage");
        Durable { term: state.term.0, commit: state.commit.0, committed }
    }

    fn checked_against(self, before: &Durable) -> Durable {
        assert!(self.term >= before.term && self.commit >= before.commit);
        for entry in &self.committed {
            let known = before.committed.iter().find(|known| known.index == entry.index);
            assert!(known.is_none_or(|known| known == entry), "{known:?} became {entry:?}");
        }
        self
    }
}
