//! The start of a member: with a valid configuration, from its storage, or in a new cluster.

use bytes::Bytes;
use raft::{
    BootstrapError, ConfState, Config, ConfigError, Entry, EntryType, HardState, MemoryStorage,
    Message, MessageType, Peer, RawNode, ReadOnlyOption, RoleKind, Snapshot, SnapshotMetadata,
    StartError, describe,
};
use testkit::waiting::step_until;
use types::{Index, MemberId, Term};

fn alone() -> MemoryStorage {
    MemoryStorage::with_conf_state(ConfState::of_voters([MemberId(1)]))
}

fn config_error(change: impl FnOnce(&mut Config)) -> ConfigError {
    let mut config = Config::new(MemberId(1));
    change(&mut config);
    match RawNode::new(config, alone()).map(drop) {
        Err(StartError::Config(error)) => error,
        other => panic!("expected a configuration error, got {other:?}"),
    }
}

#[test]
fn an_invalid_configuration_is_rejected() {
    assert_eq!(config_error(|config| config.id = MemberId(0)), ConfigError::NoId);
    assert_eq!(config_error(|config| config.id = MemberId(u64::MAX)), ConfigError::LocalThreadId);
    assert_eq!(config_error(|config| config.heartbeat_ticks = 0), ConfigError::NoHeartbeat);
    assert_eq!(config_error(|config| config.election_ticks = 1), ConfigError::ElectionTooShort);
    assert_eq!(config_error(|config| config.max_inflight_messages = 0), ConfigError::NoInflight);
    assert_eq!(config_error(|config| config.max_inflight_bytes = 1), ConfigError::InflightTooSmall);
    assert_eq!(
        config_error(|config| config.read_only_option = ReadOnlyOption::LeaseBased),
        ConfigError::LeaseWithoutCheckQuorum
    );
}

#[test]
fn a_saved_commit_index_outside_the_log_is_rejected() {
    let mut storage = alone();
    storage.append(&[Entry { term: Term(1), index: Index(1), ..Entry::default() }]).unwrap();
    storage.set_hard_state(HardState { term: Term(1), vote: None, commit: Index(2) });
    let error = RawNode::new(Config::new(MemberId(1)), storage).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "saved commit 2 is out of range [0, 1]");
}

#[test]
fn an_applied_index_beyond_the_log_is_rejected() {
    let config = Config { applied: Index(1), ..Config::new(MemberId(1)) };
    let error = RawNode::new(config, alone()).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "applied 1 is out of range [0, 0]");
}

#[test]
fn an_inconsistent_saved_configuration_is_rejected() {
    let both = ConfState { learners: vec![MemberId(1)], ..ConfState::of_voters([MemberId(1)]) };
    let storage = MemoryStorage::with_conf_state(both);
    let error = RawNode::new(Config::new(MemberId(1)), storage).map(drop).unwrap_err();
    assert!(matches!(error, StartError::ConfState(_)), "{error}");
}

#[test]
fn applied_entries_are_not_handed_out_again() {
    let mut storage = alone();
    let entry = |index| Entry { term: Term(1), index: Index(index), ..Entry::default() };
    storage.append(&[entry(1), entry(2), entry(3)]).unwrap();
    storage.set_hard_state(HardState { term: Term(1), vote: None, commit: Index(3) });
    let config = Config { applied: Index(2), ..Config::new(MemberId(1)) };
    let mut node = RawNode::new(config, storage).unwrap();
    assert_eq!(node.ready().committed_entries, [entry(3)]);
}

#[test]
fn a_second_conf_change_in_the_log_implies_that_the_first_is_committed() {
    let change = |index| Entry {
        term: Term(1),
        index: Index(index),
        kind: EntryType::ConfChangeV2,
        ..Entry::default()
    };
    let normal = |index| Entry { term: Term(1), index: Index(index), ..Entry::default() };
    let mut storage = alone();
    storage.append(&[normal(1), change(2), normal(3), change(4), normal(5)]).unwrap();
    // The crash preserved the entries and lost the hard state after them, possibly the first one.
    for saved in [HardState { term: Term(1), vote: None, commit: Index(1) }, HardState::default()] {
        storage.set_hard_state(saved);
        let node = RawNode::new(Config::new(MemberId(1)), storage.clone()).unwrap();
        assert_eq!(node.basic_status().hard_state.commit, Index(2), "{saved:?}");
    }
}

#[test]
fn applied_entries_are_committed_whatever_was_saved() {
    let mut storage = alone();
    let entry = |index| Entry { term: Term(1), index: Index(index), ..Entry::default() };
    storage.append(&[entry(1), entry(2)]).unwrap();
    storage.set_hard_state(HardState { term: Term(1), vote: None, commit: Index(1) });
    let config = Config { applied: Index(2), ..Config::new(MemberId(1)) };
    let node = RawNode::new(config, storage).unwrap();
    assert_eq!(node.basic_status().hard_state.commit, Index(2));
    assert!(!node.has_ready(), "applied entries were handed out again");
}

