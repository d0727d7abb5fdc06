//! Transactions, views, turns and limits.

use std::time::Duration;

use backend::schema::{Bucket, meta};
use backend::{BATCH_INTERVAL_DEFAULT, CommitError, Config, PutError, Read as _, Sequence, Value};
use env::Fault;
use types::{Index, Term};

use crate::{Fixture, config, get, line, pairs};

const B: Bucket = Bucket::AuthUsers;

#[test]
fn only_the_open_transaction_reads_its_changes() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    db.put(B, "b", "1");
    let mut tx = db.backend.begin();
    tx.put(B, "b", "2").unwrap();
    tx.put(B, "c", "2").unwrap();
    tx.delete(B, "a");
    assert_eq!(line(&tx, B), "b=2 c=2");
    assert_eq!(get(&tx, B, "a"), None);
    assert_eq!(get(&tx, B, "b").as_deref(), Some("2"));
    assert_eq!(line(&db.backend.view(), B), "a=1 b=1");
    tx.commit().unwrap();
    assert_eq!(line(&db.backend.view(), B), "b=2 c=2");
}

#[test]
fn a_dropped_transaction_changes_nothing() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    tx.put(B, "a", "1").unwrap();
    tx.set_applied(Index(9), Term(1));
    drop(tx);
    assert_eq!(line(&db.backend.view(), B), "");
    assert_eq!(db.backend.begin().applied(), (Index(0), Term(0)));
    assert_eq!(db.turn(), None);
}

#[test]
fn an_empty_transaction_gets_no_new_number() {
    let db = Fixture::new(config());
    assert_eq!(db.put(B, "a", "1"), Sequence(1));
    assert_eq!(db.backend.begin().commit().unwrap(), Sequence(1));
    assert_eq!(db.put(B, "a", "2"), Sequence(2));
}

#[test]
fn the_observer_is_called_after_every_commit() {
    let db = Fixture::new(config());
    let (sender, reports) = std::sync::mpsc::channel();
    db.backend.observe_commits(Box::new(move |commit| sender.send(*commit).unwrap()));
    db.backend.observe_commits(Box::new(|_| panic!("a second observer must not be called")));
    db.put(B, "a", "1");
    let turned = db.turn().unwrap();
    assert_eq!(db.turn(), None);
    db.put(B, "b", "2");
    db.backend.force_commit().unwrap();
    let forced = db.backend.stats().last.unwrap();
    drop(db);
    assert_eq!(reports.iter().collect::<Vec<_>>(), [turned, forced]);
}

#[test]
fn a_transaction_reads_while_earlier_ones_are_committed() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    let mut tx = db.backend.begin();
    tx.put(B, "b", "2").unwrap();
    assert_eq!(db.turn().unwrap().sequence, Sequence(1), "without the open transaction");
    assert_eq!(line(&tx, B), "a=1 b=2");
    assert_eq!(tx.commit().unwrap(), Sequence(2));
    assert_eq!(line(&db.backend.view(), B), "a=1 b=2");
}

#[test]
fn a_view_does_not_change() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    db.put(B, "b", "1");
    let one = db.backend.view();
    db.delete(B, "a");
    db.put(B, "b", "2");
    let two = db.backend.view();
    db.turn();
    db.put(B, "a", "3");
    db.delete(B, "b");
    let three = db.backend.view();
    db.turn();
    db.put(B, "c", "4");
    db.turn();
    let now = db.backend.view();
    let seen = [&one, &two, &three, &now].map(|view| line(view, B));
    assert_eq!(seen, ["a=1 b=1", "b=2", "a=3", "a=3 c=4"]);
    assert_eq!([&one, &two, &three, &now].map(|view| view.sequence().0), [2, 4, 6, 7]);
}

