//! A client that opens watches and never reads, while others write: it costs bounded memory, and nobody else waits for it.

use e2e::{Client, Member, Options, WatchStream};

/// Streams that are never read.
const STREAMS: u64 = 4;
const VALUE_BYTES: u64 = 256 << 10;
/// Values that are written before, so that what writing costs by itself is paid.
const VALUES_BEFORE: u64 = 400;
/// Values that each stream is owed: 250 MiB. All streams are owed the same, and hold it together while they hold it: so that is also the least that it would cost if
/// they were remembered for without a bound.
const VALUES: u64 = 1000;

const MIB: u64 = 1 << 20;
/// A response ends with the value that reaches 1 MiB.
const RESPONSE_BYTES: u64 = MIB + VALUE_BYTES;
/// What a stream that nobody reads may hold: its queue, which one response may go beyond; what its watchers were refused with; and, on their way into the connection, a
/// response that is being framed, one that waits for the client's window, and one that is being sent.
const STREAM_BYTES: u64 = 4 * MIB + RESPONSE_BYTES + MIB + 3 * RESPONSE_BYTES;
/// What is read of history for all of them at a time, and what is written while that goes on.
const HUB_BYTES: u64 = 16 * MIB + 4 * MIB;
/// What may wait for the database. If the disk is slow only after the beginning, that is not paid before.
const PENDING_BYTES: u64 = 64 * MIB;
/// 124 MiB, half of what it would be without these bounds.
const GROWTH_BYTES_MAX: u64 = STREAMS * STREAM_BYTES + HUB_BYTES + PENDING_BYTES;

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_never_read_cost_bounded_memory() {
    // Entries of the log are kept in memory for members that are behind, and are not what this is about.
    let options = Options::new().flag("snapshot-count", "20").flag("snapshot-catchup-entries", "1");
    let member = Member::start(options.flag("unsafe-no-fsync", "true"));
    let (writer, reader) = (member.client(), member.client());
    write(&writer, VALUES_BEFORE).await;
    let before = member.memory_bytes();

    let mut asleep = Vec::new();
    for _ in 0..STREAMS {
        // Each on a connection of its own: they would also wait for each other on the client's side.
        asleep.push(member.client().watch_prefix("k", 0).await.unwrap());
    }
    let mut awake = reader.watch_prefix("k", 0).await.unwrap();
    let (_, heard) = tokio::join!(write(&writer, VALUES), awake.events(count(VALUES)));
    assert_eq!(heard.unwrap().len(), count(VALUES), "who reads hears of everything");
    let growth = member.memory_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes for {STREAMS} streams nobody reads");

    // And once read again, they have it all, in order.
    let woken = &mut asleep[0];
    assert_eq!(revisions(woken, VALUES).await, revisions_of_last(&writer, VALUES).await);
}

/// Overwrites one key, which leaves as much history as many would.
async fn write(client: &Client, values: u64) {
    let value = "v".repeat(count(VALUE_BYTES));
    for _ in 0..values {
        client.put("k", &value).await.unwrap();
    }
}

async fn revisions(watching: &mut WatchStream, values: u64) -> Vec<i64> {
    let events = watching.events(count(values)).await.unwrap();
    events.into_iter().map(|event| event.kv.unwrap().mod_revision).collect()
}

async fn revisions_of_last(client: &Client, values: u64) -> Vec<i64> {
    let last = client.get("k").await.unwrap().kvs[0].mod_revision;
    (last + 1 - values.cast_signed()..=last).collect()
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap()
}
