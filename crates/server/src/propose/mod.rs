//! Proposals: requests on their way through the log, from the id they get to the result their
//! waiter gets.

pub(crate) mod alarms;
pub(crate) mod ids;
pub(crate) mod pending;
pub(crate) mod stage_timings;
pub(crate) mod typed;
