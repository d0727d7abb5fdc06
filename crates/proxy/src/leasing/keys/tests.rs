use std::time::Duration;

use super::backoff::BACKOFF;
use super::slots::{BYTES_MAX, KEYS_MAX};
use super::*;

const LEASE: i64 = 7;

fn session() -> Arc<OwnedKeys> {
    let keys = Arc::<OwnedKeys>::default();
    keys.start_session(LEASE, Instant::now() + Duration::from_secs(50));
    keys
}

fn kv(value: &str, revision: i64) -> KeyValue {
    let value = Bytes::copy_from_slice(value.as_bytes());
    KeyValue { value, mod_revision: revision, ..KeyValue::default() }
}

fn acquire(keys: &Arc<OwnedKeys>, key: &str) -> AcquireTicket {
    match keys.lookup(&Bytes::copy_from_slice(key.as_bytes()), true) {
        Lookup::Free(ticket) => ticket,
        other => panic!("{key} is not free: {other:?}"),
    }
}

/// Acquires a key at a revision.
fn own(keys: &Arc<OwnedKeys>, key: &str, value: &str, revision: i64) {
    acquire(keys, key).acquired(revision, Some(kv(value, 1)), revision);
}

/// Returns the value of a key that is answered from memory.
fn read(keys: &Arc<OwnedKeys>, key: &str) -> Option<String> {
    match keys.lookup(&Bytes::copy_from_slice(key.as_bytes()), false) {
        Lookup::Owned(Some(kv), _) => Some(String::from_utf8(kv.value.to_vec()).unwrap()),
        Lookup::Owned(None, _) => Some("absent".to_owned()),
        Lookup::Free(_) => panic!("the lookup acquires nothing"),
        Lookup::PassOn => None,
    }
}

fn is_free(keys: &Arc<OwnedKeys>, key: &str) -> bool {
    let key = Bytes::copy_from_slice(key.as_bytes());
    keys.slots.lock().acquire(&key, Instant::now()).is_some()
}

fn release(key: &'static str, owned_since: Option<i64>) -> Release {
    Release { key: key.into(), lease: LEASE, owned_since }
}

fn revoked(owned_since: i64, revision: i64) -> LeasingEvent {
    LeasingEvent::Revoked { lease: LEASE, owned_since, revision }
}

