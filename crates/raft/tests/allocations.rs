//! Replication allocates per message, not per entry.

mod replication;

use replication::Cluster;

/// Entries in a batch.
const BATCH: usize = 1000;
/// Batches counted: enough for several compactions of the storage.
const BATCHES: u64 = 50;

/// Allocations are per batch: lists of entries and messages; payloads are shared.
#[test]
fn a_large_batch_allocates_less_than_once_per_twenty_entries() {
    let mut cluster = Cluster::new(3, 256);
    // Grow all reusable buffers first.
    (0..BATCHES).for_each(|_| cluster.commit(BATCH));
    let kept = cluster.kept();

    let before = cluster.applied();
    let info = allocation_counter::measure(|| (0..BATCHES).for_each(|_| cluster.commit(BATCH)));
    let entries = cluster.applied() - before;
    assert_eq!(entries, BATCHES * BATCH as u64);

    println!("{info:?} for {entries} entries on three members");
    assert!(info.count_total < entries / 20, "{} for {entries} entries", info.count_total);
    assert_eq!(info.count_current, 0, "memory leak");
    assert!(cluster.kept() <= kept + 2 * BATCH as u64, "storage is not compacted");
}

/// An idle cluster: heartbeats and their responses, every tick.
#[test]
fn an_idle_tick_allocates_at_most_three_times_per_member() {
    let mut cluster = Cluster::new(5, 0);
    (0..100).for_each(|_| cluster.tick());
    let info = allocation_counter::measure(|| (0..100).for_each(|_| cluster.tick()));
    println!("{info:?} for 100 ticks of five members");
    // A growing list of messages for each member that sends any.
    assert!(info.count_total <= 100 * 5 * 3, "{info:?}");
    assert_eq!(info.count_current, 0, "memory leak");
}
