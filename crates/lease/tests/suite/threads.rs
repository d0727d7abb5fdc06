//! Renewals from several threads, while the lessor is promoted, demoted and takes turns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lease::{Config, RenewError, Renewal};
use testkit::waiting::{SetOnDrop, wait_until};
use types::LeaseId;

use super::{Fixture, millis};

const LEASES: i64 = 3000;
const TTL_MILLIS: u64 = 20_000;
const ROUNDS: u64 = 2000;

/// The clock of the test in milliseconds, and the last renewal of each lease.
struct Shared {
    now: AtomicU64,
    renewed: Vec<AtomicU64>,
    stop: AtomicBool,
    renewals: AtomicU64,
}

#[test]
fn a_renewed_lease_does_not_expire() {
    let fixture = Fixture::new(Config::default());
    (1..=LEASES).for_each(|id| assert_eq!(fixture.grant(id, 20), Ok(20)));
    let shared = Shared {
        now: AtomicU64::new(0),
        renewed: (0..=LEASES).map(|_| AtomicU64::new(0)).collect(),
        stop: AtomicBool::new(false),
        renewals: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        (1..=2).for_each(|n| {
            let (fixture, shared) = (&fixture, &shared);
            scope.spawn(move || renew_all(fixture, shared, n));
        });
        let _stop = SetOnDrop(&shared.stop);
        lead(&fixture, &shared);
    });
    assert!(shared.renewals.load(Ordering::Relaxed) > 0);
    assert_eq!(fixture.lessor.len() as i64, LEASES);
    assert_eq!(fixture.lessor.counts().renewed, shared.renewals.load(Ordering::Relaxed));
}

/// Renews every nth lease repeatedly.
fn renew_all(fixture: &Fixture, shared: &Shared, n: usize) {
    while !shared.stop.load(Ordering::Relaxed) {
        for id in (1..=LEASES).step_by(n) {
            let now = shared.now.load(Ordering::SeqCst);
            match fixture.lessor.renew(LeaseId(id), millis(now)) {
                Ok(Renewal::Renewed { ttl }) => {
                    assert_eq!(ttl, 20);
                    let last = &shared.renewed[usize::try_from(id).unwrap()];
                    last.fetch_max(now, Ordering::SeqCst);
                    shared.renewals.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Renewal::AwaitRevoke) | Err(RenewError::NotPrimary) => {}
                other => panic!("{id}: {other:?}"),
            }
        }
    }
}

/// Takes turns as time passes, and now and then demotes and promotes the lessor.
fn lead(fixture: &Fixture, shared: &Shared) {
    fixture.lessor.promote(millis(1000), millis(0));
    // No time passes until the other threads run.
    wait_until("a lease is renewed", || shared.renewals.load(Ordering::Relaxed) > 0);
    for round in 1..=ROUNDS {
        let now = shared.now.fetch_add(100, Ordering::SeqCst) + 100;
        if round % 300 == 0 {
            fixture.lessor.demote();
            assert!(fixture.lessor.turn(millis(now)).expired.is_empty());
            fixture.lessor.promote(millis(1000), millis(now));
        }
        for id in fixture.lessor.turn(millis(now)).expired {
            let renewed = shared.renewed[usize::try_from(id.0).unwrap()].load(Ordering::SeqCst);
            assert!(now >= renewed + TTL_MILLIS, "{id} renewed at {renewed} expired at {now}");
        }
        assert_eq!(fixture.lessor.leases().len() as i64, LEASES);
    }
}