fn write(keys: &Arc<OwnedKeys>, names: &[&'static str]) -> WriteTicket {
    let names: Vec<Bytes> = names.iter().map(|name| Bytes::from(*name)).collect();
    keys.begin_write(&names)
}

#[tokio::test(start_paused = true)]
async fn an_owned_key_is_read_until_the_lease_may_have_expired() {
    let keys = session();
    own(&keys, "k", "1", 10);
    tokio::time::advance(Duration::from_millis(49_999)).await;
    assert_eq!(read(&keys, "k").as_deref(), Some("1"));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(read(&keys, "k"), None);
    assert!(!is_free(&keys, "other"), "nothing is acquired either");
    keys.extend_session(Instant::now() + Duration::from_secs(1));
    assert_eq!(read(&keys, "k").as_deref(), Some("1"), "the lease was renewed in time");
}

#[tokio::test]
async fn the_end_of_a_session_forgets_all_keys_and_attempts() {
    let keys = session();
    own(&keys, "k", "1", 10);
    let attempt = acquire(&keys, "attempt");
    let writing = write(&keys, &["k"]);
    keys.end_session();
    assert_eq!((read(&keys, "k"), is_free(&keys, "k")), (None, false));
    keys.session_end().await;
    keys.start_session(8, Instant::now() + Duration::from_secs(50));
    attempt.acquired(11, None, 11);
    writing.written([Some(kv("2", 12))], 12);
    assert_eq!((read(&keys, "attempt"), read(&keys, "k")), (None, None));
    assert_eq!(keys.next_release(), None, "the old lease takes its leasing keys along");
}

#[tokio::test]
async fn a_revoked_key_is_forgotten_before_it_is_released() {
    let keys = session();
    own(&keys, "k", "1", 10);
    keys.apply(&"k".into(), revoked(10, 12));
    assert_eq!(read(&keys, "k"), None);
    assert_eq!(keys.next_release(), Some(release("k", Some(10))));
    assert_eq!(keys.next_release(), None);
    assert!(!is_free(&keys, "k"), "it is being released");
    keys.released(&release("k", Some(10)));
    assert!(!is_free(&keys, "k"), "the writer comes first");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_is_acquired_again_after_a_while() {
    let keys = session();
    own(&keys, "k", "1", 10);
    keys.apply(&"k".into(), revoked(10, 12));
    keys.released(&keys.next_release().unwrap());
    tokio::time::advance(BACKOFF).await;
    own(&keys, "k", "2", 20);
    keys.apply(&"k".into(), revoked(10, 12));
    keys.apply(&"k".into(), LeasingEvent::Deleted { revision: 13 });
    assert_eq!(read(&keys, "k").as_deref(), Some("2"), "the events are about the time before");
    keys.apply(&"k".into(), LeasingEvent::Deleted { revision: 21 });
    assert_eq!(read(&keys, "k"), None);
    assert_eq!(keys.next_release(), None, "there is nothing to delete");
}

#[tokio::test]
async fn a_revocation_that_overtakes_the_answer_is_heeded() {
    let keys = session();
    let attempt = acquire(&keys, "k");
    keys.apply(&"k".into(), revoked(10, 11));
    attempt.acquired(10, Some(kv("1", 1)), 10);
    assert_eq!(read(&keys, "k"), None);
    assert_eq!(keys.next_release(), Some(release("k", Some(10))));

    let attempt = acquire(&keys, "gone");
    keys.apply(&"gone".into(), LeasingEvent::Deleted { revision: 12 });
    attempt.acquired(11, None, 11);
    assert_eq!(read(&keys, "gone"), None);

    let attempt = acquire(&keys, "again");
    keys.apply(&"again".into(), LeasingEvent::Deleted { revision: 12 });
    attempt.acquired(13, None, 13);
    assert_eq!(read(&keys, "again").as_deref(), Some("absent"));
}

#[tokio::test]
async fn leasing_keys_of_other_owners_end_an_ownership() {
    let keys = session();
    own(&keys, "k", "1", 10);
    keys.apply(&"k".into(), LeasingEvent::Acquired { lease: LEASE, revision: 10 });
    assert_eq!(read(&keys, "k").as_deref(), Some("1"), "its own event");
    keys.apply(&"k".into(), LeasingEvent::Acquired { lease: 8, revision: 12 });
    assert_eq!(read(&keys, "k"), None);
}

#[tokio::test]
async fn an_abandoned_attempt_is_released() {
    let keys = session();
    drop(acquire(&keys, "k"));
    keys.release_queued().await;
    assert_eq!(keys.next_release(), Some(release("k", None)));
    keys.released(&release("k", None));
    // The member executes the attempt after that, and a writer revokes the key.
    keys.apply(&"k".into(), revoked(10, 12));
    assert_eq!(keys.next_release(), Some(release("k", Some(10))));
}

#[tokio::test]
async fn a_refused_key_is_passed_on_for_a_while() {
    let keys = session();
    acquire(&keys, "k").refused();
    assert!(!is_free(&keys, "k"));
    assert_eq!(keys.next_release(), None);
}

#[tokio::test]
async fn a_key_is_not_read_while_it_is_written() {
    let keys = session();
    own(&keys, "k", "1", 10);
    let (first, second) = (write(&keys, &["k", "other"]), write(&keys, &["k"]));
    assert_eq!(first.owned(), [("k".into(), 10)]);
    assert_eq!((first.owned_since(&"k".into()), first.owned_since(&"other".into())), (10, 0));
    assert_eq!(read(&keys, "k"), None);
    second.written([Some(kv("3", 13))], 13);
    assert_eq!(read(&keys, "k"), None, "the other write is in flight");
    first.written([Some(kv("2", 12))], 12);
    assert_eq!(read(&keys, "k").as_deref(), Some("3"), "the newest of both");
    write(&keys, &["k"]).written([None], 14);
    assert_eq!(read(&keys, "k").as_deref(), Some("absent"));
}

#[tokio::test]
async fn a_write_without_a_result_gives_the_key_up() {
    let keys = session();
    own(&keys, "k", "1", 10);
    drop(write(&keys, &["k"]));
    assert_eq!(read(&keys, "k"), None);
    assert_eq!(keys.next_release(), Some(release("k", Some(10))));
}

#[tokio::test]
async fn a_write_that_was_not_executed_keeps_what_is_still_owned() {
    let keys = session();
    own(&keys, "a", "1", 10);
    own(&keys, "b", "1", 11);
    write(&keys, &["a", "b"]).refused(|key, since| (&key[..], since) == (b"a", 10));
    assert_eq!(read(&keys, "a").as_deref(), Some("1"));
    assert_eq!(read(&keys, "b"), None);
}

#[tokio::test]
async fn keys_that_are_not_read_back_are_released() {
    let keys = session();
    own(&keys, "a", "1", 10);
    own(&keys, "b", "1", 11);
    write(&keys, &["a", "b"]).written([Some(kv("2", 12))], 12);
    assert_eq!((read(&keys, "a").as_deref(), read(&keys, "b")), (Some("2"), None));
}

#[tokio::test]
async fn a_revocation_during_a_write_is_not_undone_by_it() {
    let keys = session();
    own(&keys, "k", "1", 10);
    let writing = write(&keys, &["k"]);
    keys.apply(&"k".into(), revoked(10, 12));
    writing.written([Some(kv("2", 13))], 13);
    assert_eq!(read(&keys, "k"), None);
    assert_eq!(keys.next_release(), Some(release("k", Some(10))));
    assert_eq!(keys.next_release(), None);
}

/// Such a key disappears without a write.
#[tokio::test]
async fn a_key_with_a_lease_is_not_owned() {
    let keys = session();
    let leased = || Some(KeyValue { lease: 99, ..kv("1", 1) });
    acquire(&keys, "k").acquired(10, leased(), 10);
    assert_eq!(read(&keys, "k"), None);
    own(&keys, "l", "1", 11);
    write(&keys, &["l"]).written([leased()], 12);
    assert_eq!(read(&keys, "l"), None);
    let released: Vec<_> = std::iter::from_fn(|| keys.next_release()).collect();
    assert_eq!(released, [release("k", Some(10)), release("l", Some(11))]);
}

#[tokio::test]
async fn the_key_that_was_not_used_for_the_longest_time_makes_room() {
    let keys = session();
    for n in 0..KEYS_MAX {
        own(&keys, &n.to_string(), "1", 10);
    }
    read(&keys, "0").unwrap();
    assert!(!is_free(&keys, "new"), "there is no room yet");
    assert_eq!(keys.next_release(), Some(release("1", Some(10))));
    keys.released(&release("1", Some(10)));
    assert!(is_free(&keys, "new"));
    assert_eq!(read(&keys, "0").as_deref(), Some("1"));
}

#[tokio::test]
async fn the_bytes_of_owned_keys_are_bounded() {
    let keys = session();
    let value = "x".repeat(6 << 20);
    let fits = BYTES_MAX / (6 << 20);
    for n in 0..=fits {
        own(&keys, &n.to_string(), &value, 10);
    }
    assert_eq!((read(&keys, "0"), read(&keys, "1").is_some()), (None, true));
    let huge = "x".repeat(9 << 20);
    own(&keys, "huge", &huge, 10);
    assert_eq!(read(&keys, "huge"), None);
}

#[tokio::test]
async fn an_owned_key_does_not_keep_the_message_that_it_was_in() {
    let keys = session();
    let message = Bytes::from(b"k=value, and much more".to_vec());
    let part = || KeyValue { key: message.slice(..1), value: message.slice(2..7), ..kv("", 1) };
    let Lookup::Free(ticket) = keys.lookup(&message.slice(..1), true) else { panic!("k is free") };
    ticket.acquired(10, None, 10);
    write(&keys, &["k"]).written([Some(part())], 11);
    assert_eq!(read(&keys, "k").as_deref(), Some("value"));
    assert!(message.is_unique());
    // Without a result, it is released.
    drop(keys.begin_write(&[message.slice(..1)]));
    keys.apply(&message.slice(..1), revoked(10, 12));
    assert_eq!(keys.next_release(), Some(release("k", Some(10))));
    assert!(message.is_unique());
}

#[tokio::test]
async fn the_header_of_an_answer_is_the_newest_one() {
    let keys = session();
    let header = |revision| ResponseHeader { revision, ..ResponseHeader::default() };
    own(&keys, "k", "1", 10);
    keys.record_revision(&header(30));
    keys.record_revision(&header(20));
    assert!(matches!(
        keys.lookup(&"k".into(), false),
        Lookup::Owned(Some(_), found) if found == header(30)
    ));
}
