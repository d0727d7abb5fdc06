//! A member that leads others.

use raft::{Entry, Message, MessageType};
use types::{Index, MemberId};

use super::among::Among;
use super::clients::poll;
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
