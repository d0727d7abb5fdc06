//! Members that apply the same log reach the same state.
//!
//! Local to a member are the times of commits, turns of compaction and restarts, its waiters, its
//! leadership and its quota. The replicated state must not depend on them.

use std::time::Duration;

use env::SeededRandom;
use server::{Applied, Outcome, Refusal, Reply};

use crate::support::{Member, Observed, Setup, Workload};

const SEEDS: u64 = 60;
const ENTRIES: usize = 80;

/// The local schedule of a member: chances out of 12 at each entry.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule {
    setup: Setup,
    commits: u64,
    compacts: u64,
    restarts: u64,
    leads: bool,
}

/// A member that follows a schedule.
struct ScheduledMember {
    schedule: Schedule,
    random: SeededRandom,
    member: Option<Member>,
}

impl ScheduledMember {
    fn new(schedule: Schedule, seed: u64) -> ScheduledMember {
        let member = Some(Member::new(schedule.setup));
        ScheduledMember { schedule, random: SeededRandom::new(seed), member }
    }

    fn member(&mut self) -> &mut Member {
        self.member.as_mut().expect("absent only during a restart")
    }

    /// Applies the missing entries up to `upto`. Returns the result of the last one.
    fn apply_up_to(&mut self, log: &Workload, upto: usize) -> Applied {
        let Schedule { commits, compacts, restarts, .. } = self.schedule;
        if self.random.chance(restarts, 12) {
            self.member = self.member.take().map(|member| member.restart().unwrap());
        }
        let mut last = None;
        while self.applied() < upto {
            let applied = self.applied();
            last = Some(self.apply(log, applied));
            if self.random.chance(compacts, 12) {
                self.member().turn_compaction();
            }
            if self.random.chance(commits, 12) {
                self.member().commit();
            }
        }
        last.expect("at least one entry is missing")
    }

    fn apply(&mut self, log: &Workload, at: usize) -> Applied {
        let leads = self.schedule.leads;
        let member = self.member();
        let applied = member.apply(&log.entries[at]).unwrap();
        if leads && matches!(applied, Applied::Empty) {
            member.machine.lessor().promote(Duration::from_secs(1), Duration::ZERO);
        }
        applied
    }

    fn applied(&mut self) -> usize {
        usize::try_from(self.member().applied().0.0).unwrap()
    }

    fn assert_same(&mut self, wanted: &Observed, when: &str) {
        self.member().finish_compactions();
        Observed::of(&self.member().machine).assert_same(wanted, &when);
    }
}

const BUSY: Schedule = Schedule {
    setup: Setup { compaction_batch_limit: 2, ..Setup::DEFAULT },
    commits: 9,
    compacts: 9,
    restarts: 0,
    leads: true,
};

/// A member without waiters and with a full quota, which restarts often.
const IDLE: Schedule = Schedule {
    setup: Setup { quota: 1, compaction_batch_limit: 1000, waits: false, ..Setup::DEFAULT },
    commits: 2,
    compacts: 1,
    restarts: 1,
    leads: false,
};

#[test]
fn members_with_different_schedules_reach_the_same_state() {
    for seed in 0..SEEDS {
        let log = Workload::new(2_000 + seed, ENTRIES);
        let (mut busy, mut idle) =
            (ScheduledMember::new(BUSY, seed), ScheduledMember::new(IDLE, !seed));
        for upto in 1..=log.entries.len() {
            busy.apply_up_to(&log, upto);
            idle.apply_up_to(&log, upto);
            if upto % 16 == 0 || upto == log.entries.len() {
                let when = format!("seed {seed}, entry {upto}");
                busy.assert_same(&log.states[upto], &format!("{when}, busy member"));
                idle.assert_same(&log.states[upto], &format!("{when}, idle member"));
            }
        }
    }
}

