//! Requests that took long are told of in the log, step by step, with etcd's words and fields.
//!
//! ```text
//!   {"level":"info",…,"msg":"trace","trace_id":1246700381,"operation":"range","detail":"{range_begin:a; range_end:; response_count:1; response_revision:4; }",
//!    "duration":"741.4ms","start":"2026-11-16T05:31:45.701665Z","end":"2026-11-16T05:31:46.443083Z",
//!    "steps":["'agreement among raft nodes before linearized reading'  (duration: 740.1ms)"],"step_count":1}
//! ```
//!
//! As in etcd, that is done of ranges, puts, transactions and compactions, and a step is named only if it took its share. Whatever is quick costs a look at
//! the clock for each step.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant, SystemTime};

/// What takes longer is told of.
const LONG: Duration = Duration::from_millis(100);
/// Most steps of a request.
const STEPS_MAX: usize = 2;

/// Until it may be read.
pub(super) const AGREEMENT: &str = "agreement among raft nodes before linearized reading";
/// Until it is read and written out.
pub(super) const ASSEMBLY: &str = "assemble the response";
/// Until it is applied.
pub(super) const RAFT: &str = "process raft request";

/// The steps of a request.
#[derive(Debug)]
pub(super) struct Steps {
    began: Instant,
    done: [Option<(&'static str, Instant)>; STEPS_MAX],
}

/// What is told of a request: names and values.
#[derive(Debug, Default)]
pub(super) struct Detail(String);

impl Steps {
    /// It begins.
    pub(super) fn begin() -> Steps {
        Steps { began: Instant::now(), done: [None; STEPS_MAX] }
    }

    /// A step is done.
    pub(super) fn done(&mut self, step: &'static str) {
        if let Some(next) = self.done.iter_mut().find(|step| step.is_none()) {
            *next = Some((step, Instant::now()));
        }
    }

    /// It has ended. The detail is put together only if somebody gets to see it.
    pub(super) fn tell(&self, operation: &'static str, detail: impl FnOnce(&mut Detail)) {
        let took = self.began.elapsed();
        if took > LONG && tracing::enabled!(tracing::Level::INFO) {
            let mut told = Detail::default();
            detail(&mut told);
            self.log(operation, &told, took);
        }
    }

    #[cold]
    fn log(&self, operation: &'static str, detail: &Detail, took: Duration) {
        let (end, steps) = (SystemTime::now(), self.long());
        tracing::info!(
            trace_id = trace_id(),
            operation,
            detail = %detail.shown(),
            duration = ?took,
            start = %super::slow::date(end.checked_sub(took).unwrap_or(end)),
            end = %super::slow::date(end),
            steps = ?steps,
            step_count = steps.len(),
            "trace"
        );
    }

    /// Those that took their share.
    fn long(&self) -> Vec<String> {
        let all = self.done.iter().flatten();
        let share = LONG / u32::try_from(all.clone().count() + 1).unwrap_or(u32::MAX);
        let mut last = self.began;
        let took = all.map(|(step, at)| (step, *at - std::mem::replace(&mut last, *at)));
        let long = took.filter(|(_, took)| *took > share);
        // Two blanks: between them would be what is told of the step.
        long.map(|(step, took)| format!("'{step}'  (duration: {took:?})")).collect()
    }
}

impl Detail {
    /// Adds something.
    pub(super) fn add(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Detail {
        write!(self.0, "{name}:{value}; ").expect("a string takes what it is given");
        self
    }

    /// Adds bytes, such as a key.
    pub(super) fn add_bytes(&mut self, name: &str, value: &[u8]) -> &mut Detail {
        self.add(name, String::from_utf8_lossy(value))
    }

    fn shown(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("{{{}}}", self.0) }
    }
}

/// Any number: whoever reads the log tells one line from another by it.
fn trace_id() -> i32 {
    let [a, b, c, d, ..] = RandomState::new().hash_one(()).to_le_bytes();
    i32::from_le_bytes([a, b, c, d & 0x7f])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(millis: &[u64]) -> Steps {
        let mut steps = Steps::begin();
        for (place, millis) in steps.done.iter_mut().zip(millis) {
            *place = Some((AGREEMENT, steps.began + Duration::from_millis(*millis)));
        }
        steps
    }

    #[test]
    fn a_step_is_named_if_it_took_its_share() {
        let named = |millis| after(millis).long().len();
        assert_eq!(named(&[]), 0);
        assert_eq!((named(&[50]), named(&[51])), (0, 1));
        assert_eq!((named(&[40, 70]), named(&[40, 80]), named(&[10, 20])), (1, 2, 0));
        let [step] = &after(&[60]).long()[..] else { panic!() };
        assert_eq!(*step, format!("'{AGREEMENT}'  (duration: 60ms)"));
    }

    #[test]
    fn no_more_steps_are_kept_than_there_is_room_for() {
        let mut steps = Steps::begin();
        (0..3).for_each(|_| steps.done(RAFT));
        assert_eq!(steps.done.iter().flatten().count(), STEPS_MAX);
    }

    #[test]
    fn what_is_quick_is_not_told_of() {
        Steps::begin().tell("range", |_| panic!("nobody wants to know"));
    }

    #[test]
    fn details_look_as_in_etcd() {
        let mut detail = Detail::default();
        assert_eq!(detail.shown(), "");
        detail.add_bytes("key", b"a\xff").add("req_size", 8);
        assert_eq!(detail.shown(), "{key:a\u{fffd}; req_size:8; }");
        assert!(trace_id() >= 0);
    }
}
