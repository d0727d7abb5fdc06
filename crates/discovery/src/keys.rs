//! Where a cluster keeps its list.
//!
//! ```text
//!   /_etcd/registry/<token>/_config/size        3
//!   /_etcd/registry/<token>/members/<id>        m1=http://10.0.0.1:2380
//! ```

const PREFIX: &str = "/_etcd/registry";

/// The keys of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn of(token: &str) -> Keys {
        Keys { prefix: clean(&format!("{PREFIX}/{token}")) }
    }

    /// How many members there will be.
    pub(crate) fn size(&self) -> String {
        clean(&format!("{}/_config/size", self.prefix))
    }

    /// What the keys of all members begin with.
    pub(crate) fn members(&self) -> String {
        clean(&format!("{}/members", self.prefix))
    }

    /// The key of a member.
    pub(crate) fn member(&self, id: u64) -> String {
        format!("{}/{id:x}", self.members())
    }
}

/// Compat: a token may be any text, and etcd makes a path of it as one would walk: `a//b/../c` is `a/c`.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The first key behind all that begin with `prefix`.
pub(crate) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // Keys are of text here, and no byte of that is 255.
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
        let keys = Keys::of("t");
        assert_eq!(keys.size(), "/_etcd/registry/t/_config/size");
        assert_eq!(keys.member(0x8e9e), "/_etcd/registry/t/members/8e9e");
        assert_eq!(end_of(&keys.members()), b"/_etcd/registry/t/membert");
        assert_eq!(Keys::of("a//b/../c/.").members(), "/_etcd/registry/a/c/members");
        assert_eq!(Keys::of("../../..").members(), "/members");
    }
}
