//! Golden scripts: `testdata/apply/*.txt`.
//!
//! Each script starts with a new state machine. A command becomes the next entry of the log and
//! prints the index of the entry, the revision of the store after it, and its reply, refusal or
//! fault.
//!
//! | command | effect |
//! | --- | --- |
//! | `put a 1 lease=7`, `range a end=c`, `delete a end=c`, `compact 3` | commands about keys |
//! | `txn` | input: compares (`if a version=1`) and operations (`then put a 1`, `else`) |
//! | `lease-grant 7 ttl=60`, `lease-revoke 7`, `lease-checkpoint 7 remaining=30` | leases |
//! | `alarm raise NOSPACE member=1`, `alarm clear …`, `alarm list` | alarms |
//! | `user-add alice`, `user-get alice`, `user-grant-role alice ops`, `auth-enable` | users |
//! | `role-add ops`, `role-grant ops a` | roles |
//! | `cluster-version 3.7.0`, `downgrade 3.6.0`, `downgrade off`, `attributes 1 m1` | cluster |
//! | `conf-change add 2 m2`, `add-learner`, `promote`, `update`, `remove` | conf changes |
//! | `empty` | the entry by which a leader begins its term |
//! | `again`, `skip` | applies the last entry again; leaves an index out |
//! | `restart`, `quota 100000`, `finish-compaction` | the member, without an entry |
//! | `keys`, `leases`, `members` | prints state, without an entry |
//!
//! `as=alice` names the user, at the current auth revision or at `revision=N`. With `no-waiter` the
//! entry was proposed by another member.

use std::fmt::Write as _;

use bytes::Bytes;
use membership::Change;
use prost::Message as _;
use proto::authpb::permission::Type;
use proto::authpb::{Permission, UserAddOptions};
use proto::command::{Command, RaftRequest};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::compare::{CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::membershippb;
use raft::{Entry, EntryType};
use server::{Applied, Outcome, Reply};
use testkit::script::{Case, Runner};
use types::{LeaseId, MemberId};

use crate::support::{Member, Setup, requests as req};

#[test]
fn scripts_give_the_expected_output() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/apply");
    Runner::from_env().run_dir(dir, || {
        let mut script = Script { member: Some(Member::new(Setup::default())), last: None };
        move |case: &Case| format!("{}\n", script.run(case))
    });
}

struct Script {
    /// None only during a restart.
    member: Option<Member>,
    last: Option<Entry>,
}

impl Script {
    fn member(&mut self) -> &mut Member {
        self.member.as_mut().unwrap()
    }

    fn run(&mut self, case: &Case) -> String {
        match case.cmd.as_str() {
            "quota" => self.restart(Setup { quota: case.position(0), ..Setup::default() }),
            "restart" => {
                let setup = self.member().setup;
                self.restart(setup)
            }
            "finish-compaction" => {
                self.member().finish_compactions();
                "ok".to_owned()
            }
            "keys" => keys(self.member()),
            "leases" => leases(self.member()),
            "members" => members(self.member()),
            "again" => {
                let entry = self.last.clone().unwrap();
                self.apply(case, &entry)
            }
            _ => {
                let entry = self.entry(case);
                self.apply(case, &entry)
            }
        }
    }

    /// Commits and opens the database again.
    fn restart(&mut self, setup: Setup) -> String {
        let mut member = self.member.take().unwrap();
        member.machine.backend().force_commit().unwrap();
        member.setup = setup;
        let member = self.member.insert(member.restart().unwrap());
        format!("applied index {}", member.applied().0)
    }

    fn entry(&mut self, case: &Case) -> Entry {
        let member = self.member();
        match case.cmd.as_str() {
            "empty" => member.next_raw(EntryType::Normal, Vec::new()),
            "skip" => {
                let entry = member.next_raw(EntryType::Normal, Vec::new());
                Entry { index: entry.index.next(), ..entry }
            }
            "unknown" => member.next_raw(EntryType::Normal, vec![0xfa, 0xff, 0x03, 0x01, 0x00]),
            "conf-change" => {
                member.next_raw(EntryType::ConfChange, req::conf_change(&conf_change(case), 7))
            }
            _ => {
                let request = RaftRequest::new(header(member, case), command(case));
                let data = pb::InternalRaftRequest::from(request).encode_to_vec();
                member.next_raw(EntryType::Normal, data)
            }
        }
    }

