//! Resolving host names with retries.
//!
//! A container may start before DNS knows its name. As in etcd, a name that cannot be resolved is
//! tried again:
//!
//! ```text
//!     0 s  failed to resolve URL Host    1 s  failed to resolve URL Host    2 s  resolved URL Host
//! ```
//!
//! The wait cannot be interrupted. It happens before signal handlers are installed, so a signal
//! still ends the process.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use config::url::Url;
use gocompat::bracketed;

/// Resolves a host name once, or returns why it failed.
pub(super) type ResolveFn<'a> = &'a dyn Fn(&str) -> Result<IpAddr, String>;

/// The time that all lookups of one resolver may take together.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(30);
/// The wait before a retry.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Resolves host names and retries until a common deadline.
pub(super) struct HostResolver<'a> {
    resolve: ResolveFn<'a>,
    /// Waits before a retry. Returns false if the deadline would pass.
    wait: Box<dyn Fn() -> bool + 'a>,
}

impl<'a> HostResolver<'a> {
    /// Creates a resolver whose deadline is [`RESOLVE_TIMEOUT`] from now. Comparing several members
    /// uses one resolver, because the deadline holds for all of them together.
    pub(super) fn new(resolve: ResolveFn<'a>) -> Self {
        Self::with_wait(resolve, wait_until_deadline())
    }

    /// Creates a resolver that waits with `wait`, which returns false to give up.
    pub(super) fn with_wait(resolve: ResolveFn<'a>, wait: impl Fn() -> bool + 'a) -> Self {
        Self { resolve, wait: Box::new(wait) }
    }

    /// Returns the address of the host of a URL.
    pub(super) fn address(&self, url: &Url) -> Result<IpAddr, String> {
        loop {
            match (self.resolve)(url.hostname()) {
                Ok(address) => {
                    let resolved_addr =
                        format!("{}:{}", bracketed(&address.to_string()), url.port());
                    tracing::info!(%url, host = url.host(), resolved_addr, "resolved URL Host");
                    return Ok(address);
                }
                Err(error) => {
                    let (host, retry_interval) = (url.host(), RETRY_INTERVAL);
                    tracing::warn!(%url, host, ?retry_interval, error, "failed to resolve URL Host");
                    if !(self.wait)() {
                        tracing::warn!(%url, host, error, "failed to resolve URL Host; returning");
                        return Err(error);
                    }
                }
            }
        }
    }
}

fn wait_until_deadline() -> impl Fn() -> bool {
    let deadline = Instant::now() + RESOLVE_TIMEOUT;
    move || {
        let has_time = Instant::now() + RETRY_INTERVAL < deadline;
        if has_time {
            thread::sleep(RETRY_INTERVAL);
        }
        has_time
    }
}
