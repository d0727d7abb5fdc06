//! A disk that hangs is noticed.

use std::sync::atomic::Ordering;

use super::super::Chore as _;
use super::super::stall::Stall;
use super::*;

#[test]
fn a_write_that_does_not_come_back_is_a_stall() {
    let mut rig = Rig::new();
    let mut stall = Stall::new(rig.server.clone());
    let began = rig.advance(SECOND);
    let nanos = u64::try_from(began.as_nanos()).unwrap();
    rig.server.shared.sync_began.store(nanos, Ordering::Relaxed);
    let now = rig.advance(SECOND - Duration::from_millis(1));
    assert_eq!(rig.server.stalled_for(), None);
    assert!(stall.turn(now) <= now + SECOND);
    assert!(!stall.is_told());
    let now = rig.advance(SECOND);
    assert_eq!(rig.server.stalled_for(), Some(2 * SECOND - Duration::from_millis(1)));
    stall.turn(now);
    assert!(stall.is_told());
    rig.server.shared.sync_began.store(0, Ordering::Relaxed);
    assert_eq!(rig.server.stalled_for(), None);
    stall.turn(now);
    assert!(!stall.is_told());
}
