//! Golden scripts: text files of commands, each with its expected output.
//!
//! The format is that of the Go library `cockroachdb/datadriven`, in which etcd-io/raft publishes
//! its cases:
//!
//! ```text
//! # A comment, for the reader.
//! add-nodes 2 voters=(1, 2) index=10      the directive: a command and its arguments
//! input, here none; may be many lines
//! ----
//! ok                                      the expected output, up to a blank line or the end
//!
//! status 1
//! ----
//! ----                                    doubled: the output may hold blank lines
//! 1: StateProbe
//!
//! 2: StateProbe
//! ----
//! ----
//! ```
//!
//! - A directive that ends in `\` continues on the next line.
//! - An argument is `key`, `key=value` or `key=(value, value)`; parentheses nest inside values.
//!   Quotes mean nothing: the second argument of `propose 1 "foo"` is five characters long.
//! - A command without output has nothing between `----` and the blank line.
//! - `subtest name` and `subtest end` group cases for the reader, and are skipped.
//!
//! A test passes a function from [`Case`] to output to [`run()`] (one file) or [`run_dir`] (a
//! directory, with a new handler per file). All cases run, all differences are reported, then the
//! test fails:
//!
//! ```no_run
//! use testkit::script::{self, Case};
//!
//! script::run_dir("testdata/sums", || {
//!     let mut sum = 0;
//!     move |case: &Case| match case.cmd.as_str() {
//!         "add" => {
//!             sum += case.position::<i64>(0);
//!             format!("sum {sum}")
//!         }
//!         other => case.fail(format_args!("no such command: {other}")),
//!     }
//! });
//! ```
//!
//! With `BOWLINE_REWRITE=1` in the environment, the actual output is written back to files under
//! `crates/*/testdata`, to be reviewed as a diff; comments and blank lines are kept. Files
//! elsewhere are only compared.

mod parse;

mod case;
mod directive;

mod run;

mod diff;
mod rewrite;

pub use case::{Arg, Case};
pub use parse::{ParseError, Reason, Script};
pub use rewrite::RewriteError;
pub use run::{Mismatch, RunError, Runner, published, run, run_dir, without_log_lines};
