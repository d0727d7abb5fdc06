//! Range streams: ranges in chunks.

use proto::etcdserverpb as pb;
use server::{Chunk, Error, RangeStream, Refusal, Server};

use super::{ANONYMOUS, TestMember, block_on, names, put, range_request};

/// Starts a member with `count` keys, each with a value of `value_bytes` bytes.
fn with_keys(max_request_bytes: usize, count: usize, value_bytes: usize) -> (TestMember, Server) {
    let running =
        TestMember::builder().config(|config| config.max_request_bytes = max_request_bytes).start();
    let server = running.server();
    let value = "x".repeat(value_bytes);
    for n in 0..count {
        put(&server, &format!("k{n:03}"), &value);
    }
    (running, server)
}

fn all() -> pb::RangeRequest {
    range_request("k", "l")
}

fn stream(server: &Server, request: pb::RangeRequest) -> RangeStream {
    block_on(server.read(ANONYMOUS, true)).unwrap().stream(request).unwrap()
}

fn chunks(server: &Server, request: pb::RangeRequest) -> Vec<Chunk> {
    stream(server, request).collect::<Result<_, _>>().unwrap()
}

fn sizes(chunks: &[Chunk]) -> Vec<usize> {
    chunks.iter().map(|chunk| chunk.range.kvs.len()).collect()
}

#[test]
fn small_chunks_grow_and_add_up_to_the_whole_range() {
    let (_running, server) = with_keys(1 << 20, 100, 10);
    let chunks = chunks(&server, all());
    assert_eq!(sizes(&chunks), [10, 20, 40, 30]);
    let whole = block_on(server.read(ANONYMOUS, true)).unwrap().range(&all()).unwrap();
    let together: Vec<String> = chunks.iter().flat_map(|chunk| names(&chunk.range.kvs)).collect();
    assert_eq!(together, names(&whole.kvs));
    let (last, others) = chunks.split_last().unwrap();
    assert!(last.is_last && !last.range.more);
    assert_eq!((last.range.count, last.range.revision), (100, 101));
    for chunk in others {
        assert!(!chunk.is_last && !chunk.range.more && chunk.range.count == 0);
    }
}

#[test]
fn large_chunks_shrink() {
    let (_running, server) = with_keys(1000, 30, 500);
    assert_eq!(sizes(&chunks(&server, all())), [10, 5, 2, 2, 2, 2, 2, 2, 2, 1]);
}

#[test]
fn a_limit_bounds_all_chunks_together() {
    let (_running, server) = with_keys(1 << 20, 100, 10);
    let limited = chunks(&server, pb::RangeRequest { limit: 25, ..all() });
    assert_eq!(sizes(&limited), [10, 15]);
    let last = &limited[1].range;
    assert!(last.more && last.count == 100, "`more` is set, and `count` covers the whole range");
    let few = chunks(&server, pb::RangeRequest { limit: 5, ..all() });
    assert_eq!(sizes(&few), [5]);
    assert!(few[0].is_last && few[0].range.count == 100);
    let exact = chunks(&server, pb::RangeRequest { limit: 100, ..all() });
    assert_eq!(sizes(&exact), [10, 20, 40, 30]);
    assert!(!exact[3].range.more && exact[3].range.count == 100);
    assert_eq!(sizes(&chunks(&server, pb::RangeRequest { limit: -1, ..all() })).len(), 4);
}

#[test]
fn a_count_and_an_empty_range_are_one_chunk() {
    let (_running, server) = with_keys(1 << 20, 20, 10);
    let count = chunks(&server, pb::RangeRequest { count_only: true, ..all() });
    assert!(count.len() == 1 && count[0].is_last && count[0].range.count == 20);
    let none = chunks(&server, range_request("x", "y"));
    assert!(none.len() == 1 && none[0].is_last && none[0].range.count == 0);
}

#[test]
fn all_chunks_are_read_at_one_revision() {
    let (_running, server) = with_keys(1 << 20, 20, 10);
    let mut stream = stream(&server, all());
    let first = stream.next().unwrap().unwrap();
    put(&server, "k015a", "new");
    let rest: Vec<Chunk> = stream.collect::<Result<_, _>>().unwrap();
    assert_eq!((sizes(&[first]), sizes(&rest)), (vec![10], vec![10]));
    assert_eq!(
        (rest[0].range.count, rest[0].range.revision),
        (20, 21),
        "revision at the start of the stream"
    );
}

#[test]
fn a_compaction_beyond_its_revision_ends_a_stream() {
    let (_running, server) = with_keys(1 << 20, 20, 10);
    let mut stream = stream(&server, all());
    stream.next().unwrap().unwrap();
    put(&server, "a", "1");
    let compact = pb::CompactionRequest { revision: 22, physical: false };
    block_on(server.compact(ANONYMOUS, compact)).unwrap();
    let compacted = Error::Refused(Refusal::Keys(mvcc::Error::Compacted));
    assert_eq!(stream.next(), Some(Err(compacted)));
    assert_eq!(stream.next(), None);
}
