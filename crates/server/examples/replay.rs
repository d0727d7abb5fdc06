//! Applies a member's log from its first entry to a new database: `replay DATA_DIR NEW_DB [--ttl-min SECONDS]`.
//!
//! What comes out is to be compared with the database of the member that wrote the log. The log must be there from its beginning; its entries
//! are applied as far as they are known to be committed, and every compaction is finished before the next entry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use auth::{AuthStore, Cost, Tokens};
use backend::Backend;
use env::{Clock, OsClock, OsDisk};
use membership::quota::Quota;
use membership::{Cluster, ClusterId, LEARNERS_MAX_DEFAULT, Membership};
use mvcc::CompactionTurn;
use prost::Message as _;
use proto::etcdserverpb::Metadata;
use proto::raftpb::{ConfChange, ConfChangeType, ConfState, Entry, HardState};
use server::{Applied, ConfChanges, Config, StateMachine};
use types::{Index, MemberId};
use wal::{Kind, Records};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, to, ttl_min) = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        [folder, to] => (*folder, *to, lease::TTL_MIN_SECONDS_DEFAULT),
        [folder, to, "--ttl-min", seconds] => (*folder, *to, seconds.parse()?),
        _ => bail!("usage: replay DATA_DIR NEW_DB [--ttl-min SECONDS]"),
    };
    let log = Log::read(&Path::new(folder).join("member").join("wal"))?;
    let machine = open(Path::new(to), &log.metadata, ttl_min)?;
    let mut voters = Voters::default();
    let mut tally = BTreeMap::<&str, usize>::new();
    for entry in log.entries.values().filter(|entry| entry.index() <= log.commit) {
        let entry = raft::Entry::try_from(entry.clone())?;
        let applied = machine
            .apply(&entry, &|_| true, &mut voters)
            .with_context(|| format!("apply entry {}", entry.index))?;
        *tally.entry(kind_of(&applied)).or_default() += 1;
        while machine.store.turn_compaction()? == CompactionTurn::More {}
    }
    let (hash, revision) = machine.store.hash_kv(0)?;
    println!("revision {revision} hash {} compacted {}", hash.hash, hash.compact_revision);
    tally.iter().for_each(|(kind, count)| println!("{kind} {count}"));
    let StateMachine { backend, store, .. } = machine;
    drop(store);
    Ok(backend.close()?)
}

fn kind_of(applied: &Applied) -> &'static str {
    match applied {
        Applied::Already => "already",
        Applied::Empty => "empty",
        Applied::Request(outcome) => match &outcome.result {
            Some(Ok(_)) => "requests",
            Some(Err(_)) => "refused",
            None => "skipped",
        },
        Applied::ConfChange { result: Ok(()), .. } => "conf changes",
        Applied::ConfChange { .. } => "conf changes refused",
    }
}

struct Log {
    metadata: Metadata,
    entries: BTreeMap<u64, Entry>,
    commit: u64,
}

impl Log {
    /// An entry takes the place of those that were there at its index and behind.
    fn read(folder: &Path) -> anyhow::Result<Log> {
        let mut log = Log { metadata: Metadata::default(), entries: BTreeMap::new(), commit: 0 };
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

    fn add(&mut self, kind: Kind, data: &[u8]) -> anyhow::Result<()> {
        match kind {
            Kind::Metadata => self.metadata = Metadata::decode(data)?,
            Kind::Entry => {
                let entry = Entry::decode(data)?;
                self.entries.split_off(&entry.index());
                self.entries.insert(entry.index(), entry);
            }
            Kind::State => self.commit = HardState::decode(data)?.commit(),
            Kind::Crc | Kind::Snapshot => {}
        }
        Ok(())
    }
}

fn open(path: &Path, metadata: &Metadata, ttl_min_seconds: i64) -> anyhow::Result<StateMachine> {
    ensure!(!path.exists(), "{} is there already", path.display());
    let clock: Arc<dyn Clock> = Arc::new(OsClock::default());
    let disk = Arc::new(OsDisk);
    let backend = Backend::open(disk, Arc::clone(&clock), path, backend::Config::default())?;
    let auth = AuthStore::new(Tokens::Nop, Arc::clone(&clock), Cost::default());
    let (id, local) = (ClusterId(metadata.cluster_id()), MemberId(metadata.node_id()));
    let cluster = Cluster::new(id, local, LEARNERS_MAX_DEFAULT, Membership::default());
    let config = Config {
        store: mvcc::Config::default(),
        lease: lease::Config { ttl_min_seconds, ..lease::Config::default() },
        watch: mvcc::watch::Config::new(1),
        wake_watch: Arc::new(|| {}),
        quota: Quota::new(-1),
    };
    Ok(StateMachine::open(backend, clock, auth, cluster, config)?)
}

/// Who votes, without consensus: each change is of one member.
#[derive(Default)]
struct Voters {
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
}

impl ConfChanges for Voters {
    fn apply(&mut self, _: Index, change: &ConfChange) -> ConfState {
        let id = change.node_id();
        if id != 0 && change.r#type() != ConfChangeType::ConfChangeUpdateNode {
            self.voters.remove(&id);
            self.learners.remove(&id);
        }
        match change.r#type() {
            _ if id == 0 => {}
            ConfChangeType::ConfChangeAddNode => drop(self.voters.insert(id)),
            ConfChangeType::ConfChangeAddLearnerNode => drop(self.learners.insert(id)),
            ConfChangeType::ConfChangeRemoveNode | ConfChangeType::ConfChangeUpdateNode => {}
        }
        ConfState {
            voters: self.voters.iter().copied().collect(),
            learners: self.learners.iter().copied().collect(),
            auto_leave: Some(false),
            ..ConfState::default()
        }
    }
}
