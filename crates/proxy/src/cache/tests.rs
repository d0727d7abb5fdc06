use proto::etcdserverpb::ResponseHeader;

use super::*;

fn request(key: &str, end: &str) -> RangeRequest {
    RangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(end.as_bytes()),
        serializable: true,
        ..RangeRequest::default()
    }
}

fn response(revision: i64) -> Arc<RangeResponse> {
    let header = ResponseHeader { revision, ..ResponseHeader::default() };
    Arc::new(RangeResponse { header: Some(header), ..RangeResponse::default() })
}

/// Keeps a response with this revision.
fn add(cache: &Cache, request: &RangeRequest, revision: i64) {
    cache.add(request, &response(revision), cache.epoch());
}

fn has(cache: &Cache, request: &RangeRequest) -> bool {
    matches!(cache.get(request), Lookup::Hit(_))
}

fn invalidate(cache: &Cache, key: &str, end: &str) {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    cache.invalidate(&bytes(key), &bytes(end), None);
}

#[test]
fn a_linearizable_response_answers_serializable_requests() {
    let cache = Cache::default();
    let linearizable = RangeRequest { serializable: false, ..request("a", "") };
    assert_eq!(cache.get(&request("a", "")), Lookup::Miss);
    add(&cache, &linearizable, 1);
    assert_eq!(cache.get(&request("a", "")), Lookup::Hit(response(1)));
    let limited = RangeRequest { limit: 1, ..request("a", "") };
    assert_eq!(cache.get(&limited), Lookup::Miss, "another request");
}

#[test]
fn a_write_removes_the_entries_that_it_touches() {
    let all = [request("a", ""), request("b", ""), request("a", "c"), request("b", "\0")];
    let cases: [(&str, &str, [bool; 4]); 7] = [
        ("a", "", [false, true, false, true]),
        ("b", "", [true, false, false, false]),
        ("c", "", [true, true, true, false]),
        ("0", "", [true, true, true, true]),
        ("a", "b", [false, true, false, true]),
        ("0", "\0", [false, false, false, false]),
        ("d", "e", [true, true, true, false]),
    ];
    for (key, end, left) in cases {
        let cache = Cache::default();
        all.iter().for_each(|request| add(&cache, request, 1));
        invalidate(&cache, key, end);
        assert_eq!(all.each_ref().map(|request| has(&cache, request)), left, "[{key}, {end:?})");
    }
}

#[test]
fn a_response_at_a_revision_stays_until_it_is_compacted() {
    let cache = Cache::default();
    let at = |revision| RangeRequest { revision, ..request("a", "") };
    add(&cache, &at(5), 9);
    invalidate(&cache, "a", "");
    assert!(has(&cache, &at(5)));
    cache.compact(5);
    assert!(has(&cache, &at(5)), "the compacted revision itself can be read");
    cache.compact(6);
    assert_eq!(cache.get(&at(5)), Lookup::Compacted);
    assert_eq!(cache.len(), 0);
    add(&cache, &at(5), 9);
    assert_eq!(cache.len(), 0, "compacted revisions are not kept");
}

#[test]
fn a_response_from_before_a_write_is_not_kept() {
    let cache = Cache::default();
    cache.invalidate(&"x".into(), &Bytes::new(), Some(7));
    add(&cache, &request("a", ""), 6);
    assert_eq!(cache.len(), 0);
    add(&cache, &request("a", ""), 7);
    assert_eq!(cache.len(), 1);
}

#[test]
fn the_entry_that_was_not_used_for_the_longest_time_is_evicted() {
    let cache = Cache::default();
    for n in 0..ENTRIES_MAX {
        add(&cache, &request(&format!("{n:05}"), ""), 1);
    }
    assert!(has(&cache, &request("00000", "")));
    add(&cache, &request("x", ""), 1);
    assert_eq!(cache.len(), ENTRIES_MAX);
    assert!(has(&cache, &request("00000", "")) && !has(&cache, &request("00001", "")));
}

#[test]
fn a_response_is_kept_only_in_the_epoch_of_its_request() {
    let cache = Cache::default();
    for end_epoch in [Cache::clear, Cache::begin_epoch] {
        let sent_in = cache.epoch();
        end_epoch(&cache);
        cache.add(&request("a", ""), &response(1), sent_in);
        assert_eq!(cache.len(), 0);
    }
    add(&cache, &request("a", ""), 1);
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_cleared_cache_is_empty_in_every_index() {
    let cache = Cache::default();
    add(&cache, &request("a", ""), 1);
    add(&cache, &request("a", "c"), 1);
    cache.clear();
    let state = cache.state.lock();
    assert_eq!((state.entries.len(), state.points.len(), state.ranges.len()), (0, 0, 0));
    assert_eq!((state.ages.len(), state.bytes), (0, 0));
}
