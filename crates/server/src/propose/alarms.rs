//! Alarms that this member raises by itself: that it has no space, or that a member is corrupt.
//!
//! However many find out at the same time, an alarm is proposed once; and all of them go on when it is applied here, or could not be:
//!
//! ```text
//!   put …41 is applied: no space ─┐                                        ┌─► …41 is answered
//!   put …42 is applied: no space ─┼─► NOSPACE of member 5, proposed as …45 ─┼─► …42 is answered
//!   put …43 is asked:   no space ─┘                                        └─► …43 is refused
//! ```
//!
//! So a client that hears of it finds the alarm. Once it is raised, nobody comes here: they look before.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmRequest, AlarmType};
use types::MemberId;

use crate::error::Error;
use crate::propose::typed::AppliedReply;
use crate::server::Server;
use crate::sync::oneshot::promise;

/// The alarms that are proposed and not settled, and what is to be done then. Each waits for a request that is proposed or asked, and these are bounded.
#[derive(Default)]
pub(crate) struct Raising(Mutex<BTreeMap<Alarm, Vec<Then>>>);

/// A kind of alarm, and whose.
type Alarm = (AlarmType, MemberId);
type Then = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Raising {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

impl Raising {
    /// Whether it is the first who wants it raised.
    fn is_first(&self, alarm: Alarm, then: Then) -> bool {
        match self.lock().entry(alarm) {
            Entry::Occupied(mut others) => {
                others.get_mut().push(then);
                false
            }
            Entry::Vacant(nobody) => {
                nobody.insert(vec![then]);
                true
            }
        }
    }

    fn end(&self, alarm: Alarm) {
        let all = self.lock().remove(&alarm);
        all.into_iter().flatten().for_each(|then| then());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Alarm, Vec<Then>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Raises an alarm, unless that is under way. When it is raised, or could not be, something is done, by whoever knows: it must not take long. Returns whether
    /// it was not under way.
    pub(crate) fn maybe_raise(
        &self,
        kind: AlarmType,
        member: MemberId,
        then: impl FnOnce() + Send + 'static,
    ) -> bool {
        let alarm = (kind, member);
        if !self.shared.raising.is_first(alarm, Box::new(then)) {
            return false;
        }
        let server = self.clone();
        let proposed = self.propose_then(activate(alarm), None, move |answer| {
            if let Err(error) = answer.and_then(AppliedReply::into_reply) {
                warn_of_failure(alarm, &error);
            }
            server.shared.raising.end(alarm);
        });
        if let Err(error) = proposed {
            warn_of_failure(alarm, &error);
            self.shared.raising.end(alarm);
        }
        true
    }

    /// Raises an alarm, unless that is under way. Returns when it is raised, or could not be.
    pub(crate) async fn raise(&self, kind: AlarmType, member: MemberId) {
        let (promise, raised) = promise();
        self.maybe_raise(kind, member, move || promise.keep(()));
        raised.await;
    }
}

fn activate((kind, member): Alarm) -> AlarmRequest {
    let action = AlarmAction::Activate.into();
    AlarmRequest { action, member_id: member.0, alarm: kind.into() }
}

fn warn_of_failure((kind, member): Alarm, error: &Error) {
    tracing::warn!(alarm = kind.as_str_name(), member_id = %member, %error, "failed to raise an alarm");
}
