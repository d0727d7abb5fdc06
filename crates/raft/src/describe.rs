//! Text forms of states, entries, messages and `Ready`, as etcd's tools print them.
//!
//! ```text
//! 1->2 MsgApp Term:1 Log:1/10 Commit:10 Entries:[1/11 EntryNormal "put a"]
//! ```

use std::fmt::Write as _;

use types::MemberId;

use crate::conf::{ConfChangeType, ConfState};
use crate::entry::{Entry, EntryType};
use crate::message::{LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, Message, MessageType};
use crate::raft::ReadState;
use crate::ready::Ready;
use crate::snapshot::Snapshot;
use crate::state::{HardState, SoftState};
use crate::wire;

/// `Term:1 Vote:2 Commit:10`
#[must_use]
pub fn hard_state(state: &HardState) -> String {
    let vote = state.vote.map(|vote| format!(" Vote:{}", vote.0)).unwrap_or_default();
    format!("Term:{}{vote} Commit:{}", state.term, state.commit)
}

/// `Lead:1 State:StateFollower`
#[must_use]
pub fn soft_state(state: &SoftState) -> String {
    format!("Lead:{} State:{}", MemberId::to_wire(state.lead), state.role.as_str())
}

/// `Voters:[1 2 3] VotersOutgoing:[] Learners:[] LearnersNext:[] AutoLeave:false`
#[must_use]
pub fn conf_state(state: &ConfState) -> String {
    format!(
        "Voters:{} VotersOutgoing:{} Learners:{} LearnersNext:{} AutoLeave:{}",
        ids(&state.voters),
        ids(&state.voters_outgoing),
        ids(&state.learners),
        ids(&state.learners_next),
        state.auto_leave
    )
}

/// `Index:10 Term:1 ConfState:…`
#[must_use]
pub fn snapshot(snapshot: &Snapshot) -> String {
    let metadata = &snapshot.metadata;
    let conf_state = conf_state(&metadata.conf_state);
    format!("Index:{} Term:{} ConfState:{conf_state}", metadata.index, metadata.term)
}

/// `1/11 EntryNormal "put a"`: conf changes in short form, other data quoted.
#[must_use]
pub fn entry(entry: &Entry) -> String {
    let data = match entry.kind {
        EntryType::Normal => gocompat::quote_bytes(&entry.data),
        EntryType::ConfChange | EntryType::ConfChangeV2 => conf_changes(entry),
    };
    let space = if data.is_empty() { "" } else { " " };
    format!("{}/{} {}{space}{data}", entry.term, entry.index, entry.kind.as_str())
}

/// Prints entries, one per line.
#[must_use]
pub fn entries(entries: &[Entry]) -> String {
    entries.iter().fold(String::new(), |text, one| text + &entry(one) + "\n")
}

