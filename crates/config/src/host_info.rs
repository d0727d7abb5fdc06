//! The machine that the configuration is for.

use std::net::IpAddr;

/// The facts about the machine that the configuration depends on.
#[derive(Clone, Copy, Debug)]
pub struct HostInfo {
    /// The architecture, by Go's name.
    pub arch: &'static str,
    /// Finds the local address of the default route.
    pub default_host: fn() -> Result<IpAddr, NoDefaultHost>,
}

/// The machine has no default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not find default route")]
pub struct NoDefaultHost;

impl HostInfo {
    /// Describes the machine that this process runs on.
    pub fn current(default_host: fn() -> Result<IpAddr, NoDefaultHost>) -> Self {
        Self { arch: go_arch(std::env::consts::ARCH), default_host }
    }

    /// Returns whether etcd supports the architecture.
    pub(crate) fn is_supported(&self) -> bool {
        ["amd64", "arm64", "ppc64le", "s390x"].contains(&self.arch)
    }
}

/// Returns Go's name of an architecture.
fn go_arch(arch: &'static str) -> &'static str {
    match arch {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::go_arch;

    #[test]
    fn architectures_have_gos_names() {
        assert_eq!(go_arch("x86_64"), "amd64");
        assert_eq!(go_arch("aarch64"), "arm64");
        assert_eq!(go_arch("s390x"), "s390x");
    }
}