    fn apply(&mut self, case: &Case, entry: &Entry) -> String {
        self.last = Some(entry.clone());
        let index = entry.index;
        let member = self.member();
        member.setup.waits = !case.flag("no-waiter");
        let applied = match member.apply(entry) {
            Ok(Applied::AlreadyApplied) => "already applied".to_owned(),
            Ok(Applied::Empty) => "empty".to_owned(),
            Ok(Applied::Request(outcome)) => request_text(&outcome),
            Ok(Applied::ConfChange { result, removed, .. }) => {
                let (index, change) = member.voters.changes.last().unwrap();
                let raft = format!("raft at {index}: node {:x}", change.node_id());
                match (result, removed) {
                    (Err(refusal), _) => format!("refused: {refusal}; {raft}"),
                    (Ok(()), Some(id)) => format!("ok, removed {id}; {raft}"),
                    (Ok(()), None) => format!("ok; {raft}"),
                }
            }
            Err(fault) => format!("the member stops: {fault}"),
        };
        format!("entry {index}: {applied}")
    }
}

fn header(member: &Member, case: &Case) -> pb::RequestHeader {
    let Some(username) = case.value("as") else { return pb::RequestHeader::default() };
    let now = member.machine.auth().revision();
    let auth_revision = case.value("revision").unwrap_or(now);
    pb::RequestHeader { id: 7, username, auth_revision }
}

fn request_text(outcome: &Outcome) -> String {
    let text = match &outcome.result {
        None => "skipped".to_owned(),
        Some(Err(refusal)) => format!("refused: {refusal}"),
        Some(Ok(reply)) => reply_text(reply),
    };
    let lowered = if outcome.version_lowered { ", snapshot due" } else { "" };
    format!("revision {}, {text}{lowered}", outcome.revision)
}

fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::Range(range) => format!("count {}", range.count),
        Reply::DeleteRange(deleted) => format!("deleted {}", deleted.deleted),
        Reply::Txn(txn) => {
            let branch = if txn.succeeded { "then" } else { "else" };
            format!("{branch}, {} responses", txn.responses.len())
        }
        Reply::LeaseGrant(grant) => format!("lease {} ttl {}", grant.id, grant.ttl),
        Reply::Alarm(response) => alarms(&response.alarms),
        Reply::AuthUserGet(user) => format!("roles {:?}", user.roles),
        _ => "ok".to_owned(),
    }
}

fn alarms(alarms: &[pb::AlarmMember]) -> String {
    let name = |alarm: &pb::AlarmMember| {
        format!("{} of member {}", alarm.alarm().as_str_name(), alarm.member_id)
    };
    let names: Vec<String> = alarms.iter().map(name).collect();
    format!("alarms [{}]", names.join(", "))
}

fn keys(member: &Member) -> String {
    let all = pb::RangeRequest {
        key: Bytes::from_static(&[0]),
        range_end: Bytes::from_static(&[0]),
        ..Default::default()
    };
    let store = member.machine.store();
    let range = store.range(&all).unwrap();
    let mut text = format!("revision {}, compacted {}", range.revision, store.compacted());
    for bytes in range.kvs.iter() {
        let kv = proto::mvccpb::KeyValue::decode(bytes).unwrap();
        let (key, value) = (kv.key.escape_ascii(), kv.value.escape_ascii());
        write!(
            text,
            "\n{key}={value}  created {} modified {}",
            kv.create_revision, kv.mod_revision
        )
        .unwrap();
        if kv.lease != 0 {
            write!(text, " lease {}", kv.lease).unwrap();
        }
    }
    text
}

