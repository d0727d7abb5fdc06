//! The members that have written themselves to the list, the first first.
//!
//! ```text
//!   revision 7   /_etcd/registry/t/members/8e9e   m1=http://10.0.0.1:2380
//!   revision 9   /_etcd/registry/t/members/91bc   m2=http://10.0.0.2:2380
//!   revision 12  /_etcd/registry/t/members/fd42   m3=http://10.0.0.3:2380    one too many, if there are to be two
//! ```

use crate::keys::Keys;

/// The members on a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    keys: Keys,
    entries: Vec<Entry>,
}

/// What a member has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// Its name and URLs.
    pub(crate) info: String,
    /// When.
    pub(crate) revision: i64,
}

impl Entry {
    /// From what is stored. What is no text cannot be a member.
    pub(crate) fn new(key: &[u8], value: &[u8], revision: i64) -> Entry {
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        Entry { key: text(key), info: text(value), revision }
    }
}

impl Roster {
    pub(crate) fn new(keys: Keys) -> Roster {
        Roster { keys, entries: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds what was found, and tells.
    pub(crate) fn add(&mut self, entry: Entry) {
        let (member_key, member_info) = (entry.key.clone(), entry.info.clone());
        match self.try_add(entry) {
            Ok(()) => {
                tracing::info!(
                    memberKey = member_key,
                    memberInfo = member_info,
                    "found peer from discovery service"
                );
            }
            Err(why) => {
                tracing::warn!(memberKey = member_key, memberInfo = member_info, "{why}");
            }
        }
    }

    fn try_add(&mut self, entry: Entry) -> Result<(), &'static str> {
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

    /// Whether all places are taken, and none by this member.
    pub(crate) fn is_full_without(&self, key: &str, size: usize) -> bool {
        !self.entries.iter().take(size).any(|entry| entry.key == key) && self.entries.len() >= size
    }

    /// The text of an `--initial-cluster` with the first members.
    pub(crate) fn initial_cluster(&self, size: usize) -> String {
        let infos: Vec<&str> =
            self.entries.iter().take(size).map(|entry| entry.info.as_str()).collect();
        infos.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, info: &str, revision: i64) -> Entry {
        Entry::new(Keys::of("t").member(id).as_bytes(), info.as_bytes(), revision)
    }

    #[test]
    fn the_first_to_come_are_the_cluster() {
        let mut roster = Roster::new(Keys::of("t"));
        for (id, info, revision) in
            [(3, "c=http://3:1", 12), (1, "a=http://1:1 ", 7), (2, " b=http://2:1", 9)]
        {
            roster.add(entry(id, info, revision));
        }
        assert_eq!(roster.initial_cluster(2), "a=http://1:1,b=http://2:1");
        assert_eq!(roster.initial_cluster(5), "a=http://1:1,b=http://2:1,c=http://3:1");
        let key = |id| Keys::of("t").member(id);
        assert!(!roster.is_full_without(&key(2), 2));
        assert!(roster.is_full_without(&key(3), 2), "who comes third of two is too late");
        assert!(roster.is_full_without(&key(4), 3) && !roster.is_full_without(&key(4), 4));
    }

    #[test]
    fn what_is_no_member_is_left_out() {
        let mut roster = Roster::new(Keys::of("t"));
        roster.add(entry(1, "a=http://1:1", 7));
        let refused = |entry: Entry| roster.clone().try_add(entry).unwrap_err();
        assert_eq!(
            refused(entry(1, "a=http://1:1", 8)),
            "found duplicate peer from discovery service"
        );
        let nameless = entry(2, "http://1:1", 8);
        assert_eq!(refused(nameless), "invalid peer info returned from discovery service");
        let elsewhere = Entry::new(b"/x", b"a=http://1:1", 8);
        assert_eq!(refused(elsewhere), "invalid peer registry key");
    }
}
