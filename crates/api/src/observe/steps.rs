//! The trace log line of slow requests, with etcd's texts and fields.
//!
//! ```text
//!   {"level":"info",…,"msg":"trace","trace_id":1246700381,"operation":"range",
//!    "detail":"{range_begin:a; range_end:; response_count:1; response_revision:4; }",
//!    "duration":"741.4ms",
//!    "start":"2026-11-16T05:31:45.701665Z","end":"2026-11-16T05:31:46.443083Z",
//!    "steps":["'agreement among raft nodes before linearized reading'  (duration: 740.1ms)"],
//!    "step_count":1}
//! ```
//!
//! As in etcd, ranges, puts, transactions and compactions are logged, and a step is listed only if
//! it took its share of the threshold. A fast request costs one clock reading per step.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant, SystemTime};

use super::slow::date;
use super::spans::SpanGuard;

/// The threshold above which a request is logged.
const SLOW: Duration = Duration::from_millis(100);
/// The greatest number of steps of a request.
const STEPS_MAX: usize = 2;

/// The step until a linearizable read may start.
pub(crate) const AGREEMENT: &str = "agreement among raft nodes before linearized reading";
/// The step until the data is read and encoded.
pub(crate) const ASSEMBLY: &str = "assemble the response";
/// The step until a write is applied.
pub(crate) const RAFT: &str = "process raft request";

/// An operation of a call: its span, if traced, and the times of its steps.
#[derive(Debug)]
pub(crate) struct Operation {
    _span: Option<SpanGuard>,
    started: Instant,
    steps: [Option<(&'static str, Instant)>; STEPS_MAX],
}

/// The details of a logged request: names and values.
#[derive(Debug, Default)]
pub(crate) struct StepDetail(String);

impl Operation {
    /// Starts an operation.
    pub(crate) fn new(span: Option<SpanGuard>) -> Operation {
        Operation { _span: span, started: Instant::now(), steps: [None; STEPS_MAX] }
    }

    /// Ends a step.
    pub(crate) fn step(&mut self, step: &'static str) {
        if let Some(next) = self.steps.iter_mut().find(|step| step.is_none()) {
            *next = Some((step, Instant::now()));
        }
    }

    /// Logs the operation if it was slow. `detail` is called only then.
    pub(crate) fn log(&self, operation: &'static str, detail: impl FnOnce(&mut StepDetail)) {
        let took = self.started.elapsed();
        if took > SLOW && tracing::enabled!(tracing::Level::INFO) {
            let mut text = StepDetail::default();
            detail(&mut text);
            self.log_slow(operation, &text, took);
        }
    }

    #[cold]
    fn log_slow(&self, operation: &'static str, detail: &StepDetail, took: Duration) {
        let (end, steps) = (SystemTime::now(), self.slow_steps());
        tracing::info!(
            trace_id = trace_id(),
            operation,
            detail = %detail.braced(),
            duration = ?took,
            start = %date(end.checked_sub(took).unwrap_or(end)),
            end = %date(end),
            steps = ?steps,
            step_count = steps.len(),
            "trace"
        );
    }

    /// Formats the steps that took their share of the threshold.
    fn slow_steps(&self) -> Vec<String> {
        let all = self.steps.iter().flatten();
        let share = SLOW / u32::try_from(all.clone().count() + 1).unwrap_or(u32::MAX);
        let mut last = self.started;
        let took = all.map(|(step, at)| (step, *at - std::mem::replace(&mut last, *at)));
        let slow = took.filter(|(_, took)| *took > share);
        // Two spaces: etcd has the fields of a step between them, and these steps have none.
        slow.map(|(step, took)| format!("'{step}'  (duration: {took:?})")).collect()
    }
}

impl StepDetail {
    /// Adds a value.
    pub(crate) fn add(&mut self, name: &str, value: impl std::fmt::Display) -> &mut StepDetail {
        write!(self.0, "{name}:{value}; ").expect("writing to a string never fails");
        self
    }

    /// Adds bytes, such as a key.
    pub(crate) fn add_bytes(&mut self, name: &str, value: &[u8]) -> &mut StepDetail {
        self.add(name, String::from_utf8_lossy(value))
    }

    fn braced(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("{{{}}}", self.0) }
    }
}

/// A random number that distinguishes log lines.
fn trace_id() -> i32 {
    let [a, b, c, d, ..] = RandomState::new().hash_one(()).to_le_bytes();
    i32::from_le_bytes([a, b, c, d & 0x7f])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_steps_at(millis: &[u64]) -> Operation {
        let mut operation = Operation::new(None);
        for (step, millis) in operation.steps.iter_mut().zip(millis) {
            *step = Some((AGREEMENT, operation.started + Duration::from_millis(*millis)));
        }
        operation
    }

    #[test]
    fn a_step_is_listed_if_it_took_its_share() {
        let listed = |millis| with_steps_at(millis).slow_steps().len();
        assert_eq!(listed(&[]), 0);
        assert_eq!((listed(&[50]), listed(&[51])), (0, 1));
        assert_eq!((listed(&[40, 70]), listed(&[40, 80]), listed(&[10, 20])), (1, 2, 0));
        let [step] = &with_steps_at(&[60]).slow_steps()[..] else { panic!() };
        assert_eq!(*step, format!("'{AGREEMENT}'  (duration: 60ms)"));
    }

    #[test]
    fn steps_beyond_the_maximum_are_not_kept() {
        let mut operation = Operation::new(None);
        (0..3).for_each(|_| operation.step(RAFT));
        assert_eq!(operation.steps.iter().flatten().count(), STEPS_MAX);
    }

    #[test]
    fn a_fast_request_formats_no_detail() {
        Operation::new(None).log("range", |_| panic!("detail of a fast request"));
    }

    #[test]
    fn details_are_formatted_as_in_etcd() {
        let mut detail = StepDetail::default();
        assert_eq!(detail.braced(), "");
        detail.add_bytes("key", b"a\xff").add("req_size", 8);
        assert_eq!(detail.braced(), "{key:a\u{fffd}; req_size:8; }");
        assert!(trace_id() >= 0);
    }
}
