//! The etcd release that Bowline follows.

/// The etcd release that Bowline is compatible with, and that it reports to clients, peers and on
/// the command line. Clients choose features by it. `interop/go.mod` pins the same release for the
/// checks against etcd.
pub const ETCD_VERSION: &str = "3.7.3";