/// Prints the changes of an entry: `v1 l2 r3 u4`.
fn conf_changes(entry: &Entry) -> String {
    let change = match wire::decode_conf_change(entry.kind, &entry.data) {
        Ok(change) => change,
        Err(error) => return error.to_string(),
    };
    let one = |change: &crate::ConfChangeSingle| {
        let letter = match change.kind {
            ConfChangeType::AddNode => 'v',
            ConfChangeType::AddLearnerNode => 'l',
            ConfChangeType::RemoveNode => 'r',
            ConfChangeType::UpdateNode => 'u',
        };
        format!("{letter}{}", change.node_id.0)
    };
    change.changes.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Prints a message on one line; multiple entries, a snapshot and responses follow on further
/// lines.
#[must_use]
pub fn message(message: &Message) -> String {
    indented_message("", message)
}

fn indented_message(indent: &str, message: &Message) -> String {
    let (from, to) = (target(message.from), target(message.to));
    let mut text = format!(
        "{indent}{from}->{to} {} Term:{} Log:{}/{}",
        message.kind.as_str(),
        message.term,
        message.log_term,
        message.index
    );
    if message.reject {
        let _ = write!(text, " Rejected (Hint: {})", message.reject_hint);
    }
    if message.commit.0 != 0 {
        let _ = write!(text, " Commit:{}", message.commit);
    }
    if let Some(vote) = message.vote {
        let _ = write!(text, " Vote:{}", vote.0);
    }
    match message.entries.as_slice() {
        [] => {}
        [one] => {
            let _ = write!(text, " Entries:[{}]", entry(one));
        }
        several => {
            text.push_str(" Entries:[");
            for one in several {
                let _ = write!(text, "\n{indent}  {}", entry(one));
            }
            let _ = write!(text, "\n{indent}]");
        }
    }
    if let Some(carried) = message.snapshot.as_ref().filter(|carried| !carried.is_empty()) {
        let _ = write!(text, "\n{indent}  Snapshot: {}", snapshot(carried));
    }
    if !message.responses.is_empty() {
        text.push_str(" Responses:[");
        for response in &message.responses {
            let _ = write!(text, "\n{}", indented_message(&format!("{indent}  "), response));
        }
        let _ = write!(text, "\n{indent}]");
    }
    text
}

/// Prints a `Ready`. With asynchronous storage writes, entries and states are taken from the
/// messages to the storage threads and also printed in their usual place.
#[must_use]
pub fn ready(ready: &Ready) -> String {
    let to_thread = |kind| ready.messages.iter().find(|message| message.kind == kind);
    let append = to_thread(MessageType::MsgStorageAppend);
    let apply = to_thread(MessageType::MsgStorageApply);
    let saved = append.map_or(ready.entries.as_slice(), |append| &append.entries);
    let applied = apply.map_or(ready.committed_entries.as_slice(), |apply| &apply.entries);
    let state = append.and_then(Message::hard_state).or(ready.hard_state);
    let received = append.and_then(|append| append.snapshot.as_deref()).or(ready.snapshot.as_ref());

    let mut text = String::new();
    if let Some(state) = &ready.soft_state {
        let _ = writeln!(text, "{}", soft_state(state));
    }
    if let Some(state) = &state {
        let _ = writeln!(text, "HardState {}", hard_state(state));
    }
    if !ready.read_states.is_empty() {
        let _ = writeln!(text, "ReadStates {}", read_states(&ready.read_states));
    }
    if !saved.is_empty() {
        let _ = write!(text, "Entries:\n{}", entries(saved));
    }
    if let Some(received) = received {
        let _ = writeln!(text, "Snapshot {}", snapshot(received));
    }
    if !applied.is_empty() {
        let _ = write!(text, "CommittedEntries:\n{}", entries(applied));
    }
    if !ready.messages.is_empty() {
        text.push_str("Messages:\n");
        for one in &ready.messages {
            let _ = writeln!(text, "{}", message(one));
        }
    }
    if text.is_empty() {
        return "<empty Ready>".to_owned();
    }
    format!("Ready MustSync={}:\n{text}", ready.must_sync)
}

/// `[{11 [102 111 111]}]`: index and context bytes of each read.
fn read_states(states: &[ReadState]) -> String {
    let one = |state: &ReadState| {
        let context: Vec<_> = state.request_context.iter().map(u8::to_string).collect();
        format!("{{{} [{}]}}", state.index, context.join(" "))
    };
    format!("[{}]", states.iter().map(one).collect::<Vec<_>>().join(" "))
}

fn ids(ids: &[MemberId]) -> String {
    let ids: Vec<_> = ids.iter().map(|id| id.0.to_string()).collect();
    format!("[{}]", ids.join(" "))
}

fn target(id: MemberId) -> String {
    match id {
        MemberId(0) => "None".to_owned(),
        LOCAL_APPEND_THREAD => "AppendThread".to_owned(),
        LOCAL_APPLY_THREAD => "ApplyThread".to_owned(),
        member => member.to_string(),
    }
}
