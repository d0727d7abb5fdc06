//! Behaviors of a lessor, one per test.

use std::collections::BTreeMap;

use lease::{
    CHECKPOINT_BATCH_MAX, CHECKPOINTS_PER_TURN_MAX, Checkpoint, Config, EXPIRED_PER_TURN_MAX,
    GrantError, RenewError, Renewal, RevokeError, SPREAD_LEASES_MIN, TTL_MAX_SECONDS, TimeToLive,
};
use testkit::waiting::step_until;
use types::LeaseId;

use super::{Fixture, millis, seconds};

const RENEWED_60: Result<Renewal, RenewError> = Ok(Renewal::Renewed { ttl: 60 });

fn checkpointing() -> Config {
    Config { checkpoint: true, ..Config::default() }
}

#[test]
fn ttl_is_at_least_the_minimum_and_at_most_the_maximum() {
    let fixture = Fixture::new(Config { ttl_min_seconds: 5, ..Config::default() });
    assert_eq!(fixture.grant(1, 60), Ok(60));
    assert_eq!(fixture.grant(2, 4), Ok(5));
    assert_eq!(fixture.grant(3, 0), Ok(5));
    assert_eq!(fixture.grant(4, -9), Ok(5));
    assert_eq!(fixture.grant(5, TTL_MAX_SECONDS), Ok(TTL_MAX_SECONDS));
    assert_eq!(fixture.grant(6, TTL_MAX_SECONDS + 1), Err(GrantError::TtlTooLarge));
    assert_eq!(fixture.leases(), [1, 2, 3, 4, 5]);
}

#[test]
fn grants_are_refused_in_etcds_order() {
    let fixture = Fixture::new(Config::default());
    assert_eq!(fixture.grant(7, 60), Ok(60));
    assert_eq!(fixture.grant(7, 60), Err(GrantError::Exists));
    assert_eq!(fixture.grant(7, i64::MAX), Err(GrantError::TtlTooLarge));
    assert_eq!(fixture.grant(0, i64::MAX), Err(GrantError::NotFound));
}

#[test]
fn errors_have_etcds_texts() {
    assert_eq!(GrantError::NotFound.to_string(), "lease not found");
    assert_eq!(GrantError::Exists.to_string(), "lease already exists");
    assert_eq!(GrantError::TtlTooLarge.to_string(), "too large lease TTL");
    assert_eq!(RevokeError::NotFound.to_string(), "lease not found");
    assert_eq!(RenewError::NotFound.to_string(), "lease not found");
    assert_eq!(RenewError::NotPrimary.to_string(), "not a primary lessor");
}

#[test]
fn a_lease_expires_exactly_at_its_deadline() {
    let mut fixture = Fixture::primary(Config::default());
    fixture.grant(1, 60).unwrap();
    assert_eq!(fixture.expired_after(millis(59_999)), [0; 0]);
    assert_eq!(fixture.remaining(1), Some(0));
    assert_eq!(fixture.expired_after(millis(1)), [1]);
}

#[test]
fn a_renewal_gives_the_full_ttl() {
    let mut fixture = Fixture::primary(Config::default());
    fixture.grant(1, 60).unwrap();
    for _ in 0..10 {
        assert_eq!(fixture.expired_after(seconds(59)), [0; 0]);
        assert_eq!(fixture.renew(1), RENEWED_60);
        assert_eq!(fixture.remaining(1), Some(60));
    }
    assert_eq!(fixture.expired_after(seconds(60)), [1]);
}

#[test]
fn an_expired_lease_waits_for_its_revoke_and_cannot_be_renewed() {
    let mut fixture = Fixture::primary(Config::default());
    fixture.grant(1, 60).unwrap();
    fixture.now += seconds(60);
    assert_eq!(fixture.renew(1), Ok(Renewal::AwaitRevoke), "even before a turn reported it");
    assert_eq!(fixture.turn().expired, [LeaseId(1)]);
    assert_eq!(fixture.renew(1), Ok(Renewal::AwaitRevoke));
    fixture.revoke(1).unwrap();
    assert_eq!(fixture.renew(1), Err(RenewError::NotFound));
}

#[test]
fn an_expired_lease_is_reported_again_if_it_is_not_revoked() {
    let mut fixture = Fixture::primary(Config { expired_retry: seconds(7), ..Config::default() });
    fixture.grant(1, 60).unwrap();
    assert_eq!(fixture.expired_after(seconds(61)), [1]);
    assert_eq!(fixture.expired_after(millis(6_999)), [0; 0]);
    assert_eq!(fixture.expired_after(millis(1)), [1]);
    fixture.revoke(1).unwrap();
    assert_eq!(fixture.expired_after(seconds(100)), [0; 0]);
    assert_eq!(fixture.turn().next_due, None);
}

