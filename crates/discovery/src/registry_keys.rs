//! The keys of a cluster in a discovery service.
//!
//! ```text
//!   /_etcd/registry/<token>/_config/size        3
//!   /_etcd/registry/<token>/members/<id>        m1=http://10.0.0.1:2380
//! ```

use gocompat::clean_path;

const PREFIX: &str = "/_etcd/registry";

/// The keys of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistryKeys {
    prefix: String,
}

impl RegistryKeys {
    /// Compat: a token may be any text, and etcd treats it as a path: `a//b/../c` is `a/c`.
    pub(crate) fn of(token: &str) -> RegistryKeys {
        RegistryKeys { prefix: clean_path(&format!("{PREFIX}/{token}")) }
    }

    /// Returns the key of the cluster size.
    pub(crate) fn size(&self) -> String {
        clean_path(&format!("{}/_config/size", self.prefix))
    }

    /// Returns the prefix of all members.
    pub(crate) fn members(&self) -> String {
        clean_path(&format!("{}/members", self.prefix))
    }

    /// Returns the key of a member.
    pub(crate) fn member(&self, id: u64) -> String {
        format!("{}/{id:x}", self.members())
    }
}

/// Returns the first key after all keys with this prefix.
pub(crate) fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // The keys are UTF-8, which has no byte 255.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_etcds() {
        let keys = RegistryKeys::of("t");
        assert_eq!(keys.size(), "/_etcd/registry/t/_config/size");
        assert_eq!(keys.member(0x8e9e), "/_etcd/registry/t/members/8e9e");
        assert_eq!(prefix_end(&keys.members()), b"/_etcd/registry/t/membert");
        assert_eq!(RegistryKeys::of("a//b/../c/.").members(), "/_etcd/registry/a/c/members");
        assert_eq!(RegistryKeys::of("../../..").members(), "/members");
    }
}
