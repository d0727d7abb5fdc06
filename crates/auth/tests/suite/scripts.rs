//! Golden scripts: `testdata/scripts/*.txt`.
//!
//! Each script starts with a new store. A command names its user with `as=alice`; without it the
//! request has no user. Requests are authenticated at the current auth revision unless `revision=N`
//! says otherwise.
//!
//! | command | effect |
//! | --- | --- |
//! | `enable`, `disable`, `status` | authentication |
//! | `user-add alice [no-password]`, `user-delete alice`, `user-get alice`, `user-list` | users |
//! | `user-grant-role alice ops`, `user-revoke-role alice ops` | roles of users |
//! | `role-add ops`, `role-delete ops`, `role-get ops`, `role-list` | roles |
//! | `role-grant ops read a end=c`, `role-revoke ops a end=c` | permissions |
//! | `range a end=c`, `delete a end=c prev-kv`, `lease-revoke 7` | checked only |
//! | `put a lease=7 prev-kv` | checked only |
//! | `txn` | checked only; the input has the compares (`if`) and operations (`then`, `else`) |
//! | `lease 7 keys=(a, b)` | sets the keys of a lease in the lessor |
//! | `authenticate alice index=5`, `token alice.5` | assigns a token; finds its user |

use std::collections::BTreeMap;

use proto::command::Command;
use proto::etcdserverpb::request_op::Request;
use testkit::script::{Case, Runner};
use types::Index;

use crate::*;

#[test]
fn scripts_give_the_expected_output() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/scripts");
    Runner::from_env().run_dir(dir, || {
        let mut script = Script { fixture: Fixture::new(), leases: BTreeMap::new() };
        move |case: &Case| format!("{}\n", script.run(case))
    });
}

struct Script {
    fixture: Fixture,
    leases: BTreeMap<i64, Vec<String>>,
}

impl LeaseKeys for Script {
    fn keys_of(&self, id: LeaseId) -> Vec<Bytes> {
        let keys = self.leases.get(&id.0).cloned().unwrap_or_default();
        keys.into_iter().map(Bytes::from).collect()
    }
}

impl Script {
    fn run(&mut self, case: &Case) -> String {
        case.allow(&["as", "revision", "end", "lease", "keys", "index"]);
        match case.cmd.as_str() {
            "lease" => {
                self.leases.insert(case.position(0), case.values("keys"));
                "ok".to_owned()
            }
            "authenticate" => {
                let (name, index) = (case.position::<String>(0), case.value("index").unwrap_or(1));
                let response = self.fixture.store.authenticate(&name, &name, Index(index));
                response.map_or_else(|error| error.to_string(), |it| format!("token {}", it.token))
            }
            "token" => match self.fixture.store.info_from_token(&case.position::<String>(0)) {
                Ok(info) => format!("{}, auth revision {}", info.username, info.revision),
                Err(error) => error.to_string(),
            },
            _ => {
                let command = command(case);
                match self.fixture.store.check_apply(&self.caller(case), &command, self) {
                    Ok(()) => self.apply(&command).unwrap_or_else(|error| error.to_string()),
                    Err(error) => error.to_string(),
                }
            }
        }
    }

    fn caller(&self, case: &Case) -> AuthInfo {
        let Some(name) = case.value::<String>("as") else { return AuthInfo::default() };
        let caller = self.fixture.caller(&name);
        AuthInfo { revision: case.value("revision").unwrap_or(caller.revision), ..caller }
    }

    fn apply(&self, command: &Command) -> Result<String, Error> {
        let store = &self.fixture.store;
        Ok(match command {
            Command::AuthStatus(_) => {
                let status = store.status();
                let enabled = if status.enabled { "enabled" } else { "disabled" };
                format!("{enabled}, auth revision {}", status.auth_revision)
            }
            Command::AuthUserGet(get) => list(&store.user_get(get)?.roles),
            Command::AuthUserList(_) => list(&store.user_list().users),
            Command::AuthRoleList(_) => list(&store.role_list().roles),
            Command::AuthRoleGet(get) => {
                let permissions: Vec<String> =
                    store.role_get(get)?.perm.iter().map(in_words).collect();
                list(&permissions)
            }
            Command::Range(_)
            | Command::Put(_)
            | Command::DeleteRange(_)
            | Command::Txn(_)
            | Command::LeaseRevoke(_) => "permitted".to_owned(),
            change => {
                self.change(change)?;
                format!("ok, auth revision {}", store.revision())
            }
        })
    }

    fn change(&self, command: &Command) -> Result<(), Error> {
        self.fixture.apply(|store, tx| match command {
            Command::AuthEnable(_) => store.enable(tx).map(drop),
            Command::AuthDisable(_) => {
                store.disable(tx);
                Ok(())
            }
            Command::AuthUserAdd(add) => store.user_add(tx, add).map(drop),
            Command::AuthUserDelete(delete) => store.user_delete(tx, delete).map(drop),
            Command::AuthUserGrantRole(grant) => store.user_grant_role(tx, grant).map(drop),
            Command::AuthUserRevokeRole(revoke) => store.user_revoke_role(tx, revoke).map(drop),
            Command::AuthRoleAdd(add) => store.role_add(tx, add).map(drop),
            Command::AuthRoleDelete(delete) => store.role_delete(tx, delete).map(drop),
            Command::AuthRoleGrantPermission(grant) => {
                store.role_grant_permission(tx, grant).map(drop)
            }
            Command::AuthRoleRevokePermission(revoke) => {
                store.role_revoke_permission(tx, revoke).map(drop)
            }
            other => panic!("{other:?} does not change users or roles"),
        })
    }
}

