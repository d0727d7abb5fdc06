//! How many connections the file descriptors of this process allow.
//!
//! Compat: the runtime of Go raises the soft limit to the hard one when a program starts, and etcd then gives each client listener what is
//! left after 150, which it keeps for its files and its peers. With a limit of 150 or less it does not start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not for clients.
pub const RESERVED_DESCRIPTORS: u64 = 150;

/// The limit leaves nothing for clients.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("file descriptor limit of etcd process is too low; please set higher")]
pub struct DescriptorError {
    /// What the limit is.
    pub limit: u64,
}

/// Raises the soft limit of file descriptors to the hard one, and says what it is now; `None` for no limit.
///
/// For the whole process, so meant for its start.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // A failure leaves the limit as it was, which is what the second look tells.
    let raised = current != maximum
        && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    if raised { maximum } else { current }
}

/// The [`connections_max`](crate::Config::connections_max) that a limit of descriptors allows.
pub fn connections_max(limit: Option<u64>) -> Result<u32, DescriptorError> {
    let Some(limit) = limit else { return Ok(u32::MAX) };
    match limit.checked_sub(RESERVED_DESCRIPTORS) {
        None | Some(0) => Err(DescriptorError { limit }),
        Some(left) => Ok(u32::try_from(left).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_is_left() {
        assert_eq!(connections_max(Some(1024)), Ok(874));
        assert_eq!(connections_max(Some(151)), Ok(1));
        assert_eq!(connections_max(Some(u64::MAX)), Ok(u32::MAX));
        assert_eq!(connections_max(None), Ok(u32::MAX));
    }

    #[test]
    fn a_limit_that_leaves_nothing_is_an_error() {
        assert_eq!(connections_max(Some(150)), Err(DescriptorError { limit: 150 }));
        assert_eq!(connections_max(Some(0)), Err(DescriptorError { limit: 0 }));
    }

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        assert_eq!(raise_descriptor_limit(), getrlimit(Resource::Nofile).maximum);
    }
}