#[test]
fn a_turn_reports_a_bounded_number_earliest_deadline_first() {
    let mut fixture = Fixture::primary(Config::default());
    let ids = 1..=i64::try_from(EXPIRED_PER_TURN_MAX).unwrap() + 100;
    ids.clone().rev().for_each(|id| assert_eq!(fixture.grant(id, 10 + id), Ok(10 + id)));
    fixture.now += seconds(2000);

    let first = fixture.turn();
    assert_eq!(first.expired.len(), EXPIRED_PER_TURN_MAX);
    assert!(first.next_due.unwrap() < fixture.now, "more leases have expired");
    let second = fixture.expired_after(millis(500));
    let all = first.expired.into_iter().map(|id| id.0).chain(second);
    assert!(all.eq(ids));
}

#[test]
fn a_turn_returns_the_time_of_the_next_one() {
    let mut fixture = Fixture::primary(Config::default());
    assert_eq!(fixture.turn().next_due, None);
    fixture.grant(1, 60).unwrap();
    fixture.grant(2, 30).unwrap();
    assert_eq!(fixture.turn().next_due, Some(fixture.now + seconds(30)));
    let due = fixture.now + seconds(30);
    fixture.now += seconds(10);
    fixture.renew(2).unwrap();
    assert_eq!(fixture.turn().next_due, Some(due), "no turn before it finds anything");
    fixture.now = due;
    assert_eq!(fixture.turn().next_due, Some(due + seconds(10)));
}

#[test]
fn followers_do_not_renew_and_do_not_expire() {
    let mut fixture = Fixture::new(Config::default());
    fixture.grant(1, 60).unwrap();
    assert!(!fixture.lessor.is_primary());
    assert_eq!(fixture.renew(1), Err(RenewError::NotPrimary));
    assert_eq!(fixture.renew(2), Err(RenewError::NotPrimary), "even if the lease does not exist");
    assert_eq!(fixture.expired_after(seconds(1_000_000)), [0; 0]);
    let ttl = fixture.lessor.time_to_live(LeaseId(1), fixture.now);
    assert_eq!(ttl, Some(TimeToLive { granted: 60, remaining: None }));
    assert_eq!(fixture.lessor.time_to_live(LeaseId(2), fixture.now), None);
}

#[test]
fn promotion_sets_new_deadlines_with_an_extension() {
    let mut fixture = Fixture::new(Config::default());
    fixture.grant(1, 60).unwrap();
    fixture.now += seconds(500);
    fixture.promote(seconds(3));
    assert!(fixture.lessor.is_primary());
    assert_eq!(fixture.remaining(1), Some(63));
    assert_eq!(fixture.expired_after(millis(62_999)), [0; 0]);
    assert_eq!(fixture.expired_after(millis(1)), [1]);
    // The revoke is lost; another promotion revives the lease.
    fixture.promote(seconds(3));
    assert_eq!(fixture.renew(1), RENEWED_60);
}

#[test]
fn leases_do_not_expire_after_a_demotion() {
    let mut fixture = Fixture::primary(Config::default());
    fixture.grant(1, 60).unwrap();
    fixture.now += seconds(61);
    fixture.lessor.demote();
    fixture.lessor.demote();
    assert_eq!(fixture.renew(1), Err(RenewError::NotPrimary));
    assert_eq!(fixture.turn(), lease::LessorTurn::default());
    assert_eq!(fixture.remaining(1), None);
    fixture.promote(seconds(1));
    assert_eq!(fixture.remaining(1), Some(61));
    assert_eq!(fixture.renew(1), RENEWED_60);
    assert_eq!(fixture.remaining(1), Some(60));
}

#[test]
fn a_renewal_ends_the_extension_of_a_promotion() {
    let mut fixture = Fixture::new(Config::default());
    fixture.grant(1, 60).unwrap();
    fixture.promote(seconds(1000));
    fixture.renew(1).unwrap();
    assert_eq!(fixture.turn().next_due, Some(fixture.now + seconds(60)));
    assert_eq!(fixture.expired_after(seconds(60)), [1]);
}

#[test]
fn a_promotion_spreads_equal_deadlines() {
    let mut fixture = Fixture::new(Config::default());
    let count = 3 * SPREAD_LEASES_MIN;
    let ids = 1..=i64::try_from(count).unwrap();
    ids.clone().for_each(|id| assert_eq!(fixture.grant(id, 60), Ok(60)));
    fixture.promote(seconds(1));

    // At any time, a turn can report all that have expired.
    let mut expired_at = BTreeMap::new();
    let start = fixture.now;
    step_until("all leases have expired", || {
        fixture.now += millis(500);
        let expired = fixture.turn().expired;
        assert!(expired.len() <= 375, "{} at {:?}", expired.len(), fixture.now);
        for id in expired {
            assert_eq!(expired_at.insert(id, fixture.now), None);
            fixture.revoke(id.0).unwrap();
        }
        expired_at.len() >= count
    });
    assert_eq!(
        *expired_at.values().min().unwrap(),
        start + seconds(61),
        "no lease expires too early"
    );
    assert_eq!(
        fixture.now,
        start + seconds(61) + millis(3500),
        "no lease expires later than needed"
    );
}