#[test]
fn a_range_excludes_its_end_and_merges_all_layers() {
    let db = Fixture::new(config());
    for key in ["a", "b", "c", "d", "e"] {
        db.put(B, key, "file");
    }
    db.turn();
    db.delete(B, "b");
    db.put(B, "c", "batch");
    let view = db.backend.view();
    let range = |from: &str, to: Option<&str>| {
        let range = view.range(B, from.as_bytes(), to.map(str::as_bytes)).unwrap();
        pairs(range).into_iter().map(|(key, _)| key).collect::<String>()
    };
    assert_eq!(range("", None), "acde");
    assert_eq!(range("b", Some("d")), "c");
    assert_eq!(range("bb", Some("zz")), "cde");
    assert_eq!(range("d", Some("b")), "", "the end is before the start");
    let layers: Vec<_> = view.all(B).unwrap().map(|item| item.unwrap().value).collect();
    assert!(matches!(layers[0], Value::File(b"file")), "not copied");
    assert!(matches!(&layers[1], Value::Pending(bytes) if **bytes == *b"batch"));
}

#[test]
fn a_range_read_in_chunks_is_complete() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    for n in 0..1000 {
        tx.put(B, format!("{n:04}"), "1").unwrap();
    }
    tx.commit().unwrap();
    let view = db.backend.view();
    let mut range = view.all(B).unwrap();
    assert_eq!(&*range.next().unwrap().unwrap().key, b"0000");
    // Changes made during the scan are invisible to it.
    db.put(B, "0500", "2");
    db.delete(B, "0600");
    db.put(B, "0600x", "2");
    db.turn();
    let rest = pairs(range);
    assert_eq!(rest.len(), 999);
    assert!(rest.iter().all(|(_, value)| value == "1"));
}

#[test]
fn invalid_keys_are_refused_before_the_commit() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    assert_eq!(tx.put(B, "", "1"), Err(PutError::KeyRequired));
    assert_eq!(tx.put(B, vec![1; bolt::KEY_MAX + 1], "1"), Err(PutError::KeyTooLarge));
    tx.put(B, vec![1; bolt::KEY_MAX], "1").unwrap();
    tx.delete(B, vec![1; bolt::KEY_MAX + 1]);
    tx.delete(B, "");
    tx.commit().unwrap();
    assert!(db.turn().is_some(), "accepted pairs can be committed");
}

#[test]
fn the_applied_index_is_committed_with_its_data() {
    let db = Fixture::new(config());
    for n in 1..=3 {
        let mut tx = db.backend.begin();
        tx.put(B, "a", n.to_string()).unwrap();
        tx.set_applied(Index(n), Term(7));
        tx.commit().unwrap();
        if n == 2 {
            db.turn();
        }
    }
    assert_eq!(meta::applied(&db.backend.view()).unwrap(), (Index(3), Term(7)));
    let db = db.reopen();
    assert_eq!(meta::applied(&db.backend.view()).unwrap(), (Index(2), Term(7)));
    assert_eq!(get(&db.backend.view(), B, "a").as_deref(), Some("2"));
}

#[test]
#[should_panic(expected = "goes back from 5 to 4")]
fn decreasing_the_applied_index_panics() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    tx.set_applied(Index(5), Term(1));
    tx.set_applied(Index(4), Term(1));
}

#[test]
#[should_panic(expected = "goes back from 5 to 4")]
fn decreasing_the_applied_index_in_a_later_transaction_panics() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    tx.set_applied(Index(5), Term(1));
    tx.commit().unwrap();
    let mut tx = db.backend.begin();
    assert_eq!(tx.applied(), (Index(5), Term(1)));
    tx.set_applied(Index(4), Term(1));
}

#[test]
fn the_applied_index_advances_only_for_new_entries() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    assert!(tx.advance_applied(Index(5), Term(1)));
    assert!(!tx.advance_applied(Index(5), Term(2)), "the same entry");
    assert!(!tx.advance_applied(Index(4), Term(2)), "an earlier entry");
    assert_eq!(tx.applied(), (Index(5), Term(1)));
    assert!(tx.advance_applied(Index(6), Term(2)));
    tx.commit().unwrap();
    assert_eq!(meta::applied(&db.backend.view()).unwrap(), (Index(6), Term(2)));
}

#[test]
fn an_applied_index_may_be_forced_back() {
    let db = Fixture::new(config());
    for (index, term) in [(50, 7), (1, 1)] {
        let mut tx = db.backend.begin();
        tx.force_applied(Index(index), Term(term));
        tx.commit().unwrap();
    }
    db.backend.force_commit().unwrap();
    let db = db.reopen();
    assert_eq!(db.backend.begin().applied(), (Index(1), Term(1)));
}

