//! Reads a complete log.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use env::OsDisk;
use prost::Message as _;
use proto::etcdserverpb::Metadata;
use proto::raftpb::{Entry, HardState};
use wal::{RecordKind, Records};

/// The content of a log.
pub(crate) struct Log {
    /// Cluster and member that wrote the log.
    pub(crate) metadata: Metadata,
    /// The last saved hard state.
    pub(crate) state: HardState,
    entries: BTreeMap<u64, Entry>,
}

impl Log {
    /// Reads all records up to the end or a torn tail.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Log> {
        let mut log = Log {
            metadata: Metadata::default(),
            state: HardState::default(),
            entries: BTreeMap::new(),
        };
        let mut records = Records::open(&OsDisk, dir)?;
        loop {
            match records.next() {
                Ok(Some(record)) => log.add(record.kind, &record.data)?,
                Ok(None) => break,
                Err(error) if error.is_torn() => break,
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(log.entries.contains_key(&1), "the log does not contain entry 1");
        Ok(log)
    }

    /// The entries up to the last saved commit index.
    pub(crate) fn committed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.range(..=self.state.commit()).map(|(_, entry)| entry)
    }

    /// Adds a record. An entry replaces all earlier ones at its index and above.
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