fn leases(member: &Member) -> String {
    let lessor = member.machine.lessor();
    let lines = lessor.leases().into_iter().map(|LeaseId(id)| {
        let keys = lessor.keys_of(LeaseId(id)).unwrap_or_default();
        let keys: Vec<String> = keys.iter().map(|key| key.escape_ascii().to_string()).collect();
        format!("lease {id}: [{}]", keys.join(", "))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}

fn members(member: &Member) -> String {
    let cluster = member.machine.cluster().now();
    let version = cluster.version().map_or("none".to_owned(), |version| version.to_string());
    let mut text = format!("cluster version {version}");
    if cluster.downgrade().enabled {
        write!(text, ", downgrade to {}", cluster.downgrade().target_version).unwrap();
    }
    for member in cluster.members() {
        let role = if member.is_voter() { "voter" } else { "learner" };
        let (name, urls) = (&member.attributes.name, member.raft.peer_urls.join(" "));
        write!(text, "\n{} {role} {name:?} {urls}", member.id).unwrap();
    }
    let removed: Vec<String> = cluster.removed().map(|id| id.to_string()).collect();
    if !removed.is_empty() {
        write!(text, "\nremoved {}", removed.join(" ")).unwrap();
    }
    text
}

/// Parses the directive of a case.
fn command(case: &Case) -> Command {
    let text = |position| case.position::<String>(position);
    match case.cmd.as_str() {
        "txn" => txn(case).into(),
        "compact" => pb::CompactionRequest { revision: case.position(0), physical: false }.into(),
        "lease-grant" => {
            pb::LeaseGrantRequest { id: case.position(0), ttl: case.value("ttl").unwrap_or(60) }
                .into()
        }
        "lease-revoke" => pb::LeaseRevokeRequest { id: case.position(0) }.into(),
        "lease-checkpoint" => {
            let remaining_ttl = case.value("remaining").unwrap_or_default();
            let checkpoints = vec![pb::LeaseCheckpoint { id: case.position(0), remaining_ttl }];
            pb::LeaseCheckpointRequest { checkpoints }.into()
        }
        "alarm" => alarm(case).into(),
        "auth-enable" => pb::AuthEnableRequest {}.into(),
        "user-add" => {
            let options = Some(UserAddOptions { no_password: true });
            pb::AuthUserAddRequest { name: text(0), options, ..Default::default() }.into()
        }
        "user-get" => pb::AuthUserGetRequest { name: text(0) }.into(),
        "user-grant-role" => pb::AuthUserGrantRoleRequest { user: text(0), role: text(1) }.into(),
        "role-add" => pb::AuthRoleAddRequest { name: text(0) }.into(),
        "role-grant" => {
            let (perm_type, key) = (Type::Readwrite.into(), Bytes::from(text(1)));
            let perm = Some(Permission { perm_type, key, range_end: Bytes::new() });
            pb::AuthRoleGrantPermissionRequest { name: text(0), perm }.into()
        }
        "cluster-version" => membershippb::ClusterVersionSetRequest { ver: text(0) }.into(),
        "downgrade" => {
            let target = text(0);
            let enabled = target != "off";
            let ver = if enabled { target } else { String::new() };
            membershippb::DowngradeInfoSetRequest { enabled, ver }.into()
        }
        "attributes" => {
            let attributes = membershippb::Attributes { name: text(1), client_urls: Vec::new() };
            let (member_id, member_attributes) = (case.position(0), Some(attributes));
            membershippb::ClusterMemberAttrSetRequest { member_id, member_attributes }.into()
        }
        _ => operation(case, &case.to_string()),
    }
}

/// Parses `range a end=c`, `put a 1 lease=7` or `delete a end=c`.
fn operation(case: &Case, text: &str) -> Command {
    let (options, words): (Vec<&str>, Vec<&str>) =
        text.split_whitespace().partition(|word| word.contains('='));
    let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name));
    let word = |at: usize| Bytes::from(words.get(at).copied().unwrap_or_default().to_owned());
    let range_end = Bytes::from(option("end=").unwrap_or_default().to_owned());
    match words.first().copied().unwrap_or_default() {
        "range" => pb::RangeRequest { key: word(1), range_end, ..Default::default() }.into(),
        "delete" => pb::DeleteRangeRequest { key: word(1), range_end, prev_kv: false }.into(),
        "put" => {
            let lease = option("lease=").map_or(0, |id| id.parse().unwrap());
            pb::PutRequest { key: word(1), value: word(2), lease, ..Default::default() }.into()
        }
        other => case.fail(format_args!("unknown command {other}")),
    }
}

fn txn(case: &Case) -> pb::TxnRequest {
    let mut txn = pb::TxnRequest::default();
    for line in case.input.lines() {
        let (branch, text) = line.trim().split_once(' ').unwrap_or((line, ""));
        if branch == "if" {
            let (key, version) = text.split_once(" version=").unwrap();
            txn.compare.push(pb::Compare {
                target: CompareTarget::Version.into(),
                key: Bytes::from(key.to_owned()),
                target_union: Some(TargetUnion::Version(version.parse().unwrap())),
                ..Default::default()
            });
            continue;
        }
        let request = match operation(case, text) {
            Command::Range(range) => Request::RequestRange(range),
            Command::Put(put) => Request::RequestPut(put),
            Command::DeleteRange(delete) => Request::RequestDeleteRange(delete),
            other => case.fail(format_args!("{other:?} is not an operation")),
        };
        let branch = if branch == "then" { &mut txn.success } else { &mut txn.failure };
        branch.push(req::op(request));
    }
    txn
}

fn alarm(case: &Case) -> pb::AlarmRequest {
    let action = match case.position::<String>(0).as_str() {
        "raise" => AlarmAction::Activate,
        "clear" => AlarmAction::Deactivate,
        _ => AlarmAction::Get,
    };
    let kind = case.args.get(1).and_then(|arg| pb::AlarmType::from_str_name(&arg.key));
    let (action, alarm) = (action.into(), kind.unwrap_or_default().into());
    pb::AlarmRequest { action, member_id: case.value("member").unwrap_or_default(), alarm }
}

fn conf_change(case: &Case) -> Change {
    let id = case.position::<u64>(1);
    let member = |is_learner| req::member(id, &case.position::<String>(2), is_learner);
    match case.position::<String>(0).as_str() {
        "add" => Change::Add(member(false)),
        "add-learner" => Change::Add(member(true)),
        "update" => Change::Update(member(false)),
        "promote" => Change::Promote(MemberId(id)),
        "remove" => Change::Remove(MemberId(id)),
        other => case.fail(format_args!("unknown conf change {other}")),
    }
}
