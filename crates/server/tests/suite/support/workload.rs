//! A log generated from a seed: entries of every kind, most of them valid, with the expected state
//! of a member after each.

use bytes::Bytes;
use env::SeededRandom;
use membership::Change;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{AlarmType, InternalRaftRequest as Request};
use raft::{Entry, EntryType};
use types::{MemberId, Term};

use super::member::{Member, Setup, as_root, header};
use super::observe::Observed;
use super::requests as req;

const KEYS: [&str; 8] = ["a", "b", "c", "ca", "cb", "d", "e", "f"];
const USERS: [&str; 3] = ["root", "alice", "bob"];
const ROLES: [&str; 3] = ["root", "ops", "web"];
const HOSTS: [&str; 5] = ["h1", "h2", "h3", "h4", "h5"];
const ALARMS: [AlarmType; 2] = [AlarmType::Nospace, AlarmType::Corrupt];

/// A generated log and the expected states.
pub(crate) struct Workload {
    /// The entries from index 1 on.
    pub(crate) entries: Vec<Entry>,
    /// The expected state by applied index, from 0 on, with all compactions finished.
    pub(crate) states: Vec<Observed>,
}

impl Workload {
    /// Generates a log of `len` entries after the first ones, which bootstrap the cluster.
    pub(crate) fn new(seed: u64, len: usize) -> Workload {
        let mut writer = Writer::new(seed);
        for _ in 0..len {
            let entry = writer.entry();
            writer.append(entry);
        }
        Workload { entries: writer.entries, states: writer.states }
    }
}

/// Generates a log and applies it, so that later entries refer to existing state.
struct Writer {
    random: SeededRandom,
    member: Member,
    term: u64,
    entries: Vec<Entry>,
    states: Vec<Observed>,
}

impl Writer {
    fn new(seed: u64) -> Writer {
        let member = Member::new(Setup::default());
        let states = vec![Observed::of(&member.machine)];
        let random = SeededRandom::new(seed);
        let mut writer = Writer { random, member, term: 1, entries: Vec::new(), states };
        // A new cluster: members are added, a leader begins its term, the cluster version is set.
        for id in 1..=3 {
            let add = Change::Add(req::member(id, &format!("m{id}"), false));
            writer.append((EntryType::ConfChange, req::conf_change(&add, id)));
        }
        writer.append((EntryType::Normal, Vec::new()));
        let version = if writer.random.chance(3, 4) { "3.7.0" } else { "3.5.0" };
        writer.append_request(&req::cluster_version(version));
        writer
    }

    fn append_request(&mut self, request: &Request) {
        let entry = self.member.next(request);
        self.append((entry.kind, entry.data.to_vec()));
    }

    fn append(&mut self, (kind, data): (EntryType, Vec<u8>)) {
        let mut entry = self.member.next_raw(kind, data);
        entry.term = Term(self.term);
        self.member.apply(&entry).expect("a valid entry");
        self.member.finish_compactions();
        self.entries.push(entry);
        self.states.push(Observed::of(&self.member.machine));
    }

    fn entry(&mut self) -> (EntryType, Vec<u8>) {
        match self.random.below(100) {
            0..4 => {
                self.term += 1 + self.random.below(2);
                (EntryType::Normal, Vec::new())
            }
            4..12 => (EntryType::ConfChange, self.conf_change()),
            _ => {
                let mut request = self.request();
                request.header = self.header();
                let entry = self.member.next(&request);
                (entry.kind, entry.data.to_vec())
            }
        }
    }

    /// A header, mostly of the user root.
    fn header(&mut self) -> Option<pb::RequestHeader> {
        let mut header = match self.random.below(12) {
            0 => header(&self.member, "alice"),
            1 => None,
            _ => as_root(&self.member),
        };
        if let Some(header) = &mut header {
            header.id = self.random.next();
            if self.random.chance(1, 20) {
                header.auth_revision = header.auth_revision.saturating_sub(1);
            }
        }
        header
    }

    fn request(&mut self) -> Request {
        let alarms = self.member.machine.alarms().get(0);
        if let Some(raised) = alarms.first().filter(|_| self.random.chance(1, 2)) {
            let kind =
                AlarmType::try_from(raised.alarm).expect("an alarm that the workload raised");
            return req::clear(raised.member_id, kind);
        }
        match self.random.below(100) {
            0..30 => Request { put: Some(self.put()), ..Request::default() },
            30..40 => self.delete(),
            40..52 => {
                let txn = self.txn(2);
                req::txn(txn)
            }
            52..60 => req::grant(self.below(9), self.below(1000)),
            60..64 => req::revoke(self.lease()),
            64..67 => req::checkpoint(self.lease(), self.below(500)),
            67..75 => self.compaction(),
            75..90 => self.users(),
            90..92 => req::raise(self.random.below(3), self.pick(&ALARMS)),
            92..96 => self.cluster_request(),
            96 => req::range(self.pick(&KEYS)),
            97 => req::user_get(self.pick(&USERS)),
            98 => req::auth_status(),
            _ => req::authenticate(self.pick(&USERS), "letters"),
        }
    }

