//! Replication allocates for messages, not for entries.

mod replication;

use replication::Cluster;

/// Entries in a batch.
const BATCH: usize = 1000;
/// Batches counted: enough for storage to be compacted several times on the way.
const BATCHES: u64 = 50;

/// Lists of entries and messages, shared payloads: what is allocated is allocated for the batch.
#[test]
fn a_large_batch_allocates_less_than_once_for_twenty_entries() {
    let mut cluster = Cluster::new(3, 256);
    // What grows once and is then reused, grows now.
    (0..BATCHES).for_each(|_| cluster.commit(BATCH));
    let kept = cluster.kept();

    let before = cluster.applied();
    let info = allocation_counter::measure(|| (0..BATCHES).for_each(|_| cluster.commit(BATCH)));
    let entries = cluster.applied() - before;
    assert_eq!(entries, BATCHES * BATCH as u64);

    println!("{info:?} for {entries} entries on three members");
    assert!(info.count_total < entries / 20, "{} for {entries} entries", info.count_total);
    assert_eq!(info.count_current, 0, "nothing is kept");
    assert!(cluster.kept() <= kept + 2 * BATCH as u64, "storage is compacted as it grows");
}

/// A group without work: heartbeats and their answers, every tick.
#[test]
fn an_idle_tick_allocates_next_to_nothing() {
    let mut cluster = Cluster::new(5, 0);
    (0..100).for_each(|_| cluster.tick());
    let info = allocation_counter::measure(|| (0..100).for_each(|_| cluster.tick()));
    println!("{info:?} for 100 ticks of five members");
    // A list of messages for each member that has something to say, growing as it is filled.
    assert!(info.count_total <= 100 * 5 * 3, "{info:?}");
    assert_eq!(info.count_current, 0, "nothing is kept");
}
