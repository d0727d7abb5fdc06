//! Databases of peers: valid, invalid and concurrent ones.

use std::io;
use std::path::PathBuf;

use backend::schema::Bucket;
use backend::{Backend, Config};
use env::{SimClock, SimDisk};
use raft::{Message, SnapshotMetadata};

use super::*;
use crate::background::tests::ManualMember;
use crate::pipeline::peer_inbox::PEER_MESSAGES_MAX;

const OTHER: MemberId = MemberId(2);
const TERM: Term = Term(3);

/// A member that receives databases.
struct Receiver {
    member: ManualMember,
    dir: PathBuf,
}

impl Receiver {
    fn new() -> Receiver {
        let member = ManualMember::new();
        let dir = member.server.config().snap_path();
        member.server.inner.context.disk.create_dir_all_durably(&dir).unwrap();
        Receiver { member, dir }
    }

    fn receive(&self, message: Message, mut image: &[u8]) -> Result<u64, ReceiveSnapshotError> {
        self.member.server.receive_snapshot(message, &mut image)
    }

    /// Counts the messages that Raft receives.
    fn delivered(&self) -> usize {
        let mut events = Vec::new();
        self.member.server.inner.raft.queue.take(&mut events);
        events.iter().filter(|event| matches!(event, Event::PeerMessage { .. })).count()
    }

    fn names(&self) -> Vec<String> {
        self.member.server.inner.context.disk.read_dir(&self.dir).unwrap()
    }
}

fn message(index: u64, term: Term) -> Message {
    let metadata = SnapshotMetadata { index: Index(index), term, ..SnapshotMetadata::default() };
    let snapshot = raft::Snapshot { metadata, ..raft::Snapshot::default() };
    Message {
        kind: MessageType::MsgSnap,
        from: OTHER,
        to: MemberId(1),
        snapshot: Some(Box::new(snapshot)),
        ..Message::default()
    }
}

/// Returns a database with some keys, at an applied index.
fn image(index: u64, term: Term) -> Vec<u8> {
    let (disk, clock) = (Arc::new(SimDisk::new(0)), Arc::new(SimClock::default()));
    let backend = Backend::open(disk, clock, "db".as_ref(), Config::default()).unwrap();
    let mut tx = backend.begin();
    tx.create_bucket(Bucket::Key);
    for key in 0..2000_u64 {
        tx.put(Bucket::Key, key.to_be_bytes().to_vec(), vec![7; 100]).unwrap();
    }
    tx.set_applied(Index(index), term);
    tx.commit().unwrap();
    let mut image = Vec::new();
    backend.snapshot_to(&mut image).unwrap();
    image
}

/// Returns a database in which a branch page refers to a page twice. It opens, and its applied
/// index is right.
fn with_shared_page(index: u64, term: Term) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut image = image(index, term);
    let is_branch = |page: &[u8]| page[8] == 1 && page[10] > 2;
    let branch = image.chunks(PAGE).position(is_branch).expect("more than one page of keys");
    // Elements of 16 bytes follow the header; the last 8 of each are the page number.
    let (first, second) = (branch * PAGE + 16 + 8, branch * PAGE + 32 + 8);
    image.copy_within(first..first + 8, second);
    image
}

fn file(index: u64) -> String {
    format!("{index:016x}.snap.db")
}

#[test]
fn a_valid_database_is_stored_and_raft_gets_the_message() {
    let receiver = Receiver::new();
    let image = image(7, TERM);
    assert_eq!(receiver.receive(message(7, TERM), &image).unwrap(), image.len() as u64);
    assert_eq!(receiver.names(), [file(7)]);
    assert_eq!(receiver.delivered(), 1);
    let metrics = receiver.member.server.metrics();
    assert_eq!(metrics.snap_db_fsync_duration.get_sample_count(), 1);
    assert_eq!(metrics.snap_db_save_total_duration.get_sample_count(), 1);
}

