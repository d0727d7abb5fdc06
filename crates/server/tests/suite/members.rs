//! Members that differ in all that is their own hold the same.
//!
//! When a member commits, compacts and restarts, whether anybody waits for answers on it, whether it leads, and how much space it has is its own;
//! what the log makes of it is not.

use std::time::Duration;

use env::SeededRandom;
use server::{Applied, Outcome, Refusal, Reply};

use crate::support::{Member, Observed, Setup, Workload};

const SEEDS: u64 = 60;
const ENTRIES: usize = 80;

/// How a member goes about its own affairs: chances out of twelve, at each entry.
#[derive(Clone, Copy, Debug, Default)]
struct Habits {
    setup: Setup,
    commits: u64,
    compacts: u64,
    restarts: u64,
    leads: bool,
}

/// A member with habits.
struct Fed {
    habits: Habits,
    random: SeededRandom,
    member: Option<Member>,
}

impl Fed {
    fn new(habits: Habits, seed: u64) -> Fed {
        let member = Some(Member::new(habits.setup));
        Fed { habits, random: SeededRandom::new(seed), member }
    }

    fn member(&mut self) -> &mut Member {
        self.member.as_mut().expect("only gone while it restarts")
    }

    /// Applies what is missing up to an entry. Returns what that one came to.
    fn feed(&mut self, log: &Workload, upto: usize) -> Applied {
        let Habits { commits, compacts, restarts, .. } = self.habits;
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
        last.expect("the entry was not applied before")
    }

    fn apply(&mut self, log: &Workload, at: usize) -> Applied {
        let leads = self.habits.leads;
        let member = self.member();
        let applied = member.apply(&log.entries[at]).unwrap();
        if leads && matches!(applied, Applied::Empty) {
            member.machine.lessor.promote(Duration::from_secs(1), Duration::ZERO);
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

const BUSY: Habits = Habits {
    setup: Setup { compaction_batch_limit: 2, ..Setup::DEFAULT },
    commits: 9,
    compacts: 9,
    restarts: 0,
    leads: true,
};

/// Nobody asks it anything, it has no space, and it restarts often.
const IDLE: Habits = Habits {
    setup: Setup { quota: 1, compaction_batch_limit: 1000, waits: false, ..Setup::DEFAULT },
    commits: 2,
    compacts: 1,
    restarts: 1,
    leads: false,
};

#[test]
fn members_with_other_habits_hold_the_same_after_every_entry() {
    for seed in 0..SEEDS {
        let log = Workload::new(2_000 + seed, ENTRIES);
        let (mut busy, mut idle) = (Fed::new(BUSY, seed), Fed::new(IDLE, !seed));
        for upto in 1..=log.entries.len() {
            busy.feed(&log, upto);
            idle.feed(&log, upto);
            if upto % 16 == 0 || upto == log.entries.len() {
                let when = format!("seed {seed}, entry {upto}");
                busy.assert_same(&log.states[upto], &format!("{when}, the busy one"));
                idle.assert_same(&log.states[upto], &format!("{when}, the idle one"));
            }
        }
    }
}

#[test]
fn members_on_which_somebody_waits_answer_the_same() {
    let restless = Habits { restarts: 2, commits: 3, leads: false, ..BUSY };
    for seed in 0..SEEDS {
        let log = Workload::new(3_000 + seed, ENTRIES);
        let (mut one, mut other) = (Fed::new(BUSY, seed), Fed::new(restless, !seed));
        for upto in 1..=log.entries.len() {
            let (one, other) = (one.feed(&log, upto), other.feed(&log, upto));
            let when = format!("seed {seed}, entry {upto}");
            assert_eq!(comparable(&one), comparable(&other), "{when}");
        }
    }
}

/// Names of compactions count from the last restart.
fn comparable(applied: &Applied) -> String {
    match applied {
        Applied::Request(Outcome { result: Some(Ok(Reply::Compaction(_))), revision, .. }) => {
            format!("compaction at {revision}")
        }
        other => format!("{other:?}"),
    }
}

/// What finds no space is done all the same, because others may have had some; only the answer differs.
#[test]
fn a_member_without_space_does_what_others_do_and_says_no() {
    let full = Habits { setup: Setup { quota: 1, ..BUSY.setup }, ..BUSY };
    let mut refused = 0;
    for seed in 0..SEEDS / 3 {
        let log = Workload::new(4_000 + seed, ENTRIES);
        let (mut roomy, mut full) = (Fed::new(BUSY, seed), Fed::new(full, seed));
        for upto in 1..=log.entries.len() {
            let when = format!("seed {seed}, entry {upto}");
            match (result(roomy.feed(&log, upto)), result(full.feed(&log, upto))) {
                (Some(Ok(reply)), Some(Err(Refusal::NoSpace))) => {
                    assert!(takes_space(&reply), "{when}: {reply:?}");
                    refused += 1;
                }
                (roomy, full) => assert_eq!(roomy, full, "{when}"),
            }
        }
        full.assert_same(log.states.last().unwrap(), &format!("seed {seed}"));
    }
    assert!(refused > 200, "only {refused}");
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

/// Something that a log should lead to.
type Seen<'a> = &'a dyn Fn(&Observed) -> bool;

/// The other tests mean something only if logs have everything in them.
#[test]
fn a_log_has_everything_in_it() {
    let logs: Vec<Workload> = (0..SEEDS).map(|seed| Workload::new(seed, ENTRIES)).collect();
    let count = |has: Seen<'_>| logs.iter().filter(|log| log.states.iter().any(has)).count();
    let seen: [(&str, Seen<'_>); 9] = [
        ("a key at a lease", &|it| it.answers.leases.iter().any(|lease| !lease.2.is_empty())),
        ("a compaction", &|it| it.answers.compacted > 4),
        ("a tombstone", &|it| it.buckets["key"].iter().any(|(key, _)| key.len() == 18)),
        ("authentication", &|it| it.answers.auth.enabled),
        ("a permission", &|it| it.answers.users.iter().any(|user| user.contains("range_end"))),
        ("an alarm", &|it| !it.answers.alarms.is_empty()),
        ("a learner", &|it| it.answers.membership.members().any(|member| !member.is_voter())),
        ("one who left", &|it| it.answers.membership.removed().next().is_some()),
        ("a downgrade", &|it| it.answers.membership.downgrade().enabled),
    ];
    for (what, has) in seen {
        assert!(count(has) >= logs.len() / 5, "{what} in {} of {}", count(has), logs.len());
    }
}
