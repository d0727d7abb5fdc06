//! Monitors the number of open file descriptors.
//!
//! A member without free descriptors can neither accept connections nor create the next segment of
//! its log.
//!
//! ```text
//!   /proc/self/fd       0 1 2 3 … 15                             16 in use
//!   /proc/self/limits   Max open files   20000   524288  files   limit 20000
//! ```
//!
//! Without `/proc`, the task logs a warning once and stops.

use std::io;
use std::path::Path;
use std::time::Duration;

use env::{Disk, Open};

use super::BackgroundTask;
use super::pending_task::{Interval, NEVER};
use crate::server::Server;

/// The interval between checks. Counting many descriptors takes a while.
const INTERVAL: Duration = Duration::from_secs(10 * 60);
/// The bound on the size of `/proc/self/limits`, which has some 1500 bytes.
const LIMITS_BYTES_MAX: usize = 1 << 16;

/// Counts file descriptors periodically.
#[derive(Debug)]
pub(super) struct Descriptors {
    server: Server,
    every: Interval,
    has_failed: bool,
}

impl Descriptors {
    pub(super) fn new(server: Server) -> Descriptors {
        let every = Interval::from_now(INTERVAL, server.now());
        Descriptors { server, every, has_failed: false }
    }

    fn check(&mut self) {
        let (metrics, disk) = (self.server.metrics(), &*self.server.inner.context.disk);
        let Some(used) = or_warn(used(disk), "failed to get file descriptor usage") else {
            self.has_failed = true;
            return;
        };
        metrics.fd_used.set(used);
        let Some(limit) = or_warn(limit(disk), "failed to get file descriptor limit") else {
            self.has_failed = true;
            return;
        };
        metrics.fd_limit.set(limit);
        if is_near(used, limit) {
            tracing::warn!(used, limit, "80% of file descriptors are used");
        }
    }
}

impl BackgroundTask for Descriptors {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.has_failed && self.every.is_due(now) {
            self.check();
        }
        if self.has_failed { NEVER } else { self.every.next() }
    }
}

fn or_warn(result: io::Result<i64>, what: &str) -> Option<i64> {
    result.inspect_err(|error| tracing::warn!(%error, "{what}")).ok()
}

/// Returns whether 80 % of the descriptors are used, rounded as in etcd.
fn is_near(used: i64, limit: i64) -> bool {
    used >= limit / 5 * 4
}

fn used(disk: &dyn Disk) -> io::Result<i64> {
    let open = disk.read_dir(Path::new("/proc/self/fd"))?.len();
    Ok(i64::try_from(open).unwrap_or(i64::MAX))
}

fn limit(disk: &dyn Disk) -> io::Result<i64> {
    let file = disk.open(Path::new("/proc/self/limits"), Open::read())?;
    // Files in `/proc` report no length.
    let mut bytes = vec![0; LIMITS_BYTES_MAX];
    let len = file.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes[..len]);
    let malformed = || io::Error::other("no limit of open files in /proc/self/limits");
    parse_limit(&text).ok_or_else(malformed)
}

/// Parses the soft limit of open files. "unlimited" becomes `i64::MAX`.
fn parse_limit(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(i64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max processes             62987                62987                processes
Max open files            20000                524288               files
";

    #[test]
    fn the_soft_limit_of_open_files_is_parsed() {
        assert_eq!(parse_limit(LIMITS), Some(20_000));
        assert_eq!(parse_limit("Max open files  unlimited  unlimited  files"), Some(i64::MAX));
        assert_eq!(parse_limit("Max open files"), None);
        assert_eq!(parse_limit(""), None);
    }

    #[test]
    fn a_usage_of_80_percent_is_near_the_limit() {
        assert!(!is_near(15_999, 20_000));
        assert!(is_near(16_000, 20_000));
        assert!(!is_near(1, i64::MAX));
    }

    #[test]
    fn usage_and_limit_are_read_from_proc() {
        let disk = env::OsDisk;
        assert!(used(&disk).unwrap() > 2);
        assert!(limit(&disk).unwrap() > 2);
    }
}
