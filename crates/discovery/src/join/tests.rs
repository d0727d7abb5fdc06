use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::*;

/// A list in memory, at which things go wrong and others come in a certain order.
#[derive(Default)]
struct Memory {
    keys: BTreeMap<String, (String, i64)>,
    revision: i64,
    /// As many requests are not answered.
    silent: u32,
    /// What happens while somebody watches: who comes; none is a watch that is lost.
    to_come: VecDeque<Option<(u64, &'static str)>>,
    watched_from: Vec<i64>,
}

impl Memory {
    fn with_size(size: &str) -> Memory {
        let mut memory = Memory::default();
        memory.store("/_etcd/registry/t/_config/size", size);
        memory
    }

    fn store(&mut self, key: &str, value: &str) -> Entry {
        self.revision += 1;
        let created = self.keys.get(key).map_or(self.revision, |(_, created)| *created);
        self.keys.insert(key.to_owned(), (value.to_owned(), created));
        Entry::new(key.as_bytes(), value.as_bytes(), created)
    }

    fn member(&mut self, id: u64, info: &str) -> Entry {
        self.store(&Keys::of("t").member(id), info)
    }

    fn answer(&mut self) -> Result<(), Status> {
        match self.silent {
            0 => Ok(()),
            _ => {
                self.silent -= 1;
                Err(Status::unavailable("nobody there"))
            }
        }
    }
}

impl Registry for Memory {
    async fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        self.answer()?;
        Ok(self.keys.get(key).map(|(value, _)| value.clone().into_bytes()))
    }

    async fn list(&mut self, key: &str, end: Vec<u8>) -> Result<(Vec<Entry>, i64), Status> {
        self.answer()?;
        let end = String::from_utf8(end).unwrap();
        let found = self.keys.range(key.to_owned()..end);
        let entries = found.map(|(key, (value, revision))| {
            Entry::new(key.as_bytes(), value.as_bytes(), *revision)
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

    async fn next(&mut self) -> Result<Vec<Entry>, Status> {
        match self.to_come.pop_front().expect("somebody waits for ever") {
            Some((id, info)) => Ok(vec![self.member(id, info)]),
            None => Err(Status::unavailable("gone")),
        }
    }
}

async fn joined(memory: Memory) -> Result<String, String> {
    let sound = |text: &str| !text.contains("bad");
    let joining = Joining::new(memory, "t", 0xa);
    joining.run("m=http://1:1", sound).await.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_one_begins_at_once() {
    assert_eq!(joined(Memory::with_size("1")).await.unwrap(), "m=http://1:1");
}

#[tokio::test(start_paused = true)]
async fn a_member_waits_for_the_others() {
    let mut memory = Memory::with_size("3");
    memory.member(0xb, "n=http://2:1");
    memory.to_come = [Some((0xb, "twice=http://2:1")), Some((0xc, "o=http://3:1"))].into();
    let expected = "n=http://2:1,m=http://1:1,o=http://3:1";
    assert_eq!(joined(memory).await.unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_lost_is_begun_again_after_a_look_at_the_list() {
    let mut memory = Memory::with_size("2");
    memory.to_come = [None, Some((0xc, "o=http://3:1"))].into();
    let mut joining = Joining::new(memory, "t", 0xa);
    joining.register("m=http://1:1").await;
    let mut found = joining.look().await.unwrap();
    // Somebody comes while nobody watches.
    joining.wait(&mut found).await;
    assert_eq!(found.roster.len(), 1);
    joining.wait(&mut found).await;
    assert_eq!(found.roster.len(), 2);
    assert_eq!(joining.registry.watched_from, [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_answer_is_asked_again_with_growing_pauses() {
    let mut memory = Memory::with_size("1");
    memory.silent = 4;
    let start = Instant::now();
    assert_eq!(joined(memory).await.unwrap(), "m=http://1:1");
    assert_eq!(start.elapsed().as_secs(), 2 + 4 + 8 + 16);
    let mut joining = Joining::new(Memory::with_size("1"), "t", 0xa);
    joining.retries = 100;
    let start = Instant::now();
    joining.pause("test").await;
    assert_eq!(start.elapsed().as_secs(), 256, "and no longer than that");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_there_before_comes_back() {
    let mut memory = Memory::with_size("2");
    memory.member(0xa, "m=http://1:1");
    memory.member(0xb, "n=http://2:1");
    assert_eq!(joined(memory).await.unwrap(), "m=http://1:1,n=http://2:1");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_work_out_is_refused() {
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
