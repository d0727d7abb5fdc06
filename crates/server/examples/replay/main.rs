//! Applies the log of a member to a new database, for comparison with the member's own database.
//!
//! Usage: `replay DATA_DIR NEW_DB [--ttl-min SECONDS] [--member OUT_DIR]`.
//!
//! The log must be complete from its first entry. All entries that are known to be committed are
//! applied, and each compaction is finished before the next entry. `--member` also creates a data
//! directory, with a snapshot in place of the log, from which an etcd member can continue.

mod log;
mod member;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use auth::{AuthStore, Cost, Tokens};
use backend::Backend;
use env::{Clock, OsClock, OsDisk};
use membership::{Cluster, ClusterId, LEARNERS_MAX_DEFAULT, Membership};
use mvcc::CompactionTurn;
use proto::etcdserverpb::Metadata;
use server::quota::Quota;
use server::{Applied, Config, StateMachine};
use types::MemberId;

use log::Log;
use member::DatabaseImage;
use server::Voters;

const USAGE: &str = "usage: replay DATA_DIR NEW_DB [--ttl-min SECONDS] [--member OUT_DIR]";

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let log = Log::read(&arguments.from.join("member").join("wal"))?;
    let state_machine = open(&arguments.to, &log.metadata, arguments.ttl_min_seconds)?;
    let mut voters = Voters::default();
    apply(&state_machine, &log, &mut voters)?;
    let image = DatabaseImage::of(&state_machine, voters.conf_state())?;
    state_machine.close()?;
    match arguments.member {
        Some(dir) => member::assemble(&dir, &arguments.to, &log, &image),
        None => Ok(()),
    }
}

struct Arguments {
    from: PathBuf,
    to: PathBuf,
    ttl_min_seconds: i64,
    member: Option<PathBuf>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
        let mut word = || words.next();
        let (from, to) = (word().context(USAGE)?.into(), word().context(USAGE)?.into());
        let ttl_min_seconds = lease::TTL_MIN_SECONDS_DEFAULT;
        let mut arguments = Arguments { from, to, ttl_min_seconds, member: None };
        while let Some(flag) = word() {
            let value = word().context(USAGE)?;
            match &*flag {
                "--ttl-min" => arguments.ttl_min_seconds = value.parse()?,
                "--member" => arguments.member = Some(value.into()),
                _ => bail!(USAGE),
            }
        }
        Ok(arguments)
    }
}

/// Applies the committed entries and prints the hash and the counts of results.
fn apply(state_machine: &StateMachine, log: &Log, voters: &mut Voters) -> anyhow::Result<()> {
    let mut tally = BTreeMap::<&str, usize>::new();
    for entry in log.committed() {
        let entry = raft::Entry::try_from(entry.clone())?;
        let applied = state_machine
            .apply(&entry, &|_| true, voters)
            .with_context(|| format!("apply entry {}", entry.index))?;
        *tally.entry(kind_of(&applied)).or_default() += 1;
        while state_machine.store().turn_compaction()? != CompactionTurn::Idle {}
    }
    let (hash, revision) = state_machine.store().hash_kv(0)?;
    println!("revision {revision} hash {} compacted {}", hash.hash, hash.compact_revision);
    tally.iter().for_each(|(kind, count)| println!("{kind} {count}"));
    Ok(())
}

fn kind_of(applied: &Applied) -> &'static str {
    match applied {
        Applied::AlreadyApplied => "already",
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

fn open(path: &Path, metadata: &Metadata, ttl_min_seconds: i64) -> anyhow::Result<StateMachine> {
    ensure!(!path.exists(), "{} already exists", path.display());
    let clock: Arc<dyn Clock> = Arc::new(OsClock::default());
    let disk = Arc::new(OsDisk);
    let backend = Backend::open(disk, Arc::clone(&clock), path, backend::Config::default())?;
    let auth = AuthStore::new(Tokens::Nop, Arc::clone(&clock), Cost::default());
    let (id, local) = (ClusterId(metadata.cluster_id()), MemberId(metadata.node_id()));
    let cluster = Cluster::new(id, local, LEARNERS_MAX_DEFAULT, Membership::default());
    let config = Config {
        store: mvcc::Config::default(),
        lease: lease::Config { ttl_min_seconds, ..lease::Config::default() },
        watch: mvcc::watch::Config::default(),
        wake_watch: Arc::new(|| {}),
        quota: Quota::new(-1),
    };
    Ok(StateMachine::open(backend, clock, auth, cluster, config)?)
}
