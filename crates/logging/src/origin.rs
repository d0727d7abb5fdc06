//! The origin of an event: crate, logger name and line of code.
//!
//! ```text
//!   target    server::apply::kv               raft::election                h2::codec
//!   file      crates/server/src/apply/kv.rs   crates/raft/src/election.rs   (anywhere)
//!   caller    apply/kv.rs:120                 raft/election.rs:88
//!   logger    -                               raft                          -
//!   written   from --log-level                from --log-level              from warn
//! ```
//!
//! Events of dependencies (the HTTP stack, TLS) are written from `warn` only: their debug lines
//! describe frames, thousands per second.

use std::fmt;

/// The crates of this repository, as they appear in event targets.
const OURS: &[&str] = &[
    "api",
    "auth",
    "backend",
    "bolt",
    "bowline",
    "client",
    "config",
    "ctl",
    "discovery",
    "e2e",
    "env",
    "exposition",
    "failpoint",
    "gocompat",
    "grpc",
    "history",
    "lease",
    "logging",
    "membership",
    "mvcc",
    "net",
    "node",
    "peer",
    "profile",
    "proto",
    "proxy",
    "raft",
    "rpc",
    "server",
    "sim",
    "simkit",
    "sync",
    "testkit",
    "testmember",
    "tls",
    "trace",
    "types",
    "wal",
];

/// Returns whether the target belongs to a crate of this repository.
pub(super) fn is_ours(target: &str) -> bool {
    OURS.contains(&crate_of(target))
}

/// Returns the `logger` name; in etcd two components have one.
pub(super) fn logger_of(target: &str) -> Option<&'static str> {
    match crate_of(target) {
        "raft" => Some("raft"),
        "bolt" => Some("bbolt"),
        _ => None,
    }
}

fn crate_of(target: &str) -> &str {
    target.split_once("::").map_or(target, |(name, _)| name)
}

/// A line of code, printed as `dir/file.rs:line`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    directory: &'a str,
    file: &'a str,
    line: u32,
}

impl<'a> Caller<'a> {
    /// Creates a caller from the compiler's path of the file. For a file in `src`, the directory is
    /// that of the crate.
    pub(super) fn new(path: &'a str, line: u32) -> Self {
        let (above, file) = path.rsplit_once('/').unwrap_or(("", path));
        let above = above.strip_suffix("/src").unwrap_or(above);
        let directory = above.rsplit_once('/').map_or(above, |(_, last)| last);
        Self { directory, file, line }
    }

    /// Returns the directory, which the journal calls the package.
    pub(super) fn package(&self) -> &'a str {
        if self.directory.is_empty() { "." } else { self.directory }
    }
}

impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.directory.is_empty() {
            write!(f, "{}/", self.directory)?;
        }
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_keeps_the_last_directory_other_than_src() {
        let short = |path| Caller::new(path, 7).to_string();
        assert_eq!(short("crates/server/src/apply/kv.rs"), "apply/kv.rs:7");
        assert_eq!(short("crates/raft/src/election.rs"), "raft/election.rs:7");
        assert_eq!(short("src/main.rs"), "src/main.rs:7");
        assert_eq!(short("main.rs"), "main.rs:7");
        assert_eq!(Caller::new("main.rs", 7).package(), ".");
        assert_eq!(Caller::new("crates/raft/src/log.rs", 7).package(), "raft");
    }

    #[test]
    fn raft_and_bolt_have_etcds_logger_names() {
        assert_eq!(logger_of("raft::election"), Some("raft"));
        assert_eq!(logger_of("bolt"), Some("bbolt"));
        assert_eq!(logger_of("server::apply"), None);
    }

    #[test]
    fn every_crate_of_the_repository_is_listed() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for entry in std::fs::read_dir(crates).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(is_ours(&name), "add {name} to OURS, or its info lines are not written");
        }
        assert!(is_ours("server::apply::kv") && is_ours("bowline"));
        assert!(!is_ours("h2::codec") && !is_ours("servers"));
    }
}
