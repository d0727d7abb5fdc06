//! Comparison of members: the bytes of the database, and the state in memory.

use std::collections::BTreeMap;

use backend::schema::Bucket;
use backend::{BackendView, Read};
use membership::Membership;
use mvcc::{Error, KeyValueHash, RangeResult, WatchableStore};
use proto::etcdserverpb::{
    AlarmMember, AuthRoleGetRequest, AuthStatusResponse, AuthUserGetRequest, RangeRequest,
};
use server::StateMachine;
use types::LeaseId;

/// Number of latest revisions at which keys are read.
const REVISIONS_MAX: i64 = 60;

/// Keys and values of a bucket, in key order.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The complete observable state of a member.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) buckets: BTreeMap<&'static str, Pairs>,
    pub(crate) memory: InMemoryState,
}

/// The state that a member holds in memory, as its API returns it.
#[derive(Clone, Debug)]
pub(crate) struct InMemoryState {
    pub(crate) current: i64,
    pub(crate) compacted: i64,
    pub(crate) keys: u64,
    /// None after a compaction at revision 0: see [`hash`].
    pub(crate) hash: Option<Result<(KeyValueHash, i64), Error>>,
    /// All keys at each readable revision.
    pub(crate) ranges: Vec<(i64, Result<RangeResult, Error>)>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) auth: AuthStatusResponse,
    /// Users with their roles, and roles with their permissions.
    pub(crate) users: Vec<String>,
    pub(crate) membership: Membership,
    pub(crate) alarms: Vec<AlarmMember>,
}

/// A lease, its granted TTL in seconds, and its keys.
type Lease = (LeaseId, i64, Vec<Vec<u8>>);

impl Observed {
    /// Reads the state of a member.
    pub(crate) fn of(machine: &StateMachine) -> Observed {
        Observed { buckets: buckets(&machine.backend().view()), memory: InMemoryState::of(machine) }
    }

    /// Panics with the first difference.
    pub(crate) fn assert_same(&self, wanted: &Observed, when: &dyn std::fmt::Display) {
        for (name, pairs) in &self.buckets {
            let other = &wanted.buckets[name];
            if let Some((found, wanted)) = first_difference(pairs, other) {
                panic!("{when}: bucket {name}: expected {wanted}, got {found}");
            }
        }
        self.memory.assert_same(&wanted.memory, when);
    }
}

impl InMemoryState {
    /// Reads the state in memory.
    pub(crate) fn of(machine: &StateMachine) -> InMemoryState {
        let (store, alarms) = (machine.store(), machine.alarms());
        let (auth, cluster) = (machine.auth(), machine.cluster());
        InMemoryState {
            current: store.current(),
            compacted: store.compacted(),
            keys: store.keys(),
            hash: hash(store),
            ranges: ranges(machine),
            leases: leases(machine),
            auth: auth.status(),
            users: users(machine),
            membership: Membership::clone(&cluster.now()),
            alarms: alarms.get(0),
        }
    }

    /// Panics with the first difference.
    pub(crate) fn assert_same(&self, wanted: &InMemoryState, when: &dyn std::fmt::Display) {
        assert_eq!(self.current, wanted.current, "{when}: revision");
        assert_eq!(self.compacted, wanted.compacted, "{when}: compacted revision");
        assert_eq!(self.keys, wanted.keys, "{when}: number of keys");
        for (found, wanted) in self.ranges.iter().zip(&wanted.ranges) {
            assert_eq!(found, wanted, "{when}: keys at a revision");
        }
        assert_eq!(self.ranges.len(), wanted.ranges.len(), "{when}: revisions that can be read");
        if let (Some(found), Some(wanted)) = (&self.hash, &wanted.hash) {
            assert_eq!(found, wanted, "{when}: HashKV");
        }
        assert_eq!(self.leases, wanted.leases, "{when}: leases");
        assert_eq!(self.auth, wanted.auth, "{when}: authentication");
        assert_eq!(self.users, wanted.users, "{when}: users and roles");
        assert_eq!(self.membership, wanted.membership, "{when}: members");
        assert_eq!(self.alarms, wanted.alarms, "{when}: alarms");
    }
}

/// Content of all buckets.
pub(crate) fn buckets(view: &BackendView) -> BTreeMap<&'static str, Pairs> {
    Bucket::ALL.into_iter().map(|bucket| (bucket.name(), pairs(view, bucket))).collect()
}

/// Content of a bucket.
pub(crate) fn pairs(view: &BackendView, bucket: Bucket) -> Pairs {
    let all = view.all(bucket).expect("a sound database").map(|item| item.expect("a sound page"));
    all.map(|item| (item.key.to_vec(), item.value.to_vec())).collect()
}

/// Returns the hash of the whole store (`HashKV` at revision 0), unless a compaction hides it.
///
/// Compat: as in etcd, a compaction stores its hash under its revision. After a compaction at
/// revision 0 that hash is returned instead of the current one, until a restart.
fn hash(store: &WatchableStore) -> Option<Result<(KeyValueHash, i64), Error>> {
    let hidden = store.compaction_hashes().iter().any(|hash| hash.revision == 0);
    (!hidden).then(|| store.hash_kv(0))
}

fn ranges(machine: &StateMachine) -> Vec<(i64, Result<RangeResult, Error>)> {
    let (compacted, current) = (machine.store().compacted(), machine.store().current());
    let first = compacted.max(1).max(current.saturating_sub(REVISIONS_MAX));
    let everything = |revision| RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        revision,
        ..RangeRequest::default()
    };
    let range = |revision| (revision, machine.store().range(&everything(revision)));
    (first..=current).map(range).collect()
}

/// All leases by id. The lessor of a leader returns them in order of expiry.
fn leases(machine: &StateMachine) -> Vec<Lease> {
    let mut ids = machine.lessor().leases();
    ids.sort_unstable();
    ids.into_iter().map(|id| lease(machine, id)).collect()
}

fn lease(machine: &StateMachine, id: LeaseId) -> Lease {
    let lessor = machine.lessor();
    let granted = lessor.time_to_live(id, std::time::Duration::ZERO).expect("it is listed").granted;
    let keys = lessor.keys_of(id).expect("it is listed");
    assert!(
        keys.iter().all(|key| lessor.lease_of(key) == Some(id)),
        "keys of lease {id} name another lease"
    );
    (id, granted, keys.into_iter().map(Vec::from).collect())
}

fn users(machine: &StateMachine) -> Vec<String> {
    let auth = machine.auth();
    let user = |name: String| {
        let roles = auth.user_get(&AuthUserGetRequest { name: name.clone() });
        format!("user {name}: {:?}", roles.map(|found| found.roles))
    };
    let role = |role: String| {
        let permissions = auth.role_get(&AuthRoleGetRequest { role: role.clone() });
        format!("role {role}: {:?}", permissions.map(|found| found.perm))
    };
    let users = auth.user_list().users.into_iter().map(user);
    users.chain(auth.role_list().roles.into_iter().map(role)).collect()
}

/// The first pair that differs, as text.
fn first_difference(found: &Pairs, wanted: &Pairs) -> Option<(String, String)> {
    let text = |pair: Option<&(Vec<u8>, Vec<u8>)>| match pair {
        Some((key, value)) => format!("{} → {}", key.escape_ascii(), value.escape_ascii()),
        None => "end of bucket".to_owned(),
    };
    let longest = found.len().max(wanted.len());
    let differs = (0..longest).find(|at| found.get(*at) != wanted.get(*at))?;
    Some((text(found.get(differs)), text(wanted.get(differs))))
}
