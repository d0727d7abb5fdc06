//! The replicated state machine: a digest of all applied entries, which suffices for comparison.

use bytes::Bytes;
use raft::{ConfState, Entry, EntryId, Snapshot, SnapshotMetadata};
use simkit::Digest;
use types::{Index, Term};

/// The prefix of proposals made after the faults.
pub(crate) const HEALED_MARK: &[u8] = b"healed ";

/// The state machine of a member.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// The last applied entry.
    pub(crate) applied: EntryId,
    /// The digest of all applied entries.
    pub(crate) digest: Digest,
    /// The number of applied entries that were proposed after the faults.
    pub(crate) healed: u32,
    /// The configuration in force at `applied`.
    pub(crate) conf: ConfState,
}

impl App {
    /// Returns the state before the first entry.
    pub(crate) fn genesis(conf: ConfState) -> App {
        App { applied: EntryId::default(), digest: Digest::EMPTY, healed: 0, conf }
    }

    /// Applies the next entry.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        self.applied = entry.id();
        self.digest = next_digest(self.digest, entry);
        self.healed += u32::from(entry.data.starts_with(HEALED_MARK));
    }

    pub(crate) fn to_snapshot(&self) -> Snapshot {
        let EntryId { term, index } = self.applied;
        let mut data = self.digest.value().to_le_bytes().to_vec();
        data.extend(self.healed.to_le_bytes());
        let metadata = SnapshotMetadata { conf_state: self.conf.clone(), index, term };
        Snapshot { data: data.into(), metadata }
    }

    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> App {
        let conf = snapshot.metadata.conf_state.clone();
        if snapshot.is_empty() {
            return App::genesis(conf);
        }
        let (digest, healed) =
            decode(&snapshot.data).expect("snapshot data was written by to_snapshot");
        App { applied: snapshot.id(), digest, healed, conf }
    }
}

fn decode(data: &Bytes) -> Option<(Digest, u32)> {
    let (digest, healed) = data.split_first_chunk()?;
    let digest = Digest::from_value(u64::from_le_bytes(*digest));
    Some((digest, u32::from_le_bytes(healed.try_into().ok()?)))
}

fn next_digest(digest: Digest, entry: &Entry) -> Digest {
    let Entry { term: Term(term), index: Index(index), .. } = entry;
    digest.with(*term).with(*index).with(entry_digest(entry).value())
}

/// Returns the digest of an entry's content, independent of its position.
pub(crate) fn entry_digest(entry: &Entry) -> Digest {
    let kind = match entry.kind {
        raft::EntryType::Normal => 0,
        raft::EntryType::ConfChange => 1,
        raft::EntryType::ConfChangeV2 => 2,
    };
    Digest::of(&entry.data).with(kind)
}
