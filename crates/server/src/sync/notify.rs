//! A bell: rung by many, heard by one. However often it rings while nobody listens, it is heard once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Silent,
    Rung,
    /// For good: whoever listens shall end.
    Closed,
}

impl Bell {
    /// Wakes whoever listens, or who will next.
    pub(crate) fn ring(&self) {
        let mut state = self.lock();
        if *state == State::Silent {
            *state = State::Rung;
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Listens until it rings, or so much time has passed. False: it is time to end.
    pub(crate) fn wait(&self, time: Option<Duration>) -> bool {
        let silent = |state: &mut State| *state == State::Silent;
        let state = self.lock();
        let mut state = match time {
            Some(time) => {
                let woken = self.wake.wait_timeout_while(state, time, silent);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.wake.wait_while(state, silent).unwrap_or_else(PoisonError::into_inner),
        };
        if *state == State::Rung {
            *state = State::Silent;
        }
        *state != State::Closed
    }

    /// Tells whoever listens to end.
    pub(crate) fn close(&self) {
        *self.lock() = State::Closed;
        self.wake.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn is_rung(&self) -> bool {
        *self.lock() == State::Rung
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_heard_once_and_closed_for_good() {
        let bell = Bell::default();
        bell.ring();
        bell.ring();
        assert!(bell.wait(None), "it rang before");
        assert!(bell.wait(Some(Duration::ZERO)), "silence is no reason to end");
        bell.close();
        bell.ring();
        assert!(!bell.wait(None));
        assert!(!bell.wait(None));
    }
}
