//! Extreme numbers, which any client can send.

use std::time::Duration;

use backend::schema::{Bucket, keys};
use lease::{Config, Renewal, TTL_MAX_SECONDS};
use prost::Message as _;
use types::LeaseId;

use super::{Fixture, seconds};

const NUMBERS: [i64; 9] =
    [i64::MIN, i64::MIN + 1, -1, 0, 1, 2, TTL_MAX_SECONDS, i64::MAX - 1, i64::MAX];

fn checkpointing() -> Config {
    Config { checkpoint: true, ..Config::default() }
}

#[test]
fn extreme_ids_and_ttls_are_granted_or_refused() {
    let mut fixture = Fixture::primary(checkpointing());
    for id in NUMBERS {
        for ttl in NUMBERS {
            let granted = fixture.grant(id, ttl);
            assert_eq!(granted.is_ok(), id != 0 && ttl <= TTL_MAX_SECONDS, "{id} {ttl}");
            assert_eq!(fixture.remaining(id).is_some(), granted.is_ok());
            assert_eq!(fixture.revoke(id).is_ok(), granted.is_ok());
        }
    }
    assert_eq!(fixture.expired_after(Duration::MAX / 4), [0; 0]);
}

#[test]
fn extreme_checkpoints_never_expire_a_lease_early() {
    let mut fixture = Fixture::primary(checkpointing());
    for remaining_ttl in NUMBERS {
        fixture.grant(1, 1000).unwrap();
        fixture.checkpoint(1, remaining_ttl);
        fixture.checkpoint(2, remaining_ttl);
        let clear = remaining_ttl > 0;
        assert_eq!(fixture.renew(1) == Ok(Renewal::ClearCheckpoint), clear, "{remaining_ttl}");
        fixture.now += seconds(301);
        // Too low a value is corrected; too high a value stays, because it expires the lease later,
        // not earlier.
        assert!(fixture.turn().checkpoints.len() <= 1);

        fixture.restart(checkpointing());
        fixture.promote(seconds(1));
        let left = fixture.remaining(1).unwrap();
        assert!(left >= if clear { remaining_ttl.min(TTL_MAX_SECONDS) } else { 1000 }, "{left}");
        fixture.revoke(1).unwrap();
    }
}

#[test]
fn extreme_numbers_in_the_database_are_restored() {
    for ttl in NUMBERS {
        for remaining_ttl in NUMBERS {
            let mut fixture = Fixture::new(checkpointing());
            fixture.apply(|tx| {
                for id in NUMBERS {
                    let lease = proto::leasepb::Lease { id, ttl, remaining_ttl };
                    tx.put(Bucket::Lease, keys::lease(LeaseId(id)), lease.encode_to_vec()).unwrap();
                }
            });
            fixture.restart(checkpointing());
            fixture.promote(Duration::MAX);
            fixture.promote(seconds(1));
            assert_eq!(fixture.leases().len(), NUMBERS.len());
            assert!(fixture.remaining(1).unwrap() >= 2, "{ttl} {remaining_ttl}");
            assert_eq!(fixture.expired_after(seconds(1)), [0; 0]);
        }
    }
}

#[test]
fn a_clock_near_its_maximum_does_not_overflow() {
    let mut fixture = Fixture::primary(checkpointing());
    fixture.grant(1, TTL_MAX_SECONDS).unwrap();
    fixture.now = Duration::MAX;
    assert_eq!(fixture.expired_after(Duration::ZERO), [1]);
    assert_eq!(fixture.turn().expired, [], "the deadline is not FOREVER");
    fixture.grant(2, 60).unwrap();
    assert_eq!(fixture.renew(2), Ok(Renewal::Renewed { ttl: 60 }));
    assert_eq!(fixture.turn().next_due, None);
}
