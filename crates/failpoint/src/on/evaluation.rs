//! A point that is evaluated on a thread of its own, so that only the task that awaits it is
//! delayed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use parking_lot::Mutex;

use super::registry::PointSlot;

/// The evaluation of a point, as a future.
#[derive(Debug)]
pub struct PointEvaluation(Arc<Mutex<EvaluationState>>);

#[derive(Debug)]
enum EvaluationState {
    /// The point is evaluated; the waker of the task that waits for it.
    Running(Option<Waker>),
    Done,
}

impl PointEvaluation {
    /// Begins to evaluate a point. If it is disabled, the future is ready at once.
    pub(super) fn begin(slot: &Arc<PointSlot>) -> PointEvaluation {
        let state = Arc::new(Mutex::new(EvaluationState::Done));
        if slot.is_enabled() {
            *state.lock() = EvaluationState::Running(None);
            let (slot, done) = (Arc::clone(slot), Arc::clone(&state));
            thread::spawn(move || {
                let _ = slot.evaluate();
                let before = std::mem::replace(&mut *done.lock(), EvaluationState::Done);
                if let EvaluationState::Running(Some(waker)) = before {
                    waker.wake();
                }
            });
        }
        PointEvaluation(state)
    }
}

impl Future for PointEvaluation {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.0.lock() {
            EvaluationState::Done => Poll::Ready(()),
            EvaluationState::Running(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
