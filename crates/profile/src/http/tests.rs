use std::sync::Mutex;

use testkit::waiting::block_on;

use super::*;
use crate::pprof::tests::decode;

/// Held by tests that take CPU profiles: there is one sampler per process.
pub(crate) static SAMPLER: Mutex<()> = Mutex::new(());

fn request<'a>(name: &'a str, query: &'a str) -> ProfileRequest<'a> {
    ProfileRequest { method: &Method::GET, name, query, body: b"" }
}

fn get(name: &str, query: &str) -> Response<Bytes> {
    let profiles = Profiles::new(vec!["bowline".to_owned(), "--name=m1".to_owned()]);
    block_on(profiles.respond(&request(name, query)))
}

fn text(response: &Response<Bytes>) -> &str {
    std::str::from_utf8(response.body()).unwrap()
}

fn header(response: &Response<Bytes>, name: HeaderName) -> Option<&str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// Texts, codes and headers were printed by etcd 3.7.3.
#[test]
fn refusals_are_those_of_go() {
    let cases = [
        ("nonsense", "", 404, "Unknown profile\n"),
        ("heap", "seconds=x", 400, "invalid value for \"seconds\" - must be a positive integer\n"),
        ("heap", "seconds=0", 400, "invalid value for \"seconds\" - must be a positive integer\n"),
        ("heap", "seconds=1&debug=1", 400, "seconds and debug params are incompatible\n"),
    ];
    for (name, query, status, expected) in cases {
        let response = get(name, query);
        assert_eq!((response.status().as_u16(), text(&response)), (status, expected), "{name}");
        assert_eq!(header(&response, GO_PPROF), Some("1"));
        assert_eq!(header(&response, header::CONTENT_TYPE), Some("text/plain; charset=utf-8"));
        assert_eq!(header(&response, header::X_CONTENT_TYPE_OPTIONS), Some("nosniff"));
    }
}

#[test]
fn profiles_that_cannot_exist_say_so() {
    for name in ["trace", "block", "mutex"] {
        let response = get(name, "seconds=1");
        assert_eq!(response.status(), StatusCode::NOT_IMPLEMENTED, "{name}");
        assert!(text(&response).starts_with("Bowline has no Go runtime"), "{name}");
    }
}

#[test]
fn durations_are_bounded() {
    for name in ["profile", "heap", "allocs"] {
        let response = get(name, "seconds=301");
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{name}");
        assert_eq!(text(&response), "a profile takes at most 300 seconds; request several\n");
    }
}

#[test]
fn the_command_line_is_separated_by_nul() {
    let response = get("cmdline", "");
    assert_eq!(text(&response), "bowline\0--name=m1");
    assert_eq!(header(&response, header::CONTENT_TYPE), Some("text/plain; charset=utf-8"));
}

#[test]
fn threads_are_served_as_a_profile_and_as_text() {
    for name in ["goroutine", "threadcreate"] {
        let response = get(name, "");
        let expected = format!("attachment; filename=\"{name}\"");
        assert_eq!(header(&response, header::CONTENT_DISPOSITION), Some(expected.as_str()));
        let profile = decode(response.body());
        let threads: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
        assert!(threads > 1, "{threads}");
        assert_eq!(crate::pprof::tests::text(&profile, profile.sample_type[0].kind), name);
        assert!(text(&get(name, "debug=2")).starts_with("threads: "));
        let delta = get(name, "seconds=1");
        let expected = format!("attachment; filename=\"{name}-delta\"");
        assert_eq!(header(&delta, header::CONTENT_DISPOSITION), Some(expected.as_str()));
        assert!(decode(delta.body()).duration_nanos >= 1_000_000_000);
        assert_eq!(get(name, "seconds=x").status(), StatusCode::BAD_REQUEST);
    }
}

#[test]
fn addresses_are_resolved_in_query_and_body() {
    let address = format!("{:#x}", symbols_exist as *const () as u64);
    let expected = format!("num_symbols: 1\n{address} profile::http::symbols_exist\n");
    assert_eq!(text(&get("symbol", &format!("0x1+{address}+x"))), expected);
    let posted = ProfileRequest {
        method: &Method::POST,
        name: "symbol",
        query: "",
        body: address.as_bytes(),
    };
    assert_eq!(text(&block_on(Profiles::new(Vec::new()).respond(&posted))), expected);
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn a_second_cpu_profile_is_refused_until_the_first_ends() {
    let _alone = SAMPLER.lock().unwrap();
    let first = CpuProfile::start().unwrap();
    let refused = get("profile", "seconds=1");
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(text(&refused), "Could not enable CPU profiling: cpu profiling already in use\n");
    drop(first);
    let response = get("profile", "seconds=1");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        header(&response, header::CONTENT_DISPOSITION),
        Some("attachment; filename=\"profile\"")
    );
    assert_eq!(decode(response.body()).sample_type.len(), 2);
}

#[test]
fn heap_profiles_are_served_as_profiles_and_as_text() {
    for (name, first) in [("heap", "inuse_space"), ("allocs", "alloc_space")] {
        let response = get(name, "");
        let expected = format!("attachment; filename=\"{name}\"");
        assert_eq!(header(&response, header::CONTENT_DISPOSITION), Some(expected.as_str()));
        let profile = decode(response.body());
        let text_of = |index| crate::pprof::tests::text(&profile, index);
        assert_eq!(text_of(profile.default_sample_type), first);
        let kinds: Vec<_> = profile.sample_type.iter().map(|kind| text_of(kind.kind)).collect();
        assert_eq!(kinds, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
        assert!(text(&get(name, "debug=1")).starts_with("heap profile: "));
        let delta = get(name, "seconds=1");
        let expected = format!("attachment; filename=\"{name}-delta\"");
        assert_eq!(header(&delta, header::CONTENT_DISPOSITION), Some(expected.as_str()));
        assert!(decode(delta.body()).duration_nanos >= 1_000_000_000);
    }
}

#[test]
fn the_first_of_equal_parameters_counts() {
    let seconds = |text: &str| Some(text.to_owned());
    for (query, expected) in [
        ("", Parameters::default()),
        ("seconds=5&seconds=6&debug=1", Parameters { seconds: seconds("5"), debug: true }),
        ("debug=0&seconds=", Parameters::default()),
        ("debug=x", Parameters::default()),
    ] {
        assert_eq!(Parameters::parse(query), expected, "{query}");
    }
}
