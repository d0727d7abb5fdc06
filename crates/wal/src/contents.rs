//! The messages in records, read strictly.
//!
//! The kind of a record is under no checksum. Should one bit of it flip, an entry becomes a state or a state an entry,
//! and because all their fields are numbers, both would decode: etcd would take index 83 of an entry for a commit
//! index, or let a state overwrite the log. So a message is taken only if it is one that a member would have written:
//!
//! | | must | else it may be |
//! | --- | --- | --- |
//! | any | have nothing but the fields of its type | a message of another type |
//! | state | have all three fields, with a term | an entry, whose first field is absent or 0 |
//! | entry | have a term and an index; data, if it changes members | a state, or one with its zeros dropped |

use bytes::Bytes;
use prost::Message;
use proto::raftpb::{Entry, EntryType, HardState};
use proto::walpb::Snapshot;

use crate::error::ReadError;
use crate::reader::Record;

/// The entry in a record.
pub fn entry(record: &Record) -> Result<Entry, ReadError> {
    let entry: Entry = message(record)?;
    let kind = EntryType::try_from(entry.r#type.unwrap_or_default());
    match kind {
        _ if entry.term() == 0 || entry.index() == 0 => {
            Err(record.damaged("an entry without term or index"))
        }
        Err(_) => Err(record.damaged("an entry of an unknown type")),
        Ok(EntryType::EntryConfChange) if entry.data().is_empty() => {
            Err(record.damaged("a change of members without data"))
        }
        Ok(_) => Ok(entry),
    }
}

/// The state in a record.
pub fn state(record: &Record) -> Result<HardState, ReadError> {
    let state: HardState = message(record)?;
    match (state.term, state.vote, state.commit) {
        (Some(1..), Some(_), Some(_)) => Ok(state),
        _ => Err(record.damaged("a state without term, vote or commit index")),
    }
}

/// The snapshot in a record.
pub fn snapshot(record: &Record) -> Result<Snapshot, ReadError> {
    message(record)
}

/// A message without anything that its type does not know. All fields that are known are written again at the same
/// length, so what is missing from the length is unknown.
fn message<M: Message + Default>(record: &Record) -> Result<M, ReadError> {
    let message = M::decode(Bytes::clone(&record.data))
        .map_err(|_| record.damaged("the message does not decode"))?;
    if message.encoded_len() == record.data.len() {
        Ok(message)
    } else {
        Err(record.damaged("the message has unknown fields"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::error::Place;

    fn record(kind: Kind, message: &impl Message) -> Record {
        let place = Place { file: "x.wal".into(), offset: 0 };
        Record { kind, crc: 0, data: message.encode_to_vec().into(), place }
    }

    fn an_entry(kind: Option<EntryType>, data: Option<&'static [u8]>) -> Entry {
        Entry {
            r#type: kind.map(|kind| kind as i32),
            term: Some(7),
            index: Some(83),
            data: data.map(Bytes::from_static),
        }
    }

    #[test]
    fn what_members_write_is_taken() {
        for kind in [None, Some(EntryType::EntryNormal)] {
            for data in [None, Some(&b""[..]), Some(b"data")] {
                let written = an_entry(kind, data);
                assert_eq!(entry(&record(Kind::Entry, &written)).unwrap(), written);
            }
        }
        let change = an_entry(Some(EntryType::EntryConfChange), Some(b"x"));
        assert_eq!(entry(&record(Kind::Entry, &change)).unwrap(), change);
        let written = HardState { term: Some(1), vote: Some(0), commit: Some(0) };
        assert_eq!(state(&record(Kind::State, &written)).unwrap(), written);
    }

    #[test]
    fn an_entry_is_not_taken_for_a_state() {
        let change = an_entry(Some(EntryType::EntryConfChange), Some(b"x"));
        for written in [
            an_entry(None, None),
            an_entry(None, Some(b"data")),
            an_entry(Some(EntryType::EntryNormal), None),
            an_entry(Some(EntryType::EntryNormal), Some(b"data")),
            change,
        ] {
            let text = state(&record(Kind::State, &written)).unwrap_err().to_string();
            assert!(
                text.starts_with("wal: damaged record: in file 'x.wal' at position: 0"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_state_is_not_taken_for_an_entry() {
        for term in [1, 3, 4, 1000] {
            let written = HardState { term: Some(term), vote: Some(9), commit: Some(83) };
            assert!(entry(&record(Kind::Entry, &written)).is_err(), "term {term}");
        }
        let voteless = HardState { term: Some(2), vote: Some(0), commit: Some(83) };
        assert!(entry(&record(Kind::Entry, &voteless)).is_err());
    }
}
