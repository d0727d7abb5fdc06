//! A log from its first entry on.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use env::OsDisk;
use prost::Message as _;
use proto::etcdserverpb::Metadata;
use proto::raftpb::{Entry, HardState};
use wal::{RecordKind, Records};

/// What a log says in the end.
pub(crate) struct Log {
    /// Whose log it is.
    pub(crate) metadata: Metadata,
    /// The last state that was saved.
    pub(crate) state: HardState,
    entries: BTreeMap<u64, Entry>,
}

impl Log {
    /// Reads it, a torn end left out.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Log> {
        let mut log = Log {
            metadata: Metadata::default(),
            state: HardState::default(),
            entries: BTreeMap::new(),
        };
        let mut records = Records::open(&OsDisk, folder)?;
        loop {
            match records.next() {
                Ok(Some(record)) => log.add(record.kind, &record.data)?,
                Ok(None) => break,
                Err(error) if error.is_torn() => break,
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(log.entries.contains_key(&1), "the log does not begin with its first entry");
        Ok(log)
    }

    /// The entries that are known to be committed.
    pub(crate) fn committed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.range(..=self.state.commit()).map(|(_, entry)| entry)
    }

    /// An entry takes the place of those that were there at its index and behind.
    fn add(&mut self, kind: RecordKind, data: &[u8]) -> anyhow::Result<()> {
        match kind {
            RecordKind::Metadata => self.metadata = Metadata::decode(data)?,
            RecordKind::Entry => {
                let entry = Entry::decode(data)?;
                self.entries.split_off(&entry.index());
                self.entries.insert(entry.index(), entry);
            }
            RecordKind::State => self.state = HardState::decode(data)?,
            RecordKind::Crc | RecordKind::Snapshot => {}
        }
        Ok(())
    }
}
