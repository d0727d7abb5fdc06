//! A member that leads others.

use std::time::Duration;

use env::Disk as _;
use raft::{Entry, Message, MessageType};
use types::{Index, MemberId};

use super::among::Among;
use super::clients::poll;
use super::stages::Stage;
use crate::error::Error;

/// A leader of three, with all that there is applied.
fn leader(unapplied_bytes_max: u64) -> Among {
    let mut leader = Among::new(1, 3, |config| config.unapplied_bytes_max = unapplied_bytes_max);
    leader.lead();
    leader
}

/// The last entry that was sent to anybody.
fn last_sent(sent: &[Message]) -> Option<Index> {
    sent.iter().flat_map(|message| &message.entries).map(|entry| entry.index).max()
}

/// Those who asked are told in time, but what they asked for is in the log.
#[test]
fn what_a_leader_takes_without_a_quorum_is_bounded() {
    let mut leader = leader(1000);
    let mut first = leader.put(500);
    leader.tick();
    let (mut second, mut third) = (leader.put(300), leader.put(300));
    leader.tick();
    assert!(poll(&mut first).is_none());
    for refused in [&mut second, &mut third] {
        assert!(matches!(poll(refused), Some(Err(Error::TooManyRequests))), "nor a part of both");
    }
    let sent = last_sent(&leader.sent()).expect("the first");

    let entries = vec![Entry::normal(vec![b'v'; 600].into())];
    let forwarded = Message { entries, ..Message::new(MessageType::MsgProp, MemberId(0)) };
    leader.hear(leader.others[0], forwarded);
    let mut fourth = leader.put(100);
    leader.tick();
    assert!(poll(&mut fourth).is_none(), "there is room for this one");
    assert_eq!(
        last_sent(&leader.sent()),
        Some(sent.next()),
        "and was not for what came from another"
    );

    while poll(&mut first).is_none() {
        leader.tick_agreeing(|_| true);
    }
    leader.tick_agreeing(|_| true);
    let mut fifth = leader.put(900);
    leader.tick();
    assert!(poll(&mut fifth).is_none(), "there is room again");
}

/// A leader of so many whose disk hangs. It is connected to all others, to the later ones for longer.
fn stalled(of: usize) -> Among {
    let mut leader = Among::new(1, of, |_| {});
    leader.lead();
    for (number, id) in leader.others.iter().enumerate() {
        leader.connect(*id, Duration::from_secs(10 - number as u64));
    }
    leader.hang_log();
    leader
}

/// Some time passes, in which others agree to something, and nobody stands for election. Returns to whom leadership was to go, each time that it was.
fn transferees(leader: &mut Among, ticks: u32, agrees: impl Fn(&Message) -> bool) -> Vec<MemberId> {
    let (mut all, mut last) = (Vec::new(), None);
    for _ in 0..ticks {
        leader.tick_agreeing(&agrees);
        let transferee = leader.status().basic.lead_transferee;
        if transferee != last {
            all.extend(transferee);
        }
        last = transferee;
    }
    all
}

/// Whoever has been connected for the longest time may be one that lags.
#[test]
fn a_leader_whose_disk_hangs_hands_on_to_who_has_most_of_the_log() {
    let mut leader = stalled(5);
    let ahead = leader.others[1];
    let mut put = leader.put(10);
    let agrees =
        |message: &Message| message.kind == MessageType::MsgHeartbeat || message.to == ahead;
    assert!(transferees(&mut leader, 9, agrees).is_empty(), "too soon");
    assert_eq!(transferees(&mut leader, 15, agrees), [ahead]);
    assert!(poll(&mut put).is_none());
}

#[test]
fn a_leader_whose_disk_hangs_tries_one_after_the_other() {
    let mut leader = stalled(3);
    let (longest, other) = (leader.others[1], leader.others[0]);
    let tried = transferees(&mut leader, 100, |_| true);
    assert!(tried.len() >= 3, "{tried:?}");
    assert_eq!(tried[..3], [longest, other, longest]);
}

/// Nothing could be decided without this member's disk, whoever leads; and while it is tried nothing can be proposed.
#[test]
fn a_leader_whose_disk_hangs_stays_if_the_others_are_no_quorum() {
    let mut of_two = stalled(2);
    assert!(transferees(&mut of_two, 60, |_| true).is_empty());
    let mut of_three = stalled(3);
    let (there, away) = (of_three.others[0], of_three.others[1]);
    of_three.disconnect(away);
    assert!(transferees(&mut of_three, 60, |message| message.to == there).is_empty());
}

/// The files in the folder of snapshots, of one kind.
fn files(member: &Among, suffix: &str) -> Vec<String> {
    let mut names = member.disk.read_dir(&member.server().config().snap_path()).unwrap();
    names.retain(|name| name.ends_with(suffix));
    names
}

/// Puts keys until a snapshot was taken, and not a turn longer: the log does not say so yet.
fn until_a_snapshot(leader: &mut Among) {
    loop {
        drop(leader.put(1));
        for stage in
            [Stage::Raft, Stage::Log, Stage::Raft, Stage::Log, Stage::Apply, Stage::Snapshot]
        {
            leader.stages.turn(stage);
            leader.agree(|_| true);
        }
        if !files(leader, ".snap").is_empty() {
            return;
        }
    }
}

fn with_a_snapshot() -> Among {
    let mut leader = Among::new(1, 3, |config| config.snapshot_count = 20);
    leader.lead();
    assert!(files(&leader, ".snap").is_empty());
    let inner = &leader.server().inner;
    inner
        .snapshot_files
        .snapshotter
        .receive_db(&mut &b"a database"[..])
        .unwrap()
        .sync()
        .unwrap()
        .keep(2)
        .unwrap();
    until_a_snapshot(&mut leader);
    leader
}

/// Consensus had no use for it.
#[test]
fn a_database_that_nobody_came_for_goes_with_the_next_snapshot() {
    assert!(files(&with_a_snapshot(), ".snap.db").is_empty());
}

#[test]
fn a_disk_that_hangs_while_a_snapshot_is_noted_is_noticed() {
    assert!(with_a_snapshot().is_busy_in_a_hanging_log());
}
