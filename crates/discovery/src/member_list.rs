//! The members registered with a discovery service, in order of registration.
//!
//! ```text
//!   revision 7   /_etcd/registry/t/members/8e9e   m1=http://10.0.0.1:2380
//!   revision 9   /_etcd/registry/t/members/91bc   m2=http://10.0.0.2:2380
//!   revision 12  /_etcd/registry/t/members/fd42   m3=http://10.0.0.3:2380    too late for a size of 2
//! ```

use crate::registry_keys::RegistryKeys;

/// The registered members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberList {
    keys: RegistryKeys,
    entries: Vec<RegistryEntry>,
}

/// The registration of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistryEntry {
    pub(crate) key: String,
    /// The name and URLs of the member.
    pub(crate) info: String,
    /// The create revision of the key.
    pub(crate) revision: i64,
}

impl RegistryEntry {
    /// Converts a key and value. Invalid UTF-8 is replaced, and is refused later.
    pub(crate) fn new(key: &[u8], value: &[u8], revision: i64) -> RegistryEntry {
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        RegistryEntry { key: text(key), info: text(value), revision }
    }
}

impl MemberList {
    pub(crate) fn new(keys: RegistryKeys) -> MemberList {
        MemberList { keys, entries: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry, and logs the outcome.
    pub(crate) fn add(&mut self, entry: RegistryEntry) {
        let (member_key, member_info) = (entry.key.clone(), entry.info.clone());
        match self.try_add(entry) {
            Ok(()) => {
                tracing::info!(
                    memberKey = member_key,
                    memberInfo = member_info,
                    "found peer from discovery service"
                );
            }
            Err(reason) => {
                tracing::warn!(memberKey = member_key, memberInfo = member_info, "{reason}");
            }
        }
    }

    fn try_add(&mut self, entry: RegistryEntry) -> Result<(), &'static str> {
        if !entry.key.starts_with(&self.keys.members()) {
            return Err("invalid peer registry key");
        }
        if !entry.info.contains('=') {
            return Err("invalid peer info returned from discovery service");
        }
        if self.entries.iter().any(|known| known.key == entry.key) {
            return Err("found duplicate peer from discovery service");
        }
        let at = self.entries.partition_point(|known| known.revision <= entry.revision);
        self.entries.insert(at, entry);
        Ok(())
    }

    /// Returns whether the first `size` members exclude this one, and are complete.
    pub(crate) fn is_full_without(&self, key: &str, size: usize) -> bool {
        !self.entries.iter().take(size).any(|entry| entry.key == key) && self.entries.len() >= size
    }

    /// Returns the text of an `--initial-cluster` with the first `size` members.
    pub(crate) fn initial_cluster(&self, size: usize) -> String {
        let infos: Vec<&str> =
            self.entries.iter().take(size).map(|entry| entry.info.as_str()).collect();
        infos.join(",")
    }
}

/// Parses the number of members, which is positive.
pub(crate) fn parse_size(value: &[u8]) -> Option<usize> {
    let size = str::from_utf8(value).ok()?.parse::<i64>().ok()?;
    usize::try_from(size).ok().filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, info: &str, revision: i64) -> RegistryEntry {
        RegistryEntry::new(RegistryKeys::of("t").member(id).as_bytes(), info.as_bytes(), revision)
    }

    #[test]
    fn the_first_registered_members_form_the_cluster() {
        let mut members = MemberList::new(RegistryKeys::of("t"));
        for (id, info, revision) in
            [(3, "c=http://3:1", 12), (1, "a=http://1:1 ", 7), (2, " b=http://2:1", 9)]
        {
            members.add(entry(id, info, revision));
        }
        assert_eq!(members.initial_cluster(2), "a=http://1:1,b=http://2:1");
        assert_eq!(members.initial_cluster(5), "a=http://1:1,b=http://2:1,c=http://3:1");
        let key = |id| RegistryKeys::of("t").member(id);
        assert!(!members.is_full_without(&key(2), 2));
        assert!(members.is_full_without(&key(3), 2), "the third of two is too late");
        assert!(members.is_full_without(&key(4), 3) && !members.is_full_without(&key(4), 4));
    }

    #[test]
    fn invalid_and_duplicate_entries_are_refused() {
        let mut members = MemberList::new(RegistryKeys::of("t"));
        members.add(entry(1, "a=http://1:1", 7));
        let refused = |entry: RegistryEntry| members.clone().try_add(entry).unwrap_err();
        assert_eq!(
            refused(entry(1, "a=http://1:1", 8)),
            "found duplicate peer from discovery service"
        );
        let nameless = entry(2, "http://1:1", 8);
        assert_eq!(refused(nameless), "invalid peer info returned from discovery service");
        let elsewhere = RegistryEntry::new(b"/x", b"a=http://1:1", 8);
        assert_eq!(refused(elsewhere), "invalid peer registry key");
    }
}
