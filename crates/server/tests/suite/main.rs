//! The state machine as a whole: what must hold whoever applies the log, wherever it is cut short, and whatever is in it.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `crash` | a power cut at any change leaves the state after some entry, from which the log leads on |
//! | `named_bugs` | bugs that etcd had when power failed |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod crash;
mod named_bugs;
mod support;