#[test]
fn entries_in_a_snapshot_are_committed_whatever_was_saved() {
    let mut storage = alone();
    let entry = |index| Entry { term: Term(1), index: Index(index), ..Entry::default() };
    storage.append(&[entry(1), entry(2), entry(3)]).unwrap();
    // The commit index need not be saved at once, so the snapshot may be ahead of it.
    storage.set_hard_state(HardState { term: Term(1), vote: None, commit: Index(1) });
    storage.create_snapshot(Index(2), None, Bytes::new()).unwrap();
    storage.compact(Index(2)).unwrap();
    let node = RawNode::new(Config::new(MemberId(1)), storage).unwrap();
    assert_eq!(node.basic_status().hard_state.commit, Index(2));
}

#[test]
fn a_conf_change_older_than_a_restored_snapshot_is_skipped() {
    let members = ConfState::of_voters([MemberId(1), MemberId(2)]);
    let storage = MemoryStorage::with_conf_state(members);
    let mut node = RawNode::new(Config::new(MemberId(1)), storage).unwrap();
    // The snapshot arrives while the change at 5 is being applied.
    let restored = ConfState::of_voters([MemberId(1), MemberId(3)]);
    let metadata =
        SnapshotMetadata { conf_state: restored.clone(), index: Index(10), term: Term(1) };
    node.step(Message {
        from: MemberId(2),
        term: Term(1),
        snapshot: Some(Box::new(Snapshot { data: Bytes::new(), metadata })),
        ..Message::new(MessageType::MsgSnap, MemberId(1))
    })
    .unwrap();
    let learner = |id| raft::ConfChange {
        kind: raft::ConfChangeType::AddLearnerNode,
        node_id: MemberId(id),
        ..raft::ConfChange::default()
    };
    assert_eq!(node.apply_conf_change(Index(5), &learner(4).into()), Ok(None));
    let next = ConfState { learners: vec![MemberId(5)], ..restored };
    assert_eq!(node.apply_conf_change(Index(11), &learner(5).into()), Ok(Some(next)));
}

fn peers(ids: &[u64]) -> Vec<Peer> {
    let peer = |&id: &u64| Peer { id: MemberId(id), context: Bytes::from(format!("member {id}")) };
    ids.iter().map(peer).collect()
}

#[test]
fn bootstrap_writes_an_entry_for_each_member() {
    let mut node = RawNode::new(Config::new(MemberId(1)), MemoryStorage::new()).unwrap();
    node.bootstrap(&peers(&[1, 2, 3])).unwrap();
    let ready = node.ready();
    assert!(ready.must_sync);
    assert_eq!(ready.hard_state, Some(HardState { term: Term(1), vote: None, commit: Index(3) }));
    let texts: Vec<String> = ready.entries.iter().map(describe::entry).collect();
    assert_eq!(
        texts,
        ["1/1 EntryConfChange v1", "1/2 EntryConfChange v2", "1/3 EntryConfChange v3"]
    );
    // Compat: as in etcd, type 0, node id, context, and no request id.
    assert_eq!(ready.entries[1].kind, EntryType::ConfChange);
    assert_eq!(&ready.entries[1].data[..], b"\x10\x00\x18\x02\x22\x08member 2");
    assert_eq!(ready.committed_entries, ready.entries);
}

#[test]
fn a_bootstrapped_member_can_campaign_before_applying_entries() {
    let mut node = RawNode::new(Config::new(MemberId(1)), MemoryStorage::new()).unwrap();
    node.bootstrap(&peers(&[1])).unwrap();
    let mut conf_state = None;
    step_until("the member has nothing left to do", || {
        if !node.has_ready() {
            return true;
        }
        let ready = node.ready();
        node.storage_mut().append(&ready.entries).unwrap();
        for entry in ready.committed_entries.iter().filter(|entry| entry.kind.is_conf_change()) {
            let change = raft::wire::decode_conf_change(entry.kind, &entry.data).unwrap();
            conf_state = node.apply_conf_change(entry.index, &change).unwrap();
        }
        node.advance();
        if node.basic_status().hard_state.term == Term(1) {
            node.campaign();
        }
        false
    });
    // Applying a change that is already in force changes nothing.
    assert_eq!(conf_state, Some(ConfState::of_voters([MemberId(1)])));
    assert_eq!(node.basic_status().soft_state.role, RoleKind::Leader);
}

#[test]
fn bootstrap_needs_peers_and_an_empty_storage() {
    let start = |storage, peers: &[Peer]| {
        RawNode::new(Config::new(MemberId(1)), storage).unwrap().bootstrap(peers)
    };
    assert_eq!(start(MemoryStorage::new(), &[]), Err(BootstrapError::NoPeers));
    assert_eq!(start(MemoryStorage::new(), &peers(&[1, 1])), Err(BootstrapError::BadPeers));
    assert_eq!(start(MemoryStorage::new(), &peers(&[0])), Err(BootstrapError::BadPeers));
    assert_eq!(start(MemoryStorage::new(), &peers(&[u64::MAX])), Err(BootstrapError::BadPeers));
    let too_many: Vec<u64> = (1..=129).collect();
    assert_eq!(start(MemoryStorage::new(), &peers(&too_many)), Err(BootstrapError::BadPeers));
    let mut used = MemoryStorage::new();
    used.append(&[Entry { term: Term(1), index: Index(1), ..Entry::default() }]).unwrap();
    assert_eq!(start(used, &peers(&[1])), Err(BootstrapError::NotEmpty));
}
