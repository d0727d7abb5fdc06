//! What clients asked and were told, and whether a correct store could have answered so.
//!
//! Clients write down what they do as a [`History`]: of each operation what was asked, when, and what came of it; of each watch
//! everything that it was told. [`check`] says whether one store, doing one thing after the other, explains all of it.
//!
//! ```text
//! client 1   |- put a="1" → 2 -|      |- put a="2" → 3 -|
//! client 2                                                  |- read a → "1" (mod 2), at 2 -|
//!
//! stale read: client 2 (5..6 ms): read a -> revision 2: 1 found: [a="1" (mod 2, created 2, version 1)];
//!             yet, before it began, client 1 (3..4 ms): put a="2" -> revision 3: put
//! ```
//!
//! ```
//! use history::{History, Options, Rule, check};
//!
//! let lines = r#"
//! {"operation":{"client":1,"invoked_ns":1000000,"request":{"put":{"key":"a","value":"1"}},"outcome":{"answered":{"at_ns":2000000,"response":{"revision":2,"body":{"put":{}}}}}}}
//! {"operation":{"client":1,"invoked_ns":3000000,"request":{"put":{"key":"a","value":"2"}},"outcome":{"answered":{"at_ns":4000000,"response":{"revision":3,"body":{"put":{}}}}}}}
//! {"operation":{"client":2,"invoked_ns":5000000,"request":{"range":{"key":"a"}},"outcome":{"answered":{"at_ns":6000000,"response":{"revision":2,"body":{"range":{"kvs":[{"key":"a","value":"1","create":2,"mod":2,"version":1}],"count":1}}}}}}}
//! "#;
//! let history = History::read(lines.as_bytes())?;
//! let violations = check(&history, &Options::default()).unwrap_err();
//! assert_eq!(violations[0].rule, Rule::StaleRead);
//! # Ok::<(), history::ReadError>(())
//! ```
//!
//! Always true: what is accepted has an order that explains it, which is handed out as a [`Log`]; what is refused has none (but for
//! [`Rule::Undecided`], if the search was given up); a verdict and its words follow from the history and the options alone.
//!
//! Left to others: making histories, and breaking what makes them. Nothing here knows a network, a process, protobuf or a clock.

pub mod record;

mod durability;
mod linear;
mod log;
mod model;
mod options;
mod violation;
mod watch;

pub use log::{Log, Writer};
pub use model::{Change, KeyHistory, Model};
pub use options::Options;
pub use record::{History, Operation, Outcome, ReadError, Record};
pub use violation::{Rule, Violation};

use watch::Coverage;

/// Whether a correct store could have answered so: the order that explains it, or everything that speaks against one.
pub fn check(history: &History, options: &Options) -> Result<Log, Vec<Violation>> {
    let mut violations = watch::check_streams(history, options);
    violations.extend(durability::check(history));
    // A watch that contradicts itself is no witness.
    let coverages: Vec<Coverage<'_>> = match violations.is_empty() {
        true => (0..).zip(&history.watches).map(|(i, watch)| Coverage::new(i, watch)).collect(),
        false => Vec::new(),
    };
    match linear::check(history, options, coverages) {
        Err(violation) => violations.insert(0, violation),
        Ok(log) if violations.is_empty() => {
            violations = watch::check_against_log(history, options, &log);
            if violations.is_empty() {
                return Ok(log);
            }
        }
        Ok(_) => {}
    }
    Err(violations)
}
