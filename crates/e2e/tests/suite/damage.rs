//! Damaged files. The traces of a power cut are repaired; any other damage is rejected with the
//! file name, and the file is left unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Member, Options, Stopped};

use crate::files;

const PUTS: usize = 40;
/// Larger than a sector, so that a record spans several.
const VALUE_BYTES: usize = 2000;
const SECTOR_BYTES: usize = 512;

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_flip_in_the_wal_is_rejected() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    files::edit(&segment, |bytes| {
        let records = files::records(bytes);
        let middle = records[records.len() / 2].clone();
        bytes[middle.end - 10] ^= 0x10;
    });
    assert_rejected(&stopped, &name(&segment));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_record_length_in_the_wal_is_rejected() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    files::edit(&segment, |bytes| {
        let records = files::records(bytes);
        bytes[records[records.len() / 2].start + 5] = 0x7f;
    });
    assert_rejected(&stopped, &name(&segment));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wal_behind_the_database_is_rejected() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    files::edit(&segment, |bytes| {
        let records = files::records(bytes);
        let middle = records[records.len() / 2].clone();
        bytes.truncate(middle.end);
    });
    assert_rejected(&stopped, "entries are missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_segment_is_rejected() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    fs::rename(&segment, segment.with_file_name("0000000000000003-0000000000001000.wal")).unwrap();
    assert_rejected(&stopped, "wal: file not found");
}

