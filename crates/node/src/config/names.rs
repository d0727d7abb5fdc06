//! Names of hosts become addresses, if need be late.
//!
//! A container can be up before its name is known to whoever is asked for names. So a name that nobody knows is asked for again, as in etcd:
//!
//! ```text
//!     0 s  failed to resolve URL Host      1 s  failed to resolve URL Host      2 s  resolved URL Host
//! ```
//!
//! Whoever waits here cannot be woken. It is for the time before signals are caught: until then they end the process by themselves.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use super::url::Url;
use gocompat::bracketed;

/// Turns the name of a host into an address, or says why it cannot.
pub type Resolve<'a> = &'a dyn Fn(&str) -> Result<IpAddr, String>;

/// How long names are asked for, all of them together.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before a name is asked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks for names, and asks again, while there is time.
pub struct Names<'a> {
    /// Asks once.
    resolve: Resolve<'a>,
    /// Waits before another try; or says that there is no time for one.
    pause: Box<dyn Fn() -> bool + 'a>,
}

impl<'a> Names<'a> {
    /// For as long as etcd would ask, which begins now: whoever compares several members does so with one of these, as the time is for all of them
    /// together.
    pub fn new(resolve: Resolve<'a>) -> Self {
        Self::with_pause(resolve, pauses())
    }

    /// With pauses of one's own.
    pub(crate) fn with_pause(resolve: Resolve<'a>, pause: impl Fn() -> bool + 'a) -> Self {
        Self { resolve, pause: Box::new(pause) }
    }

    /// The address of the host of a URL.
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
                    let (host, retry_interval) = (url.host(), PAUSE);
                    tracing::warn!(%url, host, ?retry_interval, error, "failed to resolve URL Host");
                    if !(self.pause)() {
                        tracing::warn!(%url, host, error, "failed to resolve URL Host; returning");
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// A pause that can be made for as long as there is time, which begins now.
fn pauses() -> impl Fn() -> bool {
    let until = Instant::now() + PATIENCE;
    move || {
        let has_time = Instant::now() + PAUSE < until;
        if has_time {
            thread::sleep(PAUSE);
        }
        has_time
    }
}
