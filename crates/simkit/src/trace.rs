//! The last events of a run.

use std::collections::VecDeque;
use std::fmt;

/// A record of the last events of a run, for the report of a failure.
#[derive(Clone, Debug)]
pub struct Trace<E> {
    events_max: usize,
    last: VecDeque<E>,
}

impl<E> Trace<E> {
    /// Returns a trace that keeps the last `events_max` events.
    #[must_use]
    pub fn new(events_max: usize) -> Trace<E> {
        Trace { events_max, last: VecDeque::new() }
    }

    /// Returns a trace that keeps nothing. A failing seed can be repeated with an enabled one.
    #[must_use]
    pub fn disabled() -> Trace<E> {
        Trace::new(0)
    }

    /// Records an event. `event` is called only if the trace is enabled.
    pub fn record(&mut self, event: impl FnOnce() -> E) {
        if self.events_max == 0 {
            return;
        }
        if self.last.len() == self.events_max {
            self.last.pop_front();
        }
        self.last.push_back(event());
    }
}

/// Writes one line per event.
impl<E: fmt::Display> fmt::Display for Trace<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.last.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept() {
        let mut trace = Trace::new(2);
        (1..=3).for_each(|event| trace.record(|| event));
        assert_eq!(trace.to_string(), "2\n3\n");
    }

    #[test]
    fn a_disabled_trace_makes_no_events() {
        let mut trace: Trace<String> = Trace::disabled();
        trace.record(|| panic!("made"));
        assert_eq!(trace.to_string(), "");
    }
}
