//! `/debug/pprof/`, with `--enable-pprof`; `--memory-mlock`; metrics of the allocator.

use std::fs;
use std::io::Read as _;

use e2e::{Member, Options, Proxy, Sandbox, http};
use flate2::read::GzDecoder;
use testkit::waiting::wait_until;

const NOT_FOUND: &str = "404 page not found\n";
/// The configuration file that comes with etcd, which enables profiles.
const SAMPLE: &str = include_str!("../../../../interop/suites/etcd.conf.yml.sample");

fn start() -> Member {
    Member::start(Options::new().flag("enable-pprof", "true"))
}

/// Decompresses a profile, and returns its bytes as text: names are stored as they are.
#[track_caller]
fn decompressed(response: &http::Response) -> String {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    assert_eq!(response.header("content-type"), Some("application/octet-stream"));
    let mut bytes = Vec::new();
    GzDecoder::new(&*response.body).read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_flag_enables_profiles_on_the_client_port() {
    let member = start();
    let line = member.log().wait_for_message("pprof is enabled");
    assert_eq!(line["path"], "/debug/pprof");
    let index = member.get("/debug/pprof/");
    assert_eq!(index.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(index.text().contains("<a href='heap?debug=1'>"), "{}", index.text());
    let redirect = member.get("/debug/pprof");
    assert_eq!((redirect.status, redirect.header("location")), (307, Some("/debug/pprof/")));
    let command_line = member.get("/debug/pprof/cmdline").text();
    assert!(command_line.split('\0').any(|word| word == "--enable-pprof=true"), "{command_line:?}");
    let threads = member.get("/debug/pprof/goroutine?debug=1").text();
    assert!(threads.lines().any(|line| line.contains(" raft ")), "{threads}");
    for (path, status, text) in [
        ("/debug/pprof/trace", 501, "Bowline has no Go runtime that records"),
        ("/debug/pprof/mutex", 501, "Bowline has no Go runtime that records"),
        ("/debug/pprof/profile?seconds=301", 400, "a profile takes at most 300 seconds"),
        ("/debug/pprof/nothing", 404, "Unknown profile"),
        ("/debug%2fpprof/heap", 404, NOT_FOUND.trim_end()),
    ] {
        let response = member.get(path);
        assert_eq!(response.status, status, "{path}");
        assert!(response.text().starts_with(text), "{path}: {}", response.text());
    }
    let listed = http::request(
        &member.sandbox().client_address(),
        "POST",
        "/debug/pprof/symbol",
        &[],
        "0x1+0x2",
    );
    assert_eq!(listed.text(), "num_symbols: 1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cpu_profile_shows_the_functions_of_busy_threads() {
    let member = start();
    let (client, address) = (member.client(), member.sandbox().client_address());
    let profile =
        tokio::task::spawn_blocking(move || http::get(&address, "/debug/pprof/profile?seconds=2"));
    let value = "v".repeat(10_000);
    while !profile.is_finished() {
        client.put("k", &value).await.unwrap();
    }
    let text = decompressed(&profile.await.unwrap());
    for name in ["nanoseconds", "thread", "tokio::"] {
        assert!(text.contains(name), "no {name} in the profile");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heap_profile_shows_the_functions_that_allocate() {
    let member = start();
    let value = "v".repeat(1 << 20);
    for number in 0..8 {
        member.client().put(&format!("k{number}"), &value).await.unwrap();
    }
    let text = decompressed(&member.get("/debug/pprof/heap"));
    for name in ["inuse_space", "alloc_space", "tokio::"] {
        assert!(text.contains(name), "no {name} in the profile");
    }
    let text = member.get("/debug/pprof/allocs?debug=1").text();
    assert!(text.starts_with("heap profile: ") && text.contains("\n#\t0x"), "{text}");
    assert!(!text.contains("env::heap_sampler"), "calls of the sampler are left out");
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_not_served_on_other_ports_or_without_the_flag() {
    let options = Options::new()
        .flag("enable-pprof", "true")
        .flag("listen-metrics-urls", "http://127.0.0.1:{extra}");
    let member = Member::start(options);
    for address in [member.sandbox().extra_address(), member.sandbox().peer_address()] {
        assert_eq!(http::get(&address, "/debug/pprof/").status, 404, "{address}");
    }
    let member = Member::start(Options::new());
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile"] {
        let response = member.get(path);
        assert_eq!((response.status, response.text().as_str()), (404, NOT_FOUND), "{path}");
    }
}

/// Compat: as in etcd, the log level enables profiles, too, without a log line.
#[tokio::test(flavor = "multi_thread")]
async fn the_sample_configuration_of_etcd_starts_a_member_with_profiles() {
    let sandbox = Sandbox::new();
    let sample = SAMPLE
        .replace("localhost:2379", "127.0.0.1:{client}")
        .replace("localhost:2380", "127.0.0.1:{peer}")
        .replace("\ndata-dir:\n", "\ndata-dir: {dir}/data\n")
        .replace("\ninitial-cluster:\n", "\ninitial-cluster: default=http://127.0.0.1:{peer}\n");
    fs::write(sandbox.path("config.yml"), sandbox.fill(&sample)).unwrap();
    let member = Member::start_in(sandbox, Options::bare().flag("config-file", "{dir}/config.yml"));
    member.client().put("k", "v").await.unwrap();
    assert!(member.sandbox().path("data").exists());
    assert_eq!(member.get("/debug/pprof/").status, 200);
    let member = Member::start(Options::new().flag("log-level", "debug"));
    assert_eq!(member.get("/debug/pprof/").status, 200);
    assert!(member.log().record("pprof is enabled").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_serves_profiles_of_its_own() {
    let member = Member::start(Options::new());
    let endpoints = format!("--endpoints={}", member.sandbox().client_address());
    let metrics = "--metrics-addr=http://127.0.0.1:{extra}";
    let proxy = Proxy::start("grpc-proxy", &[&endpoints, metrics, "--enable-pprof"]);
    let line = proxy.log().wait_for_message("gRPC proxy enabled pprof");
    assert_eq!(line["path"], "/debug/pprof");
    assert!(proxy.get("/debug/pprof/cmdline").text().contains("\0--enable-pprof"));
    assert!(decompressed(&proxy.get("/debug/pprof/heap")).contains("inuse_space"));
    assert!(decompressed(&proxy.get("/debug/pprof/profile?seconds=1")).contains("nanoseconds"));
    assert_eq!(proxy.get("/debug/pprof").status, 307);
    let address = proxy.address();
    let listed = http::request(&address, "POST", "/debug/pprof/symbol", &[], "0x1");
    assert_eq!(listed.text(), "num_symbols: 1\n");
    let extra = proxy.sandbox().extra_address();
    assert_eq!(http::get(&extra, "/debug/pprof/").status, 404, "only on the port for clients");
}

/// Returns the bytes of a member that are locked in memory.
fn locked_bytes(member: &Member) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", member.process().pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// Waits until the whole database is locked, or the log says that the system has refused: an
/// ordinary user may lock 8 MiB by default, which is enough for the start.
fn wait_until_locked(member: &Member) {
    const REFUSED: &str =
        "mlock failed; pages of the database may be swapped out or dropped from memory";
    let db = member.data_dir().join("member/snap/db");
    wait_until("the database is locked", || {
        let is_whole = locked_bytes(member) == fs::metadata(&db).unwrap().len();
        is_whole || member.log().record(REFUSED).is_some()
    });
    assert!(locked_bytes(member) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_mlock_keeps_the_database_in_memory() {
    let options = Options::new().flag("backend-batch-limit", "1");
    let member = Member::start(options.flag("memory-mlock", "true"));
    wait_until_locked(&member);
    let before = locked_bytes(&member);
    let value = "v".repeat(1 << 20);
    for number in 0..20 {
        member.client().put(&format!("k{number}"), &value).await.unwrap();
    }
    wait_until("the database has grown", || {
        fs::metadata(member.data_dir().join("member/snap/db")).unwrap().len() > before
    });
    wait_until_locked(&member);
    let member = Member::start(Options::new());
    assert_eq!(locked_bytes(&member), 0, "without the flag");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_the_allocator_and_threads_are_in_the_metrics() {
    let member = Member::start(Options::new());
    let threads = fs::read_dir(format!("/proc/{}/task", member.process().pid())).unwrap().count();
    assert!((member.metric("go_threads") - threads as f64).abs() < 10.0, "{threads} threads");
    let page = member.get("/metrics").text();
    let metric = |name| http::series(&page, name);
    let allocated = metric("go_memstats_heap_alloc_bytes");
    assert!(allocated > 1e5 && allocated < 2.0 * metric("process_resident_memory_bytes"));
    assert!(
        (metric("go_memstats_heap_sys_bytes") - allocated - metric("go_memstats_heap_idle_bytes"))
            .abs()
            < 1.0
    );
    for absent in ["go_goroutines", "go_gc_duration_seconds", "go_info"] {
        assert!(!page.contains(absent), "{absent}");
    }
}
