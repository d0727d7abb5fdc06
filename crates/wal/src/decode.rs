//! Strict decoding of the messages in records.
//!
//! No checksum covers the kind of a record. A flipped bit turns an entry into a state or a state
//! into an entry, and because all their fields are numbers, both would decode: etcd would take
//! index 83 of an entry for a commit index, or let a state overwrite the log. So a message is
//! accepted only if a member could have written it:
//!
//! | | requirement | otherwise it may be |
//! | --- | --- | --- |
//! | any | only the fields of its type | a message of another type |
//! | state | all three fields, with a term | an entry, whose first field is absent or 0 |
//! | entry | a term and an index; data, if a conf change | a state, with or without its zeros |

use bytes::Bytes;
use prost::Message;
use proto::raftpb::{Entry, EntryType, HardState};
use proto::walpb::Snapshot;

use crate::error::ReadError;
use crate::reader::Record;

/// Decodes the entry in a record.
pub fn decode_entry(record: &Record) -> Result<Entry, ReadError> {
    let entry: Entry = message(record)?;
    let kind = EntryType::try_from(entry.r#type.unwrap_or_default());
    match kind {
        _ if entry.term() == 0 || entry.index() == 0 => {
            Err(record.corrupt("entry without term or index"))
        }
        Err(_) => Err(record.corrupt("unknown entry type")),
        Ok(EntryType::EntryConfChange) if entry.data().is_empty() => {
            Err(record.corrupt("conf change without data"))
        }
        Ok(_) => Ok(entry),
    }
}

/// Decodes the hard state in a record.
pub fn decode_state(record: &Record) -> Result<HardState, ReadError> {
    let state: HardState = message(record)?;
    match (state.term, state.vote, state.commit) {
        (Some(1..), Some(_), Some(_)) => Ok(state),
        _ => Err(record.corrupt("state without term, vote or commit index")),
    }
}

/// Decodes the snapshot in a record.
pub fn decode_snapshot(record: &Record) -> Result<Snapshot, ReadError> {
    message(record)
}

/// Decodes a message and rejects unknown fields: known fields encode to the same length again, so a
/// difference in length reveals unknown ones.
fn message<M: Message + Default>(record: &Record) -> Result<M, ReadError> {
    let message = M::decode(Bytes::clone(&record.data))
        .map_err(|_| record.corrupt("message does not decode"))?;
    if message.encoded_len() == record.data.len() {
        Ok(message)
    } else {
        Err(record.corrupt("message has unknown fields"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordKind;
    use crate::error::RecordLocation;

    fn record(kind: RecordKind, message: &impl Message) -> Record {
        let location = RecordLocation { file: "x.wal".into(), offset: 0 };
        Record { kind, crc: 0, data: message.encode_to_vec().into(), location }
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
    fn messages_written_by_members_are_accepted() {
        for kind in [None, Some(EntryType::EntryNormal)] {
            for data in [None, Some(&b""[..]), Some(b"data")] {
                let written = an_entry(kind, data);
                assert_eq!(decode_entry(&record(RecordKind::Entry, &written)).unwrap(), written);
            }
        }
        let change = an_entry(Some(EntryType::EntryConfChange), Some(b"x"));
        assert_eq!(decode_entry(&record(RecordKind::Entry, &change)).unwrap(), change);
        let written = HardState { term: Some(1), vote: Some(0), commit: Some(0) };
        assert_eq!(decode_state(&record(RecordKind::State, &written)).unwrap(), written);
    }

    #[test]
    fn an_entry_does_not_decode_as_a_state() {
        let change = an_entry(Some(EntryType::EntryConfChange), Some(b"x"));
        for written in [
            an_entry(None, None),
            an_entry(None, Some(b"data")),
            an_entry(Some(EntryType::EntryNormal), None),
            an_entry(Some(EntryType::EntryNormal), Some(b"data")),
            change,
        ] {
            let text = decode_state(&record(RecordKind::State, &written)).unwrap_err().to_string();
            assert!(
                text.starts_with("wal: corrupt record: in file 'x.wal' at position: 0"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_state_does_not_decode_as_an_entry() {
        for term in [1, 3, 4, 1000] {
            let written = HardState { term: Some(term), vote: Some(9), commit: Some(83) };
            assert!(decode_entry(&record(RecordKind::Entry, &written)).is_err(), "term {term}");
        }
        let voteless = HardState { term: Some(2), vote: Some(0), commit: Some(83) };
        assert!(decode_entry(&record(RecordKind::Entry, &voteless)).is_err());
    }
}