/// For example a WAL directory that is not mounted, or whose flag was forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_its_wal_is_rejected() {
    let stopped = with_data(Options::new()).await;
    let log = stopped.data_dir().join("member/wal");
    let elsewhere = stopped.data_dir().join("elsewhere");
    fs::rename(&log, &elsewhere).unwrap();
    assert_rejected(&stopped, "entries are missing");
    fs::rename(&elsewhere, &log).unwrap();
    assert_has_all(&stopped.start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_meta_pages_is_rejected() {
    let stopped = with_data(Options::new()).await;
    let database = stopped.data_dir().join("member/snap/db");
    files::edit(&database, |bytes| bytes[..8192].fill(0xa5));
    assert_rejected(&stopped, &database.display().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_database_is_rejected() {
    let stopped = with_data(Options::new()).await;
    let database = stopped.data_dir().join("member/snap/db");
    files::edit(&database, |bytes| bytes.truncate(8192));
    assert_rejected(&stopped, &database.display().to_string());
}

/// The WAL no longer has the entries up to the snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_of_a_snapshot_is_rejected() {
    let options = Options::new().flag("snapshot-count", "10").flag("snapshot-catchup-entries", "1");
    let member = Member::start(options);
    write_all(&member).await;
    member.log().wait_for_message("saved snapshot to disk");
    let stopped = member.terminate();
    let database = stopped.data_dir().join("member/snap/db");
    fs::rename(&database, stopped.sandbox.path("db")).unwrap();
    assert_no_database_of_the_snapshot(&stopped);
    // The member starts when the file is back.
    fs::rename(stopped.sandbox.path("db"), &database).unwrap();
    assert_has_all(&stopped.start()).await;
}

/// A stopped member whose database is older than the snapshot that its log starts from. The newer
/// database is beside it.
struct OlderDatabase {
    stopped: Stopped,
    database: PathBuf,
    newer: PathBuf,
}

async fn with_an_older_database() -> OlderDatabase {
    let options = Options::new().flag("snapshot-count", "10").flag("snapshot-catchup-entries", "1");
    let stopped = Member::start(options).terminate();
    let database = stopped.data_dir().join("member/snap/db");
    let [older, newer] = ["older", "newer"].map(|name| stopped.sandbox.path(name));
    fs::copy(&database, &older).unwrap();
    let member = stopped.start();
    write_all(&member).await;
    member.log().wait_for_message("saved snapshot to disk");
    let stopped = member.terminate();
    fs::rename(&database, &newer).unwrap();
    fs::rename(&older, &database).unwrap();
    OlderDatabase { stopped, database, newer }
}

/// As in etcd's `TestBreakConsistentIndexNewerThanSnapshot`.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_older_than_its_snapshot_is_rejected() {
    let OlderDatabase { stopped, database, newer } = with_an_older_database().await;
    assert_no_database_of_the_snapshot(&stopped);
    // The member starts when the newer database is back.
    fs::rename(&newer, &database).unwrap();
    assert_has_all(&stopped.start()).await;
}

/// A leader had sent the newer one, and the member was killed before it was renamed.
#[tokio::test(flavor = "multi_thread")]
async fn a_received_database_replaces_an_older_one() {
    let OlderDatabase { stopped, database, newer } = with_an_older_database().await;
    let index = assert_no_database_of_the_snapshot(&stopped);
    fs::rename(&newer, database.with_file_name(format!("{index:016x}.snap.db"))).unwrap();
    let member = stopped.start();
    let record = member.log().wait_for_message("Recovering from snapshot backend");
    assert_eq!(record["snapshot-index"], index);
    assert!(record["consistent-index"].as_u64().unwrap() < index, "{record}");
    assert_has_all(&member).await;
}

/// Asserts that the log continues after a snapshot that no database contains. Text and code are
/// etcd's. Returns the index of the snapshot.
#[track_caller]
fn assert_no_database_of_the_snapshot(stopped: &Stopped) -> u64 {
    let before = files::contents(&stopped.data_dir());
    let end = stopped.refused();
    assert_eq!(end.code(), Some(2), "{}", end.text());
    let changes = files::changes(&before, &files::contents(&stopped.data_dir()));
    assert!(changes.is_empty(), "changed: {changes:?}");
    let record = end.stderr.record("failed to recover v3 backend from snapshot").unwrap();
    let text = "failed to find database snapshot file (snap: snapshot file doesn't exist)";
    assert_eq!((&record["level"], &record["error"]), (&"panic".into(), &text.into()));
    let record = end.stderr.record("failed to find [SNAPSHOT-INDEX].snap.db").unwrap();
    record["snapshot-index"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_write_is_truncated() {
    for sectors_left in [1, 3] {
        let stopped = with_data(Options::new()).await;
        tear(&last_segment(&stopped), sectors_left);
        assert_recovers(stopped).await;
    }
}

/// Appends the last record of a segment again, with only its first sectors on disk.
fn tear(segment: &Path, sectors_left: usize) {
    files::edit(segment, |bytes| {
        let records = files::records(bytes);
        let put = records.iter().rfind(|record| record.len() > VALUE_BYTES).unwrap().clone();
        let start = records.last().unwrap().end;
        let end = start + put.len();
        bytes.copy_within(put, start);
        let lost = (start / SECTOR_BYTES + sectors_left) * SECTOR_BYTES;
        bytes[lost..end].fill(0);
    });
}

async fn assert_recovers(stopped: Stopped) {
    let wal = stopped.data_dir().join("member/wal");
    let member = stopped.start();
    assert_has_all(&member).await;
    member.client().put("after", "v").await.unwrap();
    let member = member.kill().start();
    assert_has_all(&member).await;
    assert_eq!(member.client().get("after").await.unwrap().count, 1);
    let broken = fs::metadata(files::last(&wal, ".broken")).unwrap();
    assert!(broken.len() > 0, "the truncated bytes are kept in a .broken file");
}

/// A stopped member with some keys.
async fn with_data(options: Options) -> Stopped {
    let member = Member::start(options);
    write_all(&member).await;
    // An orderly shutdown commits the database, so that it has all entries of the WAL.
    member.terminate()
}

async fn write_all(member: &Member) {
    let client = member.client();
    let value = "v".repeat(VALUE_BYTES);
    for number in 0..PUTS {
        client.put(&format!("k/{number:02}"), &value).await.unwrap();
    }
}

async fn assert_has_all(member: &Member) {
    let keys = member.client().get_prefix("k/").await.unwrap();
    assert_eq!(keys.kvs.len(), PUTS);
}

fn last_segment(stopped: &Stopped) -> PathBuf {
    files::last(&stopped.data_dir().join("member/wal"), ".wal")
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Asserts that the member does not start, logs the reason last, and changes no file.
#[track_caller]
fn assert_rejected(stopped: &Stopped, why: &str) {
    let data = stopped.data_dir();
    let before = files::contents(&data);
    let ended = stopped.refused();
    let text = ended.text();
    assert!(ended.code().is_some_and(|code| code != 0), "{}: {text}", ended.status);
    assert!(!text.contains("panicked at"), "{text}");
    let last = ended.stderr.lines().pop().unwrap_or_default();
    assert!(last.contains(why), "{why:?} is not in {last}");
    let changes = files::changes(&before, &files::contents(&data));
    assert!(changes.is_empty(), "changed: {changes:?}");
}
