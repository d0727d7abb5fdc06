//! Alarms that the local member raises: `NOSPACE` for itself, `CORRUPT` for any member.
//!
//! Several requests may hit the same condition at once. The first one proposes the alarm; all of
//! them continue when the proposal completes, successfully or not:
//!
//! ```text
//!   apply put …41: no space ─┐                                          ┌─► complete …41
//!   apply put …42: no space ─┼─► propose NOSPACE of member 5 (id …45) ──┼─► complete …42
//!   check put …43: no space ─┘                                          └─► refuse …43
//! ```
//!
//! A client that gets the error therefore finds the alarm in the alarm list. Once the alarm is
//! active, requests are refused by a check of the alarm list and never get here.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmRequest, AlarmType};
use sync::oneshot;
use types::MemberId;

use crate::error::Error;
use crate::propose::proposer::Proposer;
use crate::propose::typed::AppliedReply;

/// Proposes alarms, each once at a time.
#[derive(Clone, Debug)]
pub(crate) struct AlarmProposer {
    proposer: Proposer,
    in_flight: Arc<AlarmsInFlight>,
}

/// The alarms that are proposed and not yet applied, each with the callbacks to run then. Each
/// callback belongs to a request, and the number of requests is bounded.
#[derive(Default)]
struct AlarmsInFlight(Mutex<BTreeMap<Alarm, Vec<Callback>>>);

/// The type of an alarm and the member that it is raised for.
type Alarm = (AlarmType, MemberId);
type Callback = Box<dyn FnOnce() + Send>;

impl AlarmProposer {
    pub(crate) fn new(proposer: Proposer) -> AlarmProposer {
        AlarmProposer { proposer, in_flight: Arc::default() }
    }

    /// Raises an alarm, unless its proposal is in flight. `callback` runs when the proposal has
    /// completed or failed, on the thread that completes it: it must not block. Returns whether
    /// this call proposed the alarm.
    pub(crate) fn maybe_raise(
        &self,
        kind: AlarmType,
        member: MemberId,
        callback: impl FnOnce() + Send + 'static,
    ) -> bool {
        let alarm = (kind, member);
        if !self.in_flight.add(alarm, Box::new(callback)) {
            return false;
        }
        let in_flight = Arc::clone(&self.in_flight);
        let proposed = self.proposer.propose_with_callback(activate(alarm), None, move |result| {
            if let Err(error) = result.and_then(AppliedReply::into_reply) {
                warn_of_failure(alarm, &error);
            }
            in_flight.complete(alarm);
        });
        if let Err(error) = proposed {
            warn_of_failure(alarm, &error);
            self.in_flight.complete(alarm);
        }
        true
    }

    /// Raises an alarm, unless its proposal is in flight. Returns when the proposal has completed
    /// or failed.
    pub(crate) async fn raise(&self, kind: AlarmType, member: MemberId) {
        let (sender, raised) = oneshot::channel();
        self.maybe_raise(kind, member, move || {
            let _ = sender.send(());
        });
        // A dropped callback means that the member is stopping.
        let _ = raised.await;
    }
}

impl AlarmsInFlight {
    /// Adds a callback. Returns true if the alarm is not proposed yet: the caller proposes it.
    fn add(&self, alarm: Alarm, callback: Callback) -> bool {
        match self.0.lock().entry(alarm) {
            Entry::Occupied(mut proposed) => {
                proposed.get_mut().push(callback);
                false
            }
            Entry::Vacant(vacant) => {
                vacant.insert(vec![callback]);
                true
            }
        }
    }

    /// Runs the callbacks of an alarm whose proposal has completed.
    fn complete(&self, alarm: Alarm) {
        let callbacks = self.0.lock().remove(&alarm);
        callbacks.into_iter().flatten().for_each(|callback| callback());
    }
}

impl fmt::Debug for AlarmsInFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

fn activate((kind, member): Alarm) -> AlarmRequest {
    let action = AlarmAction::Activate.into();
    AlarmRequest { action, member_id: member.0, alarm: kind.into() }
}

fn warn_of_failure((kind, member): Alarm, error: &Error) {
    tracing::warn!(alarm = kind.as_str_name(), member_id = %member, %error, "failed to raise an alarm");
}
