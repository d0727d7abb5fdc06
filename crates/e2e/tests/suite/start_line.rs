//! The line `starting an etcd server`, compared with etcd's field by field.

use e2e::{Member, Options};
use serde_json::Value;

const FIELDS: &str = include_str!("../../testdata/start_line");

/// Fields about the build and the machine. The last one is ours.
const OF_THE_BUILD: [&str; 8] = [
    "etcd-version",
    "git-sha",
    "go-version",
    "go-os",
    "go-arch",
    "max-cpu-set",
    "max-cpu-available",
    "bowline-version",
];

fn options() -> Options {
    let flags = [
        ("name", "m1"),
        ("wal-dir", "{dir}/wal"),
        ("initial-cluster", "m1=http://127.0.0.1:{peer}"),
        ("listen-metrics-urls", "http://127.0.0.1:{extra}"),
        ("initial-cluster-token", "tkn"),
        ("heartbeat-interval", "50"),
        ("election-timeout", "630"),
        ("initial-election-tick-advance", "false"),
        ("snapshot-count", "77"),
        ("snapshot-catchup-entries", "88"),
        ("max-wals", "3"),
        ("max-snapshots", "0"),
        ("quota-backend-bytes", "-1"),
        ("auto-compaction-mode", "revision"),
        ("auto-compaction-retention", "1000"),
        ("cors", "http://b:1,http://a:2"),
        ("host-whitelist", "127.0.0.1,localhost"),
        ("feature-gates", "LeaseCheckpoint=true,CompactHashCheck=false"),
        ("corrupt-check-time", "30m"),
        ("compact-hash-check-time", "2m30s"),
        ("max-learners", "3"),
        ("pre-vote", "false"),
        ("max-concurrent-streams", "99"),
        ("max-request-bytes", "2000000"),
        ("downgrade-check-time", "7s"),
        ("discovery-dial-timeout", "90s"),
        ("discovery-user", "u:p"),
        ("v2-deprecation", "gone"),
    ];
    flags.into_iter().fold(Options::new(), |options, (name, value)| options.flag(name, value))
}

/// As in etcd's `TestSnapshotCatchupEntriesFlag` and `TestV2DeprecationEnforceDefaultValue`.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_of_a_member_has_the_fields_of_etcd() {
    let member = Member::start(options());
    let record = member.log().wait_for_message("starting an etcd server");
    let wanted = FIELDS.lines().filter(|line| !line.starts_with('#'));
    for line in wanted {
        let (name, value) = line.split_once(' ').unwrap();
        let value: Value = serde_json::from_str(&member.sandbox().fill(value)).unwrap();
        assert_eq!(record[name], value, "{name}");
    }
    for name in OF_THE_BUILD {
        assert!(!record[name].is_null(), "{name} is missing");
    }
    let fields = record.as_object().unwrap().len();
    let in_every_line = ["level", "ts", "caller", "msg"].len();
    let compared = FIELDS.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(fields, compared + in_every_line + OF_THE_BUILD.len(), "{record}");
}

/// A member with data does not use the initial cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_data_logs_no_initial_cluster() {
    let member = Member::start(options()).terminate().start();
    let record = member.log().wait_for_message("starting an etcd server");
    assert_eq!(record["member-initialized"], true);
    assert_eq!([&record["initial-cluster"], &record["initial-cluster-token"]], [""; 2]);
    assert_eq!(record["initial-cluster-state"], "new");
}