#[test]
fn few_leases_are_not_spread() {
    let mut fixture = Fixture::new(Config::default());
    let ids = 1..i64::try_from(SPREAD_LEASES_MIN).unwrap();
    ids.clone().for_each(|id| assert_eq!(fixture.grant(id, 60), Ok(60)));
    fixture.promote(seconds(1));
    assert!(ids.clone().all(|id| fixture.remaining(id) == Some(61)));
    assert_eq!(fixture.expired_after(seconds(61)).len(), EXPIRED_PER_TURN_MAX);
    assert_eq!(fixture.expired_after(millis(500)).len(), 499);
}

#[test]
fn the_primary_lists_leases_in_order_of_expiry() {
    let mut fixture = Fixture::primary(Config::default());
    for (id, ttl) in [(1, 90), (2, 30), (3, 60)] {
        fixture.grant(id, ttl).unwrap();
    }
    assert_eq!(fixture.leases(), [2, 3, 1]);
    fixture.now += seconds(25);
    fixture.renew(3).unwrap();
    fixture.now += seconds(4);
    fixture.renew(2).unwrap();
    assert_eq!(fixture.leases(), [2, 3, 1]);
    fixture.renew(3).unwrap();
    fixture.renew(1).unwrap();
    fixture.now += seconds(29);
    fixture.renew(2).unwrap();
    assert_eq!(fixture.leases(), [2, 3, 1]);
    fixture.now += seconds(3);
    fixture.renew(2).unwrap();
    assert_eq!(fixture.leases(), [3, 2, 1]);
    fixture.lessor.demote();
    assert_eq!(fixture.leases(), [1, 2, 3]);
}

#[test]
fn a_revoke_returns_the_keys_sorted() {
    let fixture = Fixture::new(Config::default());
    fixture.grant(1, 60).unwrap();
    fixture.grant(2, 60).unwrap();
    for (id, key) in [(1, "foo"), (2, "other"), (1, "bar"), (1, "zoo")] {
        assert!(fixture.lessor.attach(LeaseId(id), key.as_bytes()));
    }
    assert_eq!(fixture.keys_of(1).unwrap(), ["bar", "foo", "zoo"]);
    assert_eq!(fixture.revoke(1).unwrap(), ["bar", "foo", "zoo"]);
    // As the delete of these keys does.
    fixture.lessor.detach(LeaseId(1), b"foo");
    assert_eq!(fixture.lessor.lease_of(b"foo"), None);
    assert_eq!(fixture.keys_of(1), None);
    assert!(!fixture.lessor.contains(LeaseId(1)));
    assert_eq!(fixture.revoke(1), Err(RevokeError::NotFound));
    assert_eq!(fixture.keys_of(2).unwrap(), ["other"]);
}

#[test]
fn attaching_a_key_moves_it_between_leases() {
    let fixture = Fixture::new(Config::default());
    fixture.grant(1, 60).unwrap();
    fixture.grant(2, 60).unwrap();
    assert!(!fixture.lessor.attach(LeaseId(3), b"foo"), "there is no such lease");
    assert_eq!(fixture.lessor.lease_of(b"foo"), None);
    assert!(fixture.lessor.attach(LeaseId(1), b"foo"));
    assert!(fixture.lessor.attach(LeaseId(2), b"foo"));
    assert_eq!(fixture.lessor.lease_of(b"foo"), Some(LeaseId(2)));
    fixture.lessor.detach(LeaseId(1), b"foo");
    assert_eq!(fixture.keys_of(2).unwrap(), ["foo"]);
    assert_eq!(fixture.keys_of(1).unwrap(), [""; 0]);
}

#[test]
fn a_list_of_keys_longer_than_a_step_is_complete() {
    let fixture = Fixture::new(Config::default());
    fixture.grant(1, 60).unwrap();
    let keys: Vec<_> = (0..5000).map(|n| format!("{n:05}")).collect();
    keys.iter().rev().for_each(|key| assert!(fixture.lessor.attach(LeaseId(1), key.as_bytes())));
    assert_eq!(fixture.keys_of(1).unwrap(), keys);
}

