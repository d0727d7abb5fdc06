//! The number of connections that the limit on file descriptors allows.
//!
//! Compat: Go's runtime raises the soft limit to the hard limit when a program starts. etcd then
//! gives each client listener the limit minus 150, which it reserves for files and peers. With a
//! limit of 150 or less it does not start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for files and peers.
pub const RESERVED_DESCRIPTORS: u64 = 150;

/// The limit leaves no descriptors for clients.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("file descriptor limit of etcd process is too low; please set higher")]
pub struct DescriptorError {
    /// The limit.
    pub limit: u64,
}

/// Raises the soft limit of file descriptors to the hard limit and returns it; `None` if unlimited.
///
/// Affects the whole process; call it at the start.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // After a failure the soft limit is unchanged.
    let raised = current != maximum
        && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    if raised { maximum } else { current }
}

/// Returns the [`connections_max`](crate::Config::connections_max) for a limit on descriptors.
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
    fn clients_get_the_descriptors_that_are_not_reserved() {
        assert_eq!(connections_max(Some(1024)), Ok(874));
        assert_eq!(connections_max(Some(151)), Ok(1));
        assert_eq!(connections_max(Some(u64::MAX)), Ok(u32::MAX));
        assert_eq!(connections_max(None), Ok(u32::MAX));
    }

    #[test]
    fn a_limit_without_descriptors_for_clients_is_an_error() {
        assert_eq!(connections_max(Some(150)), Err(DescriptorError { limit: 150 }));
        assert_eq!(connections_max(Some(0)), Err(DescriptorError { limit: 0 }));
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        assert_eq!(raise_descriptor_limit(), getrlimit(Resource::Nofile).maximum);
    }
}