    fn put(&mut self) -> pb::PutRequest {
        let len = if self.random.chance(1, 10) { 1500 } else { 40 };
        let value = vec![b'v'; usize::try_from(self.random.below(len)).expect("small")];
        let lease = if self.random.chance(1, 3) { self.lease() } else { 0 };
        let mut put = req::put_request(self.pick(&KEYS), &value, lease);
        put.prev_kv = self.random.chance(1, 6);
        put.ignore_value = self.random.chance(1, 10);
        put.ignore_lease = self.random.chance(1, 10);
        put
    }

    fn delete(&mut self) -> Request {
        let end = if self.random.chance(1, 3) { self.pick(&KEYS) } else { "" };
        req::delete(self.pick(&KEYS), end)
    }

    fn txn(&mut self, depth: u32) -> pb::TxnRequest {
        let compare = if self.random.chance(1, 2) { vec![self.compare()] } else { Vec::new() };
        let mut branch = || (0..self.random.below(4)).map(|_| self.op(depth)).collect();
        pb::TxnRequest { compare, success: branch(), failure: branch() }
    }

    fn compare(&mut self) -> pb::Compare {
        let version = self.below(4);
        pb::Compare {
            result: CompareResult::Greater.into(),
            target: CompareTarget::Version.into(),
            key: Bytes::from(self.pick(&KEYS)),
            target_union: Some(TargetUnion::Version(version)),
            ..pb::Compare::default()
        }
    }

    /// An operation. The keys of a transaction may repeat: only the API rejects duplicates.
    fn op(&mut self, depth: u32) -> pb::RequestOp {
        req::op(match self.random.below(8) {
            0..4 => Op::RequestPut(self.put()),
            4 => Op::RequestDeleteRange(self.delete().delete_range.expect("a deletion")),
            5 if depth > 0 => Op::RequestTxn(self.txn(depth - 1)),
            _ => Op::RequestRange(req::range(self.pick(&KEYS)).range.expect("a range")),
        })
    }

    /// A compaction, often at the current revision, where a tombstone may be.
    fn compaction(&mut self) -> Request {
        let current = self.member.machine.store().current();
        let back = if self.random.chance(1, 2) { 0 } else { self.below(6) };
        req::compact(current - back)
    }

    fn users(&mut self) -> Request {
        let (user, role) = (self.pick(&USERS), self.pick(&ROLES));
        let (key, end) = (self.pick(&KEYS), self.pick(&["", "x"]));
        match self.random.below(29) {
            0..3 => req::user_add(user),
            3 => req::user_delete(user),
            4 => req::user_change_password(user, "secret"),
            5..8 => req::user_grant_role(user, role),
            8 => req::user_revoke_role(user, self.role_of(user).unwrap_or(role)),
            9..13 => req::role_add(role),
            13..15 => req::role_delete(self.role_of(user).unwrap_or(role)),
            15..19 => req::role_grant(role, key, end),
            19 => req::role_revoke(role, key, end),
            20 => req::auth_disable(),
            _ => self.toward_auth_enabled(),
        }
    }

    /// A role that a user has.
    fn role_of(&self, user: &str) -> Option<&'static str> {
        let auth = self.member.machine.auth();
        ROLES.into_iter().rev().find(|role| auth.has_role(user, role))
    }

    /// The next missing step toward enabled authentication.
    fn toward_auth_enabled(&self) -> Request {
        let auth = self.member.machine.auth();
        let root = "root".to_owned();
        if !auth.user_list().users.contains(&root) {
            req::user_add("root")
        } else if !auth.has_role("root", "root") {
            req::user_grant_role("root", "root")
        } else {
            req::auth_enable()
        }
    }

    fn cluster_request(&mut self) -> Request {
        let known = self.member.machine.cluster().now();
        let known: Vec<MemberId> = known.ids().chain(known.removed()).collect();
        match self.random.below(5) {
            0 => req::cluster_version(self.pick(&["3.5.0", "3.6.0", "3.7.0"])),
            1..3 => req::downgrade(self.pick(&[None, Some("3.6.0")])),
            _ => req::attributes(self.pick(&known).0, self.pick(&HOSTS)),
        }
    }

    fn conf_change(&mut self) -> Vec<u8> {
        let (id, host) = (1 + self.random.below(6), self.pick(&HOSTS));
        let change = match self.random.below(6) {
            0..2 => Change::Add(req::member(id, host, true)),
            2 => Change::Add(req::member(id, host, false)),
            3 => Change::Promote(MemberId(id)),
            4 => Change::Remove(MemberId(id)),
            _ => Change::Update(req::member(id, host, false)),
        };
        req::conf_change(&change, self.random.next())
    }

    /// A lease id, mostly of an existing lease.
    fn lease(&mut self) -> i64 {
        let leases = self.member.machine.lessor().leases();
        if leases.is_empty() || self.random.chance(1, 10) { 77 } else { self.pick(&leases).0 }
    }

    fn below(&mut self, bound: u64) -> i64 {
        self.random.below(bound).cast_signed()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.random.below(from.len() as u64);
        from[usize::try_from(at).expect("an index below the length")]
    }
}