#[test]
fn a_long_lease_is_checkpointed_and_the_next_leader_starts_from_there() {
    let mut fixture = Fixture::primary(checkpointing());
    fixture.grant(1, 1000).unwrap();
    fixture.grant(2, 300).unwrap();
    assert_eq!(fixture.turn().checkpoints, []);
    fixture.now += millis(300_000);
    let turn = fixture.turn();
    assert_eq!(turn.checkpoints, [Checkpoint { id: LeaseId(1), remaining_ttl: 700 }]);
    fixture.checkpoint(1, 700);
    assert_eq!(fixture.turn().checkpoints, []);
    assert_eq!(fixture.remaining(1), Some(700), "the deadline on this leader does not change");

    fixture.lessor.demote();
    fixture.promote(seconds(1));
    assert_eq!(fixture.remaining(1), Some(701));
    fixture.now += seconds(300);
    assert_eq!(fixture.turn().checkpoints, [Checkpoint { id: LeaseId(1), remaining_ttl: 401 }]);
}

#[test]
fn a_lost_checkpoint_is_proposed_again() {
    let mut fixture = Fixture::primary(checkpointing());
    fixture.grant(1, 10_000).unwrap();
    fixture.now += seconds(300);
    assert_eq!(fixture.turn().checkpoints.len(), 1);
    fixture.now += millis(299_500);
    assert_eq!(fixture.turn().checkpoints.len(), 0);
    fixture.now += millis(500);
    let again = Checkpoint { id: LeaseId(1), remaining_ttl: 9400 };
    assert_eq!(fixture.turn().checkpoints, [again]);
}

#[test]
fn a_renewal_after_a_checkpoint_has_to_clear_it_first() {
    let mut fixture = Fixture::primary(checkpointing());
    fixture.grant(1, 1000).unwrap();
    fixture.now += seconds(300);
    fixture.checkpoint(1, 700);
    assert_eq!(fixture.renew(1), Ok(Renewal::ClearCheckpoint));
    assert_eq!(fixture.remaining(1), Some(700), "the refused renewal changed nothing");
    fixture.checkpoint(1, 0);
    assert_eq!(fixture.renew(1), Ok(Renewal::Renewed { ttl: 1000 }));
    fixture.promote(seconds(0));
    assert_eq!(fixture.remaining(1), Some(1000));
}

/// A member without checkpoints may lead a cluster in which other members made some.
#[test]
fn a_checkpoint_of_another_leader_is_cleared_too() {
    let fixture = Fixture::new(Config::default());
    fixture.grant(1, 1000).unwrap();
    fixture.checkpoint(1, 700);
    fixture.promote(seconds(0));
    assert_eq!(fixture.remaining(1), Some(700));
    assert_eq!(fixture.renew(1), Ok(Renewal::ClearCheckpoint));
    fixture.checkpoint(1, 0);
    assert_eq!(fixture.renew(1), Ok(Renewal::Renewed { ttl: 1000 }));
    assert_eq!(fixture.turn().checkpoints, []);
}

#[test]
fn a_checkpoint_applied_after_a_renewal_is_corrected() {
    let mut fixture = Fixture::primary(checkpointing());
    fixture.grant(1, 1000).unwrap();
    fixture.now += seconds(300);
    assert_eq!(fixture.turn().checkpoints.len(), 1);
    assert_eq!(fixture.renew(1), Ok(Renewal::Renewed { ttl: 1000 }));
    fixture.checkpoint(1, 700);
    assert_eq!(fixture.turn().checkpoints, [Checkpoint { id: LeaseId(1), remaining_ttl: 0 }]);
    fixture.checkpoint(1, 0);
    assert_eq!(fixture.turn().checkpoints, []);
}

#[test]
fn checkpoints_are_split_into_proposals() {
    let mut fixture = Fixture::primary(checkpointing());
    let count = CHECKPOINTS_PER_TURN_MAX + 1500;
    fixture.apply(|tx| {
        for id in 1..=i64::try_from(count).unwrap() {
            fixture.lessor.grant(tx, LeaseId(id), 10_000, fixture.now).unwrap();
        }
    });
    fixture.now += seconds(300);
    let turn = fixture.turn();
    assert_eq!(turn.checkpoints.len(), CHECKPOINTS_PER_TURN_MAX);
    assert!(turn.checkpoint_batches().all(|batch| batch.len() == CHECKPOINT_BATCH_MAX));
    let rest = fixture.turn();
    assert!(rest.checkpoint_batches().map(<[_]>::len).eq([1000, 500]));
}

#[test]
fn operations_are_counted() {
    let mut fixture = Fixture::primary(Config::default());
    fixture.grant(1, 60).unwrap();
    fixture.grant(2, 600).unwrap();
    fixture.renew(1).unwrap();
    fixture.now += seconds(60);
    fixture.renew(1).unwrap();
    fixture.revoke(1).unwrap();
    let counts = fixture.lessor.counts();
    assert_eq!((counts.granted, counts.renewed, counts.revoked), (2, 1, 1));
    assert_eq!(counts.ttl_sum, 660);
    assert_eq!((fixture.lessor.len(), fixture.lessor.is_empty()), (1, false));
}
