//! Random grants, renewals, revokes, checkpoints, promotions, demotions and restarts, compared with
//! a map of deadlines.
//!
//! The model visits every lease each time, and has neither queues nor shards. For each lease it
//! also records `promised`: the last grant or renewal plus the TTL. As long as checkpoints are
//! applied when they are proposed, no lease expires before that, whichever member leads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease::{Checkpoint, Config, GrantError, RenewError, Renewal, RevokeError, TimeToLive};
use proptest::collection::vec;
use proptest::prelude::*;
use types::LeaseId;

use super::{Fixture, millis, seconds};

const IDS: std::ops::RangeInclusive<i64> = -3..=3;
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const CONFIG: Config = Config {
    ttl_min_seconds: 3,
    expired_retry: Duration::from_secs(4),
    checkpoint: true,
    checkpoint_interval: Duration::from_secs(10),
    checkpoint_persist: false,
};

#[derive(Clone, Copy, Debug)]
enum Step {
    Grant(i64, i64),
    Revoke(i64),
    Renew(i64),
    Attach(i64, &'static str),
    Detach(i64, &'static str),
    /// A checkpoint that some leader proposed at some time.
    Checkpoint(i64, i64),
    Promote(Duration),
    Demote,
    Restart,
    Pass(Duration),
    Turn,
    /// Applies the proposals.
    Apply,
    /// Drops the proposals.
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || prop::sample::select(&KEYS[..]);
    let duration = |max: u64| (0..max).prop_map(millis);
    prop_oneof![
        4 => (IDS, -3_i64..40).prop_map(|(id, ttl)| Step::Grant(id, ttl)),
        1 => IDS.prop_map(Step::Revoke),
        6 => IDS.prop_map(Step::Renew),
        2 => (IDS, key()).prop_map(|(id, key)| Step::Attach(id, key)),
        1 => (IDS, key()).prop_map(|(id, key)| Step::Detach(id, key)),
        2 => duration(5000).prop_map(Step::Promote),
        1 => Just(Step::Demote),
        1 => Just(Step::Restart),
        8 => duration(12_000).prop_map(Step::Pass),
        8 => Just(Step::Turn),
    ]
}

/// With proposals that are late, lost, or unexpected.
fn late_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => step(),
        1 => (IDS, -3_i64..60).prop_map(|(id, remaining)| Step::Checkpoint(id, remaining)),
        3 => Just(Step::Apply),
        1 => Just(Step::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_lease_expires_before_its_promised_time(steps in vec(step(), 1..120)) {
        let mut checker = Checker::new(true);
        steps.into_iter().for_each(|step| checker.step(step));
        checker.everything_expires_in_the_end();
    }

    #[test]
    fn a_lessor_is_a_map_with_deadlines(steps in vec(late_step(), 1..120)) {
        let mut checker = Checker::new(false);
        steps.into_iter().for_each(|step| checker.step(step));
        checker.everything_expires_in_the_end();
    }
}

#[derive(Clone, Debug)]
struct Lease {
    ttl: i64,
    remaining_ttl: i64,
    /// `None` while the lessor is not primary.
    deadline: Option<Duration>,
    /// Not reported before this time.
    hidden_until: Duration,
    checkpoint_due: Option<Duration>,
    promised: Duration,
    keys: BTreeSet<&'static str>,
}

/// The lessor and the model.
struct Checker {
    fixture: Fixture,
    leases: BTreeMap<i64, Lease>,
    primary: bool,
    proposed: Vec<Checkpoint>,
    /// Whether proposals are applied at once.
    prompt: bool,
}

fn after(now: Duration, ttl: i64) -> Duration {
    now + seconds(ttl.max(0).cast_unsigned())
}

impl Lease {
    fn known_ttl(&self) -> i64 {
        if self.remaining_ttl > 0 { self.remaining_ttl } else { self.ttl }
    }

    fn start(&mut self, now: Duration, extend: Duration) {
        self.deadline = Some(after(now, self.known_ttl()) + extend);
        self.hidden_until = now;
        self.checkpoint_due = self.next_checkpoint(now);
    }

    fn next_checkpoint(&self, now: Duration) -> Option<Duration> {
        let interval = CONFIG.checkpoint_interval;
        (after(now, self.known_ttl()) > now + interval).then_some(now + interval)
    }

    fn expired(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

impl Checker {
    fn new(prompt: bool) -> Checker {
        Checker {
            fixture: Fixture::new(CONFIG),
            leases: BTreeMap::new(),
            primary: false,
            proposed: Vec::new(),
            prompt,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Grant(id, ttl) => self.grant(id, ttl),
            Step::Revoke(id) => self.revoke(id),
            Step::Renew(id) => self.renew(id),
            Step::Attach(id, key) => self.attach(id, key),
            Step::Detach(id, key) => self.detach(id, key),
            Step::Checkpoint(id, remaining_ttl) => {
                self.checkpoint(Checkpoint { id: LeaseId(id), remaining_ttl });
            }
            Step::Promote(extend) => self.promote(extend),
            Step::Demote => {
                self.fixture.lessor.demote();
                self.stop();
            }
            Step::Restart => self.restart(),
            Step::Pass(time) => self.fixture.now += time,
            Step::Turn => drop(self.turn()),
            Step::Apply => self.apply(),
            Step::Lose => self.proposed.clear(),
        }
        self.compare();
    }

    fn grant(&mut self, id: i64, ttl: i64) {
        let now = self.fixture.now;
        let granted = self.fixture.grant(id, ttl);
        if id == 0 {
            return assert_eq!(granted, Err(GrantError::NotFound));
        }
        if self.leases.contains_key(&id) {
            return assert_eq!(granted, Err(GrantError::Exists));
        }
        let ttl = ttl.max(CONFIG.ttl_min_seconds);
        assert_eq!(granted, Ok(ttl));
        let mut lease = Lease {
            ttl,
            remaining_ttl: 0,
            deadline: None,
            hidden_until: Duration::ZERO,
            checkpoint_due: None,
            promised: after(now, ttl),
            keys: BTreeSet::new(),
        };
        if self.primary {
            lease.start(now, Duration::ZERO);
        }
        self.leases.insert(id, lease);
    }

    fn revoke(&mut self, id: i64) {
        let revoked = self.fixture.revoke(id);
        match self.leases.remove(&id) {
            None => assert_eq!(revoked, Err(RevokeError::NotFound)),
            Some(lease) => assert!(revoked.unwrap().iter().eq(lease.keys.iter())),
        }
    }

    fn renew(&mut self, id: i64) {
        let now = self.fixture.now;
        let renewed = self.fixture.renew(id);
        if !self.primary {
            return assert_eq!(renewed, Err(RenewError::NotPrimary));
        }
        let Some(lease) = self.leases.get_mut(&id) else {
            return assert_eq!(renewed, Err(RenewError::NotFound));
        };
        if lease.expired(now) {
            return assert_eq!(renewed, Ok(Renewal::AwaitRevoke));
        }
        if lease.remaining_ttl > 0 {
            assert_eq!(renewed, Ok(Renewal::ClearCheckpoint));
            self.propose(Checkpoint { id: LeaseId(id), remaining_ttl: 0 });
            // Applied at once, so that the next attempt succeeds.
            if self.prompt {
                self.renew(id);
            }
            return;
        }
        assert_eq!(renewed, Ok(Renewal::Renewed { ttl: lease.ttl }));
        lease.deadline = Some(after(now, lease.ttl));
        lease.promised = after(now, lease.ttl);
    }

    fn attach(&mut self, id: i64, key: &'static str) {
        let attached = self.fixture.lessor.attach(LeaseId(id), key.as_bytes());
        assert_eq!(attached, self.leases.contains_key(&id));
        if attached {
            self.leases.values_mut().for_each(|lease| lease.keys.retain(|it| *it != key));
            self.leases.get_mut(&id).unwrap().keys.insert(key);
        }
    }

    fn detach(&mut self, id: i64, key: &'static str) {
        self.fixture.lessor.detach(LeaseId(id), key.as_bytes());
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    fn promote(&mut self, extend: Duration) {
        let now = self.fixture.now;
        self.fixture.promote(extend);
        self.primary = true;
        self.leases.values_mut().for_each(|lease| lease.start(now, extend));
    }

    fn stop(&mut self) {
        self.primary = false;
        self.leases.values_mut().for_each(|lease| lease.deadline = None);
    }

    /// The store attaches the keys again.
    fn restart(&mut self) {
        self.fixture.restart(CONFIG);
        self.stop();
        for (id, lease) in &self.leases {
            for key in &lease.keys {
                assert!(self.fixture.lessor.attach(LeaseId(*id), key.as_bytes()));
            }
        }
    }

    fn propose(&mut self, checkpoint: Checkpoint) {
        self.proposed.push(checkpoint);
        if self.prompt {
            self.apply();
        }
    }

    fn apply(&mut self) {
        std::mem::take(&mut self.proposed).into_iter().for_each(|it| self.checkpoint(it));
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        let Checkpoint { id, remaining_ttl } = checkpoint;
        let now = self.fixture.now;
        self.fixture.checkpoint(id.0, remaining_ttl);
        let Some(lease) = self.leases.get_mut(&id.0) else { return };
        lease.remaining_ttl = remaining_ttl;
        let too_little = |deadline| remaining_ttl > 0 && deadline > after(now, remaining_ttl);
        lease.checkpoint_due = match lease.deadline {
            Some(deadline) if too_little(deadline) => Some(now),
            _ => lease.next_checkpoint(now),
        };
    }

    /// Takes a turn. Returns the expired leases.
    fn turn(&mut self) -> Vec<i64> {
        let (now, prompt) = (self.fixture.now, self.prompt);
        let turn = self.fixture.turn();
        let (mut expired, mut checkpoints) = (Vec::new(), Vec::new());
        for (id, lease) in self.leases.iter_mut().filter(|_| self.primary) {
            if lease.expired(now) && lease.hidden_until <= now {
                lease.hidden_until = now + CONFIG.expired_retry;
                expired.push(*id);
                assert!(!prompt || lease.promised <= now, "{id} expires too early: {lease:?}");
            }
            if !lease.expired(now) && lease.checkpoint_due.is_some_and(|due| due <= now) {
                lease.checkpoint_due = Some(now + CONFIG.checkpoint_interval);
                checkpoints.extend(due_checkpoint(*id, lease, now));
            }
        }
        let mut found: Vec<_> = turn.expired.iter().map(|id| id.0).collect();
        found.sort_unstable();
        assert_eq!(found, expired);
        let mut found = turn.checkpoints;
        found.sort_unstable_by_key(|it| it.id);
        assert_eq!(found, checkpoints);
        assert!(turn.next_due.is_none_or(|due| due > now), "the queues are empty");
        checkpoints.into_iter().for_each(|it| self.propose(it));
        expired
    }

    fn compare(&self) {
        let (fixture, lessor) = (&self.fixture, &self.fixture.lessor);
        for id in IDS {
            let lease = self.leases.get(&id);
            assert_eq!(lessor.contains(LeaseId(id)), lease.is_some());
            let expected = lease.map(|lease| self.time_to_live(lease));
            assert_eq!(lessor.time_to_live(LeaseId(id), fixture.now), expected);
            let keys = lease.map(|lease| lease.keys.iter().copied().collect::<Vec<_>>());
            assert_eq!(fixture.keys_of(id).is_some(), keys.is_some());
            assert_eq!(fixture.keys_of(id).unwrap_or_default(), keys.unwrap_or_default());
        }
        for key in KEYS {
            let of = self.leases.iter().find(|(_, lease)| lease.keys.contains(key));
            assert_eq!(lessor.lease_of(key.as_bytes()), of.map(|(id, _)| LeaseId(*id)));
        }
        let mut sorted: Vec<_> = self.leases.iter().map(|(id, it)| (it.deadline, *id)).collect();
        sorted.sort_unstable();
        assert!(fixture.leases().into_iter().eq(sorted.into_iter().map(|(_, id)| id)));
        assert_eq!(fixture.bucket().len(), self.leases.len());
    }

    fn time_to_live(&self, lease: &Lease) -> TimeToLive {
        let now = self.fixture.now;
        let whole = |time: Duration| i64::try_from(time.as_secs()).unwrap();
        let remaining = lease.deadline.map(|deadline| match deadline.checked_sub(now) {
            Some(left) => whole(left),
            None => -whole(now - deadline),
        });
        TimeToLive { granted: lease.ttl, remaining }
    }

    /// With a leader, every lease is reported after its deadline, repeatedly, until it is revoked.
    fn everything_expires_in_the_end(&mut self) {
        self.step(Step::Promote(seconds(1)));
        let last = self.leases.values().filter_map(|lease| lease.deadline).max();
        self.fixture.now = last.unwrap_or_default().max(self.fixture.now);
        for _ in 0..3 {
            self.fixture.now += CONFIG.expired_retry;
            assert!(self.turn().iter().eq(self.leases.keys()));
        }
        self.leases.keys().copied().collect::<Vec<_>>().into_iter().for_each(|id| self.revoke(id));
        // Their queue entries are stale.
        self.fixture.now += CONFIG.checkpoint_interval + seconds(60);
        assert_eq!(self.fixture.turn(), lease::LessorTurn::default());
        self.compare();
    }
}

/// Returns the remaining seconds, rounded up, if below the granted ones; zero if the known value is
/// wrong.
fn due_checkpoint(id: i64, lease: &Lease, now: Duration) -> Option<Checkpoint> {
    let left = lease.deadline? - now;
    let rounded = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    let left = i64::try_from(rounded).unwrap();
    let at = |remaining_ttl| Some(Checkpoint { id: LeaseId(id), remaining_ttl });
    if left < lease.ttl {
        at(left)
    } else if lease.remaining_ttl > 0 {
        at(0)
    } else {
        None
    }
}