/// Parses the directive of a case.
fn command(case: &Case) -> Command {
    let text = |position| case.position::<String>(position);
    match case.cmd.as_str() {
        "enable" => pb::AuthEnableRequest {}.into(),
        "disable" => pb::AuthDisableRequest {}.into(),
        "status" => pb::AuthStatusRequest {}.into(),
        "user-add" => {
            let no_password = case.flag("no-password");
            let options = Some(UserAddOptions { no_password });
            let name = if case.args.is_empty() { String::new() } else { text(0) };
            pb::AuthUserAddRequest { name, options, ..Default::default() }.into()
        }
        "user-delete" => pb::AuthUserDeleteRequest { name: text(0) }.into(),
        "user-get" => pb::AuthUserGetRequest { name: text(0) }.into(),
        "user-list" => pb::AuthUserListRequest {}.into(),
        "user-grant-role" => pb::AuthUserGrantRoleRequest { user: text(0), role: text(1) }.into(),
        "user-revoke-role" => pb::AuthUserRevokeRoleRequest { name: text(0), role: text(1) }.into(),
        "role-add" => pb::AuthRoleAddRequest { name: text(0) }.into(),
        "role-delete" => pb::AuthRoleDeleteRequest { role: text(0) }.into(),
        "role-get" => pb::AuthRoleGetRequest { role: text(0) }.into(),
        "role-list" => pb::AuthRoleListRequest {}.into(),
        "role-grant" => {
            let perm_type = match text(1).as_str() {
                "read" => READ,
                "write" => WRITE,
                "readwrite" => READWRITE,
                other => case.fail(format_args!("unknown permission type {other}")),
            };
            let perm = permission(perm_type, &key(&text(2)), &end(case));
            pb::AuthRoleGrantPermissionRequest { name: text(0), perm: Some(perm) }.into()
        }
        "role-revoke" => {
            let (key, range_end) = (key(&text(1)), end(case));
            pb::AuthRoleRevokePermissionRequest { role: text(0), key, range_end }.into()
        }
        "lease-revoke" => pb::LeaseRevokeRequest { id: case.position(0) }.into(),
        "txn" => txn(case, &mut case.input.lines().peekable(), 0).into(),
        _ => operation(case, &case.to_string()),
    }
}

/// Parses `range a end=c`, `put a lease=7 prev-kv` or `delete a end=c prev-kv`.
fn operation(case: &Case, text: &str) -> Command {
    let mut words = text.split_whitespace();
    let (kind, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let rest: Vec<&str> = words.collect();
    let option = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name));
    let (first, range_end) = (key(first), option("end=").map(key).unwrap_or_default());
    let prev_kv = rest.contains(&"prev-kv");
    match kind {
        "range" => pb::RangeRequest { key: first, range_end, ..Default::default() }.into(),
        "delete" => pb::DeleteRangeRequest { key: first, range_end, prev_kv }.into(),
        "put" => {
            let lease = option("lease=").map_or(0, |id| id.parse().unwrap());
            pb::PutRequest { key: first, lease, prev_kv, ..Default::default() }.into()
        }
        other => case.fail(format_args!("unknown command {other}")),
    }
}

type Lines<'a> = std::iter::Peekable<std::str::Lines<'a>>;

/// Parses a transaction, one compare or operation per line. A nested one is indented by two spaces.
fn txn(case: &Case, lines: &mut Lines<'_>, depth: usize) -> pb::TxnRequest {
    let mut txn = pb::TxnRequest::default();
    let is_here = |line: &&str| line.len() - line.trim_start().len() == 2 * depth;
    while let Some(line) = lines.next_if(is_here) {
        let (branch, text) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if branch == "if" {
            let compare = operation(case, &format!("range {text}"));
            let Command::Range(pb::RangeRequest { key, range_end, .. }) = compare else { continue };
            txn.compare.push(pb::Compare { key, range_end, ..Default::default() });
            continue;
        }
        let request = match text {
            "txn" => Request::RequestTxn(self::txn(case, lines, depth + 1)),
            text => match operation(case, text) {
                Command::Range(range) => Request::RequestRange(range),
                Command::Put(put) => Request::RequestPut(put),
                Command::DeleteRange(delete) => Request::RequestDeleteRange(delete),
                other => case.fail(format_args!("{other:?} is not an operation")),
            },
        };
        let op = pb::RequestOp { request: Some(request) };
        match branch {
            "then" => txn.success.push(op),
            "else" => txn.failure.push(op),
            other => case.fail(format_args!("unknown branch {other}")),
        }
    }
    txn
}

fn end(case: &Case) -> Bytes {
    case.value::<String>("end").map(|end| key(&end)).unwrap_or_default()
}

/// Parses a key; `\0` is the zero byte.
fn key(text: &str) -> Bytes {
    Bytes::from(text.replace("\\0", "\0"))
}

fn in_words(permission: &Permission) -> String {
    let kind = permission.perm_type().as_str_name();
    let (key, end) = (permission.key.escape_ascii(), permission.range_end.escape_ascii());
    if permission.range_end.is_empty() {
        return format!("{kind} {key}");
    }
    format!("{kind} [{key}, {end})")
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join("\n") }
}
