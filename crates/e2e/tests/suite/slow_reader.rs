//! A client that opens watches and never reads, while others write: it costs bounded memory, and nobody else waits for it.

use e2e::{Client, Member, Options, Watching};

/// Streams that are never read.
const STREAMS: usize = 8;
const VALUE_BYTES: usize = 256 << 10;
const VALUES: usize = 400;
/// Of what was written, 100 MiB, each stream would be owed all: 800 MiB. What waits in the streams (4 MiB each) and for the database (64 MiB, if the disk is slow) is 100 MiB; 108 were
/// seen on a busy machine, and the rest is room, not a bound that follows from anything.
const GROWTH_BYTES_MAX: u64 = 200 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_never_read_cost_bounded_memory() {
    // Entries of the log are kept in memory for members that are behind, and are not what this is about.
    let options = Options::new().flag("snapshot-count", "20").flag("snapshot-catchup-entries", "1");
    let member = Member::start(options.flag("unsafe-no-fsync", "true"));
    let (writer, reader) = (member.client(), member.client());
    // What writing costs by itself is paid before.
    write(&writer, VALUES / 4).await;
    let before = member.memory_bytes();

    let mut asleep = Vec::new();
    for _ in 0..STREAMS {
        // Each on a connection of its own: they would also wait for each other on the client's side.
        asleep.push(member.client().watch_prefix("k", 0).await.unwrap());
    }
    let mut awake = reader.watch_prefix("k", 0).await.unwrap();
    let (_, heard) = tokio::join!(write(&writer, VALUES), awake.events(VALUES));
    assert_eq!(heard.unwrap().len(), VALUES, "who reads hears of everything");
    let growth = member.memory_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes for {STREAMS} streams nobody reads");

    // And once read again, they have it all, in order.
    let woken = &mut asleep[0];
    assert_eq!(revisions(woken, VALUES).await, revisions_of_last(&writer, VALUES).await);
}

/// Overwrites one key, which leaves as much history as many would.
async fn write(client: &Client, count: usize) {
    let value = "v".repeat(VALUE_BYTES);
    for _ in 0..count {
        client.put("k", &value).await.unwrap();
    }
}

async fn revisions(watching: &mut Watching, count: usize) -> Vec<i64> {
    let events = watching.events(count).await.unwrap();
    events.into_iter().map(|event| event.kv.unwrap().mod_revision).collect()
}

async fn revisions_of_last(client: &Client, count: usize) -> Vec<i64> {
    let last = client.get("k").await.unwrap().kvs[0].mod_revision;
    (last + 1 - i64::try_from(count).unwrap()..=last).collect()
}
