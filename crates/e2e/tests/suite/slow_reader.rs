//! Watch streams that are never read use bounded memory and delay no other client.

use e2e::{Client, Member, Options, WatchStream};

/// Number of streams that are never read.
const STREAMS: u64 = 4;
const VALUE_BYTES: u64 = 256 << 10;
/// Values written before the measurement, so that the cost of writing itself is not measured.
const VALUES_BEFORE: u64 = 400;
/// Values pending for each stream: 250 MiB. All streams share the same events, so this is also the
/// least memory that unbounded queues would use.
const VALUES: u64 = 1000;

const MIB: u64 = 1 << 20;
/// Size of a response: it ends with the value that reaches 1 MiB.
const RESPONSE_BYTES: u64 = MIB + VALUE_BYTES;
/// Bound on an unread stream: its queue, which one response may exceed; the pending response of its
/// watchers; and in the connection one response being framed, one waiting for the client's window
/// and one being sent.
const STREAM_BYTES: u64 = 4 * MIB + RESPONSE_BYTES + MIB + 3 * RESPONSE_BYTES;
/// Bound on history read for all streams at a time, and on writes meanwhile.
const HUB_BYTES: u64 = 16 * MIB + 4 * MIB;
/// Bound on batches that wait for the database, which may fill only during the measurement.
const PENDING_BYTES: u64 = 64 * MIB;
/// 124 MiB: half of the memory without these bounds.
const GROWTH_BYTES_MAX: u64 = STREAMS * STREAM_BYTES + HUB_BYTES + PENDING_BYTES;

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_never_read_use_bounded_memory() {
    // Keeps few log entries in memory, which this test does not measure.
    let options = Options::new().flag("snapshot-count", "20").flag("snapshot-catchup-entries", "1");
    let member = Member::start(options.flag("unsafe-no-fsync", "true"));
    let (writer, reader) = (member.client(), member.client());
    write(&writer, VALUES_BEFORE).await;
    let before = member.memory_bytes();

    let mut asleep = Vec::new();
    for _ in 0..STREAMS {
        // Separate connections, so that streams do not block each other on the client's side.
        asleep.push(member.client().watch_prefix("k", 0).await.unwrap());
    }
    let mut awake = reader.watch_prefix("k", 0).await.unwrap();
    let (_, events) = tokio::join!(write(&writer, VALUES), awake.events(count(VALUES)));
    assert_eq!(events.unwrap().len(), count(VALUES), "a reading stream receives every event");
    let growth = member.memory_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes for {STREAMS} unread streams");

    // When read again, the streams deliver every event in order.
    let woken = &mut asleep[0];
    assert_eq!(revisions(woken, VALUES).await, revisions_of_last(&writer, VALUES).await);
}

/// Overwrites one key, which leaves as much history as many keys.
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