/// A stored one would replace the old database before the damage is found.
#[test]
fn an_invalid_database_is_not_stored() {
    let receiver = Receiver::new();
    let good = image(7, TERM);
    let twice = receiver.receive(message(7, TERM), &with_shared_page(7, TERM)).unwrap_err();
    assert!(twice.to_string().contains("reached twice"), "{twice}");
    for bad in [&good[..good.len() / 2], b"none", b""] {
        let refused = receiver.receive(message(7, TERM), bad).unwrap_err();
        assert!(matches!(refused, ReceiveSnapshotError::Database(_)), "{refused}");
        assert!(receiver.names().is_empty() && receiver.delivered() == 0);
    }
    for (index, term) in [(8, TERM), (7, Term(4))] {
        let refused = receiver.receive(message(index, term), &good).unwrap_err();
        let text = "invalid snapshot database: applied index is 7 of term 3";
        assert!(refused.to_string().starts_with(text), "{refused}");
        assert!(receiver.names().is_empty() && receiver.delivered() == 0);
    }
}

/// The raft loop has the message and will open the database.
#[test]
fn a_stored_database_is_not_replaced_by_another() {
    let receiver = Receiver::new();
    receiver.receive(message(7, TERM), &image(7, TERM)).unwrap();
    receiver.receive(message(7, Term(4)), &image(7, Term(4))).unwrap_err();
    receiver.receive(message(7, Term(4)), &image(7, TERM)).unwrap_err();
    receiver.receive(message(7, TERM), b"none").unwrap_err();
    assert_eq!(receiver.names(), [file(7)]);
    receiver.receive(message(7, TERM), &image(7, TERM)).unwrap();
    assert_eq!((receiver.names(), receiver.delivered()), (vec![file(7)], 2));
}

#[test]
fn a_database_is_deleted_if_raft_does_not_take_the_message() {
    let receiver = Receiver::new();
    receiver.receive(message(7, TERM), &image(7, TERM)).unwrap();
    let inbox = &receiver.member.server.inner.raft.peer_inbox;
    let permits: Vec<_> =
        (1..PEER_MESSAGES_MAX).map(|_| inbox.try_acquire(&Message::default())).collect();
    let full = receiver.receive(message(8, TERM), &image(8, TERM)).unwrap_err();
    assert!(matches!(full, ReceiveSnapshotError::Message(ReceiveError::Full)));
    receiver.receive(message(7, TERM), &image(7, TERM)).unwrap_err();
    assert_eq!(receiver.names(), [file(7)], "the database of another call stays");
    drop(permits);
    receiver.member.server.inner.raft.queue.close();
    let stopped = receiver.receive(message(8, TERM), &image(8, TERM)).unwrap_err();
    assert!(matches!(stopped, ReceiveSnapshotError::Message(ReceiveError::Stopped)));
    assert_eq!(receiver.names(), [file(7)]);
}

/// A reader that runs a callback at its first read.
struct Interrupted<'a, F> {
    image: &'a [u8],
    interruption: Option<F>,
}

impl<F: FnOnce()> Read for Interrupted<'_, F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.interruption.take().into_iter().for_each(|interruption| interruption());
        let most = into.len().min(1000);
        self.image.read(&mut into[..most])
    }
}

#[test]
fn concurrent_databases_do_not_mix() {
    let receiver = Receiver::new();
    let (seven, eight) = (image(7, TERM), image(8, TERM));
    let interruption = || {
        receiver.receive(message(8, TERM), &eight).unwrap();
    };
    let mut first = Interrupted { image: &seven, interruption: Some(interruption) };
    receiver.member.server.receive_snapshot(message(7, TERM), &mut first).unwrap();
    assert_eq!((receiver.names(), receiver.delivered()), (vec![file(7), file(8)], 2));
    let inner = &receiver.member.server.inner;
    for index in [7, 8] {
        let path = receiver.dir.join(file(index));
        let found = check_snapshot_database(
            Arc::clone(&inner.context.disk),
            &*inner.context.clock,
            &path,
            &Config::default(),
        );
        assert_eq!(found.unwrap(), (Index(index), TERM));
    }
}