#[test]
fn a_turn_is_due_after_the_interval() {
    let db = Fixture::new(config());
    let committer = db.backend.committer();
    assert_eq!(committer.due_at(), None);
    db.clock.advance(Duration::from_secs(5));
    db.put(B, "a", "1");
    db.clock.advance(Duration::from_millis(50));
    db.put(B, "b", "1");
    let at = Duration::from_secs(5) + BATCH_INTERVAL_DEFAULT;
    assert_eq!(committer.due_at(), Some(at), "counted from the first transaction");
    assert!(!committer.due(at - Duration::from_millis(1)));
    assert!(committer.due(at));
    db.turn();
    assert!(!committer.due(at));
}

#[test]
fn a_turn_is_due_at_once_when_the_batch_is_full() {
    let db = Fixture::new(Config { batch_ops: 3, ..config() });
    for (n, due) in [false, false, true].into_iter().enumerate() {
        let mut tx = db.backend.begin();
        tx.put(B, n.to_string(), "1").unwrap();
        tx.set_applied(Index(n as u64 + 1), Term(1));
        tx.commit().unwrap();
        assert_eq!(db.backend.committer().due(Duration::ZERO), due, "the index does not count");
    }
    let db = Fixture::new(Config { batch_bytes: 10_000, ..config() });
    db.put(B, "a", &"x".repeat(9_000));
    assert!(!db.backend.committer().due(Duration::ZERO));
    db.put(B, "b", &"x".repeat(1_000));
    assert!(db.backend.committer().due(Duration::ZERO));
}

#[test]
fn pending_bytes_are_bounded() {
    let bound = 20_000;
    let db = Fixture::new(Config { pending_bytes_max: bound, ..config() });
    for n in 0..100 {
        db.put(B, &n.to_string(), &"x".repeat(1_000));
        assert!(db.backend.stats().pending.bytes <= bound);
    }
    assert!(db.backend.stats().commits >= 5, "the writer commits if no thread does");
    let before = db.backend.stats().commits;
    db.put(B, "large", &"x".repeat(bound));
    db.put(B, "large", &"y".repeat(bound));
    assert_eq!(
        db.backend.stats().commits,
        before + 2,
        "an oversized transaction is committed alone"
    );
}

#[test]
fn forcing_a_commit_makes_everything_durable() {
    let db = Fixture::new(config());
    assert_eq!(db.backend.durable(), Sequence(0));
    db.backend.force_commit().unwrap();
    assert_eq!(db.backend.stats().commits, 0, "nothing to commit");
    db.put(B, "a", "1");
    let second = db.put(B, "b", "2");
    db.backend.force_commit().unwrap();
    assert_eq!(db.backend.durable(), second);
    let stats = db.backend.stats();
    assert_eq!((stats.commits, stats.pending.ops, stats.last.unwrap().load.ops), (1, 0, 2));
    let after = Fixture::on(db.disk.power_cut(1), config());
    assert_eq!(line(&after.backend.view(), B), "a=1 b=2");
}

#[test]
fn after_a_failed_commit_writes_are_refused_and_reads_continue() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    db.backend.force_commit().unwrap();
    db.put(B, "b", "2");
    db.disk.fail_change(0, Fault::Eio);
    let cause = db.backend.force_commit().unwrap_err();
    assert!(matches!(cause, CommitError::Commit(bolt::CommitError::Io { .. })), "{cause}");
    db.disk.heal();
    let mut tx = db.backend.begin();
    tx.put(B, "c", "3").unwrap();
    let refused = tx.commit().unwrap_err();
    let text = format!("writes are refused because a commit failed: {cause}");
    assert_eq!(refused.to_string(), text);
    assert_eq!(db.backend.force_commit().unwrap_err().to_string(), text);
    assert_eq!(db.backend.committer().turn().unwrap_err().to_string(), text);
    assert_eq!(db.backend.committer().due_at(), None);
    assert_eq!(
        line(&db.backend.view(), B),
        "a=1 b=2",
        "including the batch that may not be in the file"
    );
    assert_eq!(db.backend.durable(), Sequence(1));
}
