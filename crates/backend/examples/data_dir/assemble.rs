//! Creates the data directory of a member: database, log and snapshot file that match each other.
//!
//! The log has one entry, which adds the member; the database has applied it, and the snapshot
//! covers it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use backend::schema::{Bucket, auth, cluster, keys, meta, version};
use backend::{Backend, Config};
use env::{Disk, OsClock, OsDisk};
use prost::Message as _;
use proto::etcdserverpb::Metadata;
use proto::raftpb::{self, ConfChange, ConfState, Entry, HardState, SnapshotMetadata};
use proto::walpb;
use serde_json::{Value as Json, json};
use types::{Index, MemberId, Term};
use wal::Wal;
use wal::snap::Snapshotter;

use crate::keys as history;

const NAME: &str = "default";
const PEER_URL: &str = "http://localhost:2380";

/// Derived from that URL and the default token, `etcd-cluster`.
const MEMBER: MemberId = MemberId(0x8e9e_05c5_2164_694d);
/// Derived from the single member.
const CLUSTER: u64 = 0xcdf8_1819_4e3a_8c32;

const INDEX: Index = Index(1);
const TERM: Term = Term(1);

/// Creates the directory, which must not exist.
pub(crate) fn assemble(dir: &Path) -> anyhow::Result<()> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    ensure!(disk.kind(dir)?.is_none(), "{} exists", dir.display());
    let member = dir.join("member");
    let snap = member.join("snap");
    disk.create_dir_all(&snap).context("create directory")?;
    database(&disk, &snap.join("db")).context("write database")?;
    let voters = ConfState { voters: vec![MEMBER.0], ..ConfState::default() };
    log(&disk, &member.join("wal"), &voters, || snapshot_file(&disk, &snap, &voters))
}

fn database(disk: &Arc<dyn Disk>, path: &Path) -> anyhow::Result<()> {
    let clock = Arc::new(OsClock::default());
    let backend = Backend::open(Arc::clone(disk), clock, path, Config::default())?;
    backend.create_buckets(&Bucket::ALL)?;
    history::write(&backend)?;
    let mut tx = backend.begin();
    tx.put(Bucket::Members, keys::member(MEMBER), member_json().to_string())?;
    let voters =
        ConfState { voters: vec![MEMBER.0], auto_leave: Some(false), ..ConfState::default() };
    meta::set_conf_state(&mut tx, &voters);
    auth::set_revision(&mut tx, 1);
    cluster::set_version(&mut tx, version::CURRENT);
    tx.set_applied(INDEX, TERM);
    version::migrate(&mut tx, version::CURRENT, None)?;
    tx.commit()?;
    Ok(backend.close()?)
}

/// Writes the log, with a snapshot after its only entry. The snapshot file is durable before the
/// log refers to it.
fn log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    voters: &ConfState,
    save_snapshot_file: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let metadata = Metadata { node_id: Some(MEMBER.0), cluster_id: Some(CLUSTER) };
    let mut log =
        Wal::create(Arc::clone(disk), dir, metadata.encode_to_vec(), wal::Config::default())
            .context("create log")?;
    let join = ConfChange {
        r#type: Some(raftpb::ConfChangeType::ConfChangeAddNode.into()),
        node_id: Some(MEMBER.0),
        context: Some(member_json().to_string().into()),
        id: None,
    };
    let entry = Entry {
        r#type: Some(raftpb::EntryType::EntryConfChange.into()),
        term: Some(TERM.0),
        index: Some(INDEX.0),
        data: Some(join.encode_to_vec().into()),
    };
    let state = HardState { term: Some(TERM.0), vote: Some(MEMBER.0), commit: Some(INDEX.0) };
    log.save(&state, &[entry], true).context("save entry")?;
    save_snapshot_file()?;
    let snapshot = walpb::Snapshot {
        index: Some(INDEX.0),
        term: Some(TERM.0),
        conf_state: Some(voters.clone()),
    };
    log.save_snapshot(&snapshot).context("save snapshot")?;
    log.close().context("close log")
}

fn snapshot_file(disk: &Arc<dyn Disk>, dir: &Path, voters: &ConfState) -> anyhow::Result<()> {
    let metadata = SnapshotMetadata {
        conf_state: Some(voters.clone()),
        index: Some(INDEX.0),
        term: Some(TERM.0),
    };
    let data = Some(members_json().to_string().into());
    let snapshot = raftpb::Snapshot { data, metadata: Some(metadata) };
    Snapshotter::new(Arc::clone(disk), dir).save(&snapshot).context("save snapshot file")
}

fn member_json() -> Json {
    json!({ "id": MEMBER.0, "name": NAME, "peerURLs": [PEER_URL] })
}

/// Encodes the members in the format of the v2 store, which etcd up to 3.6 reads.
fn members_json() -> Json {
    let attributes = json!({ "peerURLs": [PEER_URL] }).to_string();
    let at = format!("/0/members/{MEMBER}");
    let attributes = node(&format!("{at}/raftAttributes"), &attributes, &Json::Null);
    let member = node(&at, "", &json!({ "raftAttributes": attributes }));
    let members = node("/0/members", "", &json!({ MEMBER.to_string(): member }));
    let first = node("/0", "", &json!({ "members": members }));
    let second = node("/1", "", &json!({}));
    json!({
        "Root": node("/", "", &json!({ "0": first, "1": second })),
        "WatcherHub": { "EventHistory": events() },
        "CurrentIndex": 1,
        "Stats": {},
        "CurrentVersion": 2,
    })
}

fn node(path: &str, value: &str, children: &Json) -> Json {
    json!({
        "Path": path,
        "CreatedIndex": 1,
        "ModifiedIndex": 1,
        "ExpireTime": "0001-01-01T00:00:00Z",
        "Value": value,
        "Children": children,
    })
}

/// An empty event history with the capacity that the v2 store expects.
fn events() -> Json {
    const CAPACITY: usize = 1000;
    let queue = json!({
        "Events": vec![Json::Null; CAPACITY],
        "Size": 0,
        "Front": 0,
        "Back": 0,
        "Capacity": CAPACITY,
    });
    json!({ "Queue": queue, "StartIndex": 0, "LastIndex": 0 })
}
