use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::*;

/// A registry in memory with scripted failures and registrations.
#[derive(Default)]
struct Memory {
    keys: BTreeMap<String, (String, i64)>,
    revision: i64,
    /// The number of requests that are not answered.
    silent: u32,
    /// The registrations during a watch; `None` loses the watch.
    to_come: VecDeque<Option<(u64, &'static str)>>,
    watched_from: Vec<i64>,
}

impl Memory {
    fn with_size(size: &str) -> Memory {
        let mut memory = Memory::default();
        memory.store("/_etcd/registry/t/_config/size", size);
        memory
    }

    fn store(&mut self, key: &str, value: &str) -> RegistryEntry {
        self.revision += 1;
        let created = self.keys.get(key).map_or(self.revision, |(_, created)| *created);
        self.keys.insert(key.to_owned(), (value.to_owned(), created));
        RegistryEntry::new(key.as_bytes(), value.as_bytes(), created)
    }

    fn member(&mut self, id: u64, info: &str) -> RegistryEntry {
        self.store(&RegistryKeys::of("t").member(id), info)
    }

    fn answer(&mut self) -> Result<(), Status> {
        match self.silent {
            0 => Ok(()),
            _ => {
                self.silent -= 1;
                Err(Status::unavailable("unreachable"))
            }
        }
    }
}

impl Registry for Memory {
    async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        self.answer()?;
        Ok(self.keys.get(key).map(|(value, _)| value.clone().into_bytes()))
    }

    async fn list(&mut self, key: &str, end: Vec<u8>) -> Result<(Vec<RegistryEntry>, i64), Status> {
        self.answer()?;
        let end = String::from_utf8(end).unwrap();
        let state = self.keys.range(key.to_owned()..end);
        let entries = state.map(|(key, (value, revision))| {
            RegistryEntry::new(key.as_bytes(), value.as_bytes(), *revision)
        });
        Ok((entries.collect(), self.revision))
    }

    async fn put(&mut self, key: &str, value: &str) -> Result<(), Status> {
        self.answer()?;
        self.store(key, value);
        Ok(())
    }

    async fn watch(&mut self, _: &str, _: Vec<u8>, revision: i64) -> Result<(), Status> {
        self.watched_from.push(revision);
        self.answer()
    }

    async fn next(&mut self) -> Result<Vec<RegistryEntry>, Status> {
        match self.to_come.pop_front().expect("the watch has no further events") {
            Some((id, info)) => Ok(vec![self.member(id, info)]),
            None => Err(Status::unavailable("gone")),
        }
    }
}

async fn joined(memory: Memory) -> Result<String, String> {
    let is_valid = |text: &str| !text.contains("bad");
    let registration = Registration::new(memory, "t", 0xa);
    registration.run("m=http://1:1", is_valid).await.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_one_needs_no_wait() {
    assert_eq!(joined(Memory::with_size("1")).await.unwrap(), "m=http://1:1");
}

#[tokio::test(start_paused = true)]
async fn a_member_waits_until_the_cluster_is_complete() {
    let mut memory = Memory::with_size("3");
    memory.member(0xb, "n=http://2:1");
    memory.to_come = [Some((0xb, "twice=http://2:1")), Some((0xc, "o=http://3:1"))].into();
    let expected = "n=http://2:1,m=http://1:1,o=http://3:1";
    assert_eq!(joined(memory).await.unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_lost_watch_is_restarted_after_reading_the_members() {
    let mut memory = Memory::with_size("2");
    memory.to_come = [None, Some((0xc, "o=http://3:1"))].into();
    let mut registration = Registration::new(memory, "t", 0xa);
    registration.register("m=http://1:1").await;
    let mut state = registration.read_state().await.unwrap();
    // The first watch is lost.
    registration.wait_for_members(&mut state).await;
    assert_eq!(state.members.len(), 1);
    registration.wait_for_members(&mut state).await;
    assert_eq!(state.members.len(), 2);
    assert_eq!(registration.registry.watched_from, [3, 3]);
}

/// A revision from outside may be any number.
#[tokio::test(start_paused = true)]
async fn the_largest_revision_of_a_service_does_not_overflow() {
    let mut memory = Memory::with_size("2");
    memory.to_come = [None].into();
    let mut registration = Registration::new(memory, "t", 0xa);
    let mut state = registration.read_state().await.unwrap();
    state.revision = i64::MAX;
    registration.wait_for_members(&mut state).await;
    assert_eq!(registration.registry.watched_from, [i64::MAX]);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_service_is_retried_with_backoff() {
    let mut memory = Memory::with_size("1");
    memory.silent = 4;
    let start = Instant::now();
    assert_eq!(joined(memory).await.unwrap(), "m=http://1:1");
    assert_eq!(start.elapsed().as_secs(), 2 + 4 + 8 + 16);
    let mut registration = Registration::new(Memory::with_size("1"), "t", 0xa);
    registration.retries = 100;
    let start = Instant::now();
    registration.back_off("test").await;
    assert_eq!(start.elapsed().as_secs(), 256, "the delay is capped");
}

#[tokio::test(start_paused = true)]
async fn a_registered_member_joins_again() {
    let mut memory = Memory::with_size("2");
    memory.member(0xa, "m=http://1:1");
    memory.member(0xb, "n=http://2:1");
    assert_eq!(joined(memory).await.unwrap(), "m=http://1:1,n=http://2:1");
}

#[tokio::test(start_paused = true)]
async fn invalid_sizes_and_full_clusters_are_refused() {
    let refused = |memory| async { joined(memory).await.unwrap_err() };
    assert_eq!(refused(Memory::default()).await, "discovery: size key not found");
    for size in ["", "x", "0", "-1", "9999999999999999999"] {
        assert_eq!(refused(Memory::with_size(size)).await, "discovery: size key is bad");
    }
    let mut full = Memory::with_size("1");
    full.member(0xb, "n=http://2:1");
    assert_eq!(refused(full).await, "discovery: cluster is full");
    let mut bad = Memory::with_size("2");
    bad.member(0xb, "bad=x");
    assert_eq!(refused(bad).await, "discovery: invalid peer URL");
}
