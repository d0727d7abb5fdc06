//! Damaged files. What a power cut can leave is repaired; anything else is refused, with the file named and left as it is.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Member, Options, Stopped};

use crate::files;

const PUTS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_that_flipped_in_the_log_is_found() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    files::edit(&segment, |bytes| {
        let records = files::records(bytes);
        let middle = records[records.len() / 2].clone();
        bytes[middle.end - 10] ^= 0x10;
    });
    assert_refused(&stopped, &segment);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_in_the_log_that_makes_no_sense_is_found() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    files::edit(&segment, |bytes| {
        let records = files::records(bytes);
        bytes[records[records.len() / 2].start + 5] = 0x7f;
    });
    assert_refused(&stopped, &segment);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ends_before_what_the_database_has_is_refused() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    files::edit(&segment, |bytes| {
        let records = files::records(bytes);
        let middle = records[records.len() / 2].clone();
        bytes.truncate(middle.end);
    });
    assert_refused(&stopped, &stopped.data_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_segment_is_refused() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    fs::rename(&segment, segment.with_file_name("0000000000000003-0000000000001000.wal")).unwrap();
    assert_refused(&stopped, segment.parent().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_meta_pages_is_refused() {
    let stopped = with_data(Options::new()).await;
    let database = stopped.data_dir().join("member/snap/db");
    files::edit(&database, |bytes| bytes[..8192].fill(0xa5));
    assert_refused(&stopped, &database);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_cut_is_refused() {
    let stopped = with_data(Options::new()).await;
    let database = stopped.data_dir().join("member/snap/db");
    files::edit(&database, |bytes| bytes.truncate(8192));
    assert_refused(&stopped, &database);
}

/// The entries up to the snapshot are no longer in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_is_refused_once_there_was_a_snapshot() {
    let options = Options::new().flag("snapshot-count", "10").flag("snapshot-catchup-entries", "1");
    let stopped = with_data(options).await;
    let database = stopped.data_dir().join("member/snap/db");
    fs::rename(&database, stopped.place.path("db")).unwrap();
    let ended = assert_refused(&stopped, &database);
    let text = format!("database file ({}) of the backend is missing", database.display());
    assert!(ended.contains(&text), "{ended}");
    // And with the file back, all is well.
    fs::rename(stopped.place.path("db"), &database).unwrap();
    assert_has_all(&stopped.start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_a_power_cut_tore_is_cut_off() {
    let stopped = with_data(Options::new()).await;
    let segment = last_segment(&stopped);
    files::edit(&segment, |bytes| {
        // A record of 2000 bytes of which only the first sector arrived.
        let end = files::records(bytes).last().unwrap().end;
        bytes[end..end + 8].copy_from_slice(&2000_u64.to_le_bytes());
        bytes[end + 8..end + 100].fill(0x3c);
    });
    let member = stopped.start();
    assert_has_all(&member).await;
    member.client().put("after", "v").await.unwrap();
    let member = member.kill().start();
    assert_has_all(&member).await;
    assert_eq!(member.client().get("after").await.unwrap().count, 1);
    let broken = files::last(segment.parent().unwrap(), ".broken");
    assert!(fs::metadata(broken).unwrap().len() > 0, "what was cut off is kept");
}

/// A member with some keys, killed.
async fn with_data(options: Options) -> Stopped {
    let member = Member::start(options);
    let client = member.client();
    for number in 0..PUTS {
        client.put(&format!("k/{number:02}"), &"v".repeat(300)).await.unwrap();
    }
    // An orderly end commits the database, so that it has whatever the log has.
    member.terminate()
}

async fn assert_has_all(member: &Member) {
    let keys = member.client().get_prefix("k/").await.unwrap();
    assert_eq!(keys.kvs.len(), PUTS);
}

fn last_segment(stopped: &Stopped) -> PathBuf {
    files::last(&stopped.data_dir().join("member/wal"), ".wal")
}

/// It does not start, says which file it is about, and changes none.
#[track_caller]
fn assert_refused(stopped: &Stopped, culprit: &Path) -> String {
    let data = stopped.data_dir();
    let before = files::contents(&data);
    let ended = stopped.refused();
    let text = ended.text();
    assert!(ended.code().is_some_and(|code| code != 0), "{}: {text}", ended.status);
    assert!(!text.contains("panicked at"), "{text}");
    let last = ended.stderr.lines().pop().unwrap_or_default();
    assert!(last.contains(&culprit.display().to_string()), "{culprit:?} is not named: {last}");
    let changes = files::changes(&before, &files::contents(&data));
    assert!(changes.is_empty(), "changed: {changes:?}");
    text
}