#[test]
fn members_with_waiters_return_the_same_replies() {
    let restarting = Schedule { restarts: 2, commits: 3, leads: false, ..BUSY };
    for seed in 0..SEEDS {
        let log = Workload::new(3_000 + seed, ENTRIES);
        let (mut one, mut other) =
            (ScheduledMember::new(BUSY, seed), ScheduledMember::new(restarting, !seed));
        for upto in 1..=log.entries.len() {
            let (one, other) = (one.apply_up_to(&log, upto), other.apply_up_to(&log, upto));
            let when = format!("seed {seed}, entry {upto}");
            assert_eq!(comparable(&one), comparable(&other), "{when}");
        }
    }
}

/// Formats a result without the compaction number, which counts from the last restart.
fn comparable(applied: &Applied) -> String {
    match applied {
        Applied::Request(Outcome { result: Some(Ok(Reply::Compaction(_))), revision, .. }) => {
            format!("compaction at {revision}")
        }
        other => format!("{other:?}"),
    }
}

/// A request beyond the quota is applied, because other members may have space. Only the reply
/// differs.
#[test]
fn a_member_with_a_full_quota_reaches_the_same_state_but_refuses() {
    let full = Schedule { setup: Setup { quota: 1, ..BUSY.setup }, ..BUSY };
    let mut refused = 0;
    for seed in 0..SEEDS / 3 {
        let log = Workload::new(4_000 + seed, ENTRIES);
        let (mut unlimited, mut full) =
            (ScheduledMember::new(BUSY, seed), ScheduledMember::new(full, seed));
        for upto in 1..=log.entries.len() {
            let when = format!("seed {seed}, entry {upto}");
            match (result(unlimited.apply_up_to(&log, upto)), result(full.apply_up_to(&log, upto)))
            {
                (Some(Ok(reply)), Some(Err(Refusal::NoSpace))) => {
                    assert!(takes_space(&reply), "{when}: {reply:?}");
                    refused += 1;
                }
                (unlimited, full) => assert_eq!(unlimited, full, "{when}"),
            }
        }
        full.assert_same(log.states.last().unwrap(), &format!("seed {seed}"));
    }
    assert!(refused > 200, "only {refused} refusals");
}

fn result(applied: Applied) -> Option<Result<Reply, Refusal>> {
    match applied {
        Applied::Request(outcome) => outcome.result,
        _ => None,
    }
}

fn takes_space(reply: &Reply) -> bool {
    matches!(reply, Reply::Put(_) | Reply::Txn(_) | Reply::LeaseGrant(_))
}

/// Tells whether a state has a feature that the workload must cover.
type HasFeature<'a> = &'a dyn Fn(&Observed) -> bool;

/// Guards the workload: the other tests depend on its coverage.
#[test]
fn workloads_cover_all_kinds_of_state() {
    let logs: Vec<Workload> = (0..SEEDS).map(|seed| Workload::new(seed, ENTRIES)).collect();
    let count = |has: HasFeature<'_>| logs.iter().filter(|log| log.states.iter().any(has)).count();
    let features: [(&str, HasFeature<'_>); 9] = [
        ("a key with a lease", &|it| it.memory.leases.iter().any(|lease| !lease.2.is_empty())),
        ("a compaction", &|it| it.memory.compacted > 4),
        ("a tombstone", &|it| it.buckets["key"].iter().any(|(key, _)| key.len() == 18)),
        ("enabled auth", &|it| it.memory.auth.enabled),
        ("a permission", &|it| it.memory.users.iter().any(|user| user.contains("range_end"))),
        ("an alarm", &|it| !it.memory.alarms.is_empty()),
        ("a learner", &|it| it.memory.membership.members().any(|member| !member.is_voter())),
        ("a removed member", &|it| it.memory.membership.removed().next().is_some()),
        ("a downgrade", &|it| it.memory.membership.downgrade().enabled),
    ];
    for (feature, has) in features {
        assert!(
            count(has) >= logs.len() / 5,
            "{feature} in only {} of {} logs",
            count(has),
            logs.len()
        );
    }
}
