//! The stall detector reports a disk that hangs.

use super::super::BackgroundTask as _;
use super::super::stall::Stall;
use super::*;

#[test]
fn a_log_write_longer_than_a_second_is_reported_as_a_stall() {
    let mut member = ManualMember::new();
    let mut stall = Stall::new(member.server.clone());
    let began = member.advance(SECOND);
    member.server.inner.log_status.set_write_began(Some(began));
    let now = member.advance(SECOND - Duration::from_millis(1));
    assert_eq!(member.server.stalled_for(), None);
    assert!(stall.turn(now) <= now + SECOND);
    assert!(!stall.is_reported());
    let now = member.advance(SECOND);
    assert_eq!(member.server.stalled_for(), Some(2 * SECOND - Duration::from_millis(1)));
    stall.turn(now);
    assert!(stall.is_reported());
    member.server.inner.log_status.set_write_began(None);
    assert_eq!(member.server.stalled_for(), None);
    stall.turn(now);
    assert!(!stall.is_reported());
}
