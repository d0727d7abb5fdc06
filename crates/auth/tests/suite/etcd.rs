//! Requests recorded from etcd's own store with its replies: `testdata/etcd.txt`.

use backend::schema::Bucket;
use proto::authpb::UserAddOptions;
use proto::command::Command;
use proto::etcdserverpb as pb;

use crate::*;

const TRACE: &str = include_str!("../../testdata/etcd.txt");

#[test]
fn requests_get_the_replies_and_bytes_of_etcd() {
    let (mut requests, mut stored) = (0, 0);
    for (number, run) in TRACE.split("start\n").skip(1).enumerate() {
        let fixture = Fixture::new();
        let (steps, buckets): (Vec<&str>, Vec<&str>) =
            run.lines().partition(|line| !line.starts_with("bucket "));
        for step in &steps {
            let (request, expected) = step.split_once(" = ").unwrap();
            let found = format!("{} @{}", answer(&fixture, request), fixture.store.revision());
            assert_eq!(found, expected, "run {number}: {request}");
        }
        assert_eq!(dump(&fixture), buckets, "run {number}");
        assert_eq!(fixture.reread().user_list(), fixture.store.user_list());
        requests += steps.len();
        stored += buckets.len();
    }
    assert!(requests > 1000 && stored > 50, "{requests} {stored}");
}

fn answer(fixture: &Fixture, request: &str) -> String {
    match perform(fixture, request) {
        Ok(words) => [vec!["ok".to_owned()], words].concat().join(" "),
        Err(error) => format!("! {error}"),
    }
}

fn perform(fixture: &Fixture, request: &str) -> Result<Vec<String>, Error> {
    let words: Vec<&str> = request.split(' ').collect();
    let name = |at: usize| if words[at] == "-" { "" } else { words[at] };
    let bytes = |at: usize| unhex(words[at]);
    let text = |at: usize| String::from_utf8(bytes(at)).unwrap();
    match words[0] {
        "user_add" => {
            let options = match words[3] {
                "default" => None,
                option => Some(UserAddOptions { no_password: option == "no-password" }),
            };
            fixture.user_add_with(name(1), &text(2), options)?;
        }
        "user_delete" => fixture.user_delete(name(1))?,
        "user_change_password" => fixture.user_change_password(name(1), &text(2))?,
        "user_grant_role" => fixture.user_grant_role(name(1), name(2))?,
        "user_revoke_role" => fixture.user_revoke_role(name(1), name(2))?,
        "role_add" => fixture.role_add(name(1))?,
        "role_delete" => fixture.role_delete(name(1))?,
        "role_grant_permission" => {
            fixture.grant(name(1), words[2].parse().unwrap(), &bytes(3), &bytes(4))?;
        }
        "role_revoke_permission" => fixture.revoke(name(1), &bytes(2), &bytes(3))?,
        "user_get" => return fixture.roles_of(name(1)),
        "role_get" => {
            let permissions = fixture.permissions_of(name(1))?;
            return Ok(permissions.iter().map(in_words).collect());
        }
        "user_list" => return Ok(fixture.store.user_list().users),
        "role_list" => return Ok(fixture.store.role_list().roles),
        "enable" => drop(fixture.apply(AuthStore::enable)?),
        "disable" => assert!(fixture.apply(AuthStore::disable).header.is_none()),
        "admin" => fixture.store.check_admin(Some(&fixture.caller(name(1))))?,
        kind => {
            let caller = AuthInfo { username: name(1).into(), revision: words[2].parse().unwrap() };
            check(fixture, kind, &caller, bytes(3).into(), bytes(4).into())?;
        }
    }
    Ok(Vec::new())
}

fn check(
    fixture: &Fixture,
    kind: &str,
    caller: &AuthInfo,
    key: Bytes,
    range_end: Bytes,
) -> Result<(), Error> {
    let command = match kind {
        "put" => Command::Put(pb::PutRequest { key, ..Default::default() }),
        "range" => Command::Range(pb::RangeRequest { key, range_end, ..Default::default() }),
        "delete" => {
            Command::DeleteRange(pb::DeleteRangeRequest { key, range_end, ..Default::default() })
        }
        other => panic!("unknown request: {other}"),
    };
    fixture.store.check_apply(caller, &command, &Leases::default())
}

fn in_words(permission: &Permission) -> String {
    let Permission { perm_type, key, range_end } = permission;
    format!("{perm_type}:{}:{}", hex(key), hex(range_end))
}

fn dump(fixture: &Fixture) -> Vec<String> {
    let buckets = [Bucket::Auth, Bucket::AuthUsers, Bucket::AuthRoles];
    let lines = buckets.map(|bucket| {
        let line =
            |(key, value): (Bytes, Bytes)| format!("bucket {bucket} {} {}", hex(&key), hex(&value));
        fixture.bucket(bucket).into_iter().map(line).collect::<Vec<_>>()
    });
    lines.concat()
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
