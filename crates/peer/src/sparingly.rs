//! Things that may happen thousands of times in a second, and are told once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often something is told.
const INTERVAL: Duration = Duration::from_secs(1);

/// Says when to tell.
#[derive(Debug, Default)]
pub(crate) struct Sparingly(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    since: u64,
}

impl Sparingly {
    /// It has happened. If it is to be told: how often it has happened since it was told last.
    pub(crate) fn tell(&self) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            told.since += 1;
            return None;
        }
        told.last = Some(Instant::now());
        Some(std::mem::take(&mut told.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_once() {
        let sparingly = Sparingly::default();
        assert_eq!(sparingly.tell(), Some(0));
        assert_eq!((sparingly.tell(), sparingly.tell()), (None, None));
        sparingly.0.lock().unwrap().last = Some(Instant::now() - 2 * INTERVAL);
        assert_eq!(sparingly.tell(), Some(2));
    }
}
