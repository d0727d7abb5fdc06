//! Responses that were captured from etcd 3.7, compared byte by byte.

use std::future::ready;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::Request;
use http::header::HeaderMap;
use proto::etcdserverpb::AlarmType;

use super::*;
use proto::etcdserverpb::AlarmMember;

/// A member with a made-up state.
struct FakeMember {
    alarms: Vec<AlarmType>,
    leader: bool,
    learner: bool,
    local_read: Result<(), &'static str>,
    linearizable_read: Result<(), &'static str>,
    versions: [Option<&'static str>; 2],
}

const HEALTHY_MEMBER: FakeMember = FakeMember {
    alarms: Vec::new(),
    leader: true,
    learner: false,
    local_read: Ok(()),
    linearizable_read: Ok(()),
    versions: [Some("3.7.0"), Some("3.7.0")],
};

const STATUS: &str = r#"{"id":"2bc21162cab8eb93","term":2}"#;

impl Member for FakeMember {
    fn alarms(&self) -> Vec<AlarmMember> {
        let raised = self.alarms.iter();
        raised.map(|&alarm| AlarmMember { member_id: 1, alarm: alarm.into() }).collect()
    }

    fn has_leader(&self) -> bool {
        self.leader
    }

    fn is_learner(&self) -> bool {
        self.learner
    }

    fn probe(
        &self,
        linearizable: bool,
    ) -> impl Future<Output = Result<(), impl std::fmt::Display + Send>> + Send {
        ready(if linearizable { self.linearizable_read } else { self.local_read })
    }

    fn cluster_version(&self) -> Option<String> {
        self.versions[0].map(str::to_owned)
    }

    fn storage_version(&self) -> Option<String> {
        self.versions[1].map(str::to_owned)
    }

    fn raft_status(&self) -> impl Future<Output = Option<String>> + Send {
        ready(Some(STATUS.to_owned()))
    }
}

/// Runs a future that never waits, except for the yield before a page of metrics.
fn now<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut cx) = (pin!(future), Context::from_waker(Waker::noop()));
    for _ in 0..2 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
    panic!("the future did not finish within two polls");
}

fn serve(member: FakeMember, config: Config) -> Http<FakeMember> {
    Http::new(member, config, prometheus::Registry::new()).unwrap()
}

fn head(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// Returns status, headers without CORS, and body.
fn ask_on(http: &Http<FakeMember>, surface: Surface, method: &str, uri: &str) -> String {
    let response = now(http.call(surface, false, &head(method, uri, &[]), b""));
    let mut text = response.status().as_u16().to_string();
    text.push('\n');
    for (name, value) in response.headers() {
        if !name.as_str().starts_with("access-control-") {
            text.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
        }
    }
    text + "\n" + std::str::from_utf8(response.body()).unwrap()
}

fn ask(member: FakeMember, uri: &str) -> String {
    ask_on(&serve(member, Config::default()), Surface::Client, "GET", uri)
}

const OK: &str = "200\ncontent-type: text/plain; charset=utf-8\n";
const HEALTHY: &str =
    "200\ncontent-type: text/plain; charset=utf-8\n\n{\"health\":\"true\",\"reason\":\"\"}";
const FAILED: &str =
    "503\ncontent-type: text/plain; charset=utf-8\nx-content-type-options: nosniff\n\n";
const NOT_FOUND: &str = "404\ncontent-type: text/plain; charset=utf-8\nx-content-type-options: nosniff\n\n404 page not found\n";
const NOT_ALLOWED: &str = "405\ncontent-type: text/plain; charset=utf-8\nx-content-type-options: nosniff\nallow: GET\n\nMethod Not Allowed\n";

#[test]
fn a_healthy_member_reports_health_true() {
    for uri in ["/health", "/health?serializable=true", "/health?exclude=%zz&a;b", "/he%61lth"] {
        assert_eq!(ask(HEALTHY_MEMBER, uri), HEALTHY, "{uri}");
    }
}

#[test]
fn health_reports_the_first_failure() {
    let unhealthy = |alarms: &[AlarmType]| FakeMember {
        alarms: alarms.to_vec(),
        leader: false,
        linearizable_read: Err("etcdserver: request timed out"),
        ..HEALTHY_MEMBER
    };
    let reason = |reason| format!("{FAILED}{{\"health\":\"false\",\"reason\":\"{reason}\"}}\n");
    let both = [AlarmType::Nospace, AlarmType::Corrupt];
    assert_eq!(ask(unhealthy(&both), "/health"), reason("ALARM NOSPACE"));
    assert_eq!(ask(unhealthy(&both), "/health?exclude=NOSPACE"), reason("ALARM CORRUPT"));
    let uri = "/health?exclude=NOSPACE&exclude=CORRUPT";
    assert_eq!(ask(unhealthy(&both), uri), reason("RAFT NO LEADER"));
    assert_eq!(ask(unhealthy(&[]), "/health?serializable=true"), HEALTHY);
    let led = FakeMember { leader: true, ..unhealthy(&[]) };
    assert_eq!(ask(led, "/health"), reason("RANGE ERROR:etcdserver: request timed out"));
}

#[test]
fn verbose_lists_the_passed_checks() {
    let ok = format!("{OK}x-content-type-options: nosniff\n\n");
    for (uri, body) in [
        ("/livez", "ok\n"),
        ("/livez?verbose", "[+]serializable_read ok\nok\n"),
        ("/livez?verbose&exclude=serializable_read", "ok\n"),
        ("/livez/serializable_read", "ok\n"),
        (
            "/readyz?verbose=0",
            "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n",
        ),
        (
            "/readyz?verbose&exclude=linearizable_read&exclude=nope",
            "[+]data_corruption ok\n[+]serializable_read ok\n[+]non_learner ok\nok\n",
        ),
        // The path of a single check ignores `exclude`.
        ("/readyz/non_learner?verbose&exclude=non_learner", "[+]non_learner ok\nok\n"),
    ] {
        assert_eq!(ask(HEALTHY_MEMBER, uri), format!("{ok}{body}"), "{uri}");
    }
}

#[test]
fn a_failure_lists_all_checks() {
    let unhealthy = || FakeMember {
        alarms: vec![AlarmType::Corrupt],
        learner: true,
        local_read: Err("etcdserver: server stopped"),
        linearizable_read: Err("etcdserver: request timed out"),
        ..HEALTHY_MEMBER
    };
    let lines = "[-]data_corruption failed: alarm activated: CORRUPT\n\
                 [-]serializable_read failed: etcdserver: server stopped\n\
                 [-]linearizable_read failed: etcdserver: request timed out\n\
                 [-]non_learner failed: not supported for learner\n";
    assert_eq!(ask(unhealthy(), "/readyz"), format!("{FAILED}{lines}\n"));
    let one = "[-]data_corruption failed: alarm activated: CORRUPT\n\n";
    assert_eq!(ask(unhealthy(), "/readyz/data_corruption"), format!("{FAILED}{one}"));
    // A full database does not make a member unready.
    let full = FakeMember { alarms: vec![AlarmType::Nospace], ..HEALTHY_MEMBER };
    assert!(ask(full, "/readyz").starts_with("200\n"));
}

#[test]
fn version_reports_server_cluster_and_storage() {
    let json = "200\ncontent-type: application/json\n\n";
    let known = r#""etcdcluster":"3.7.0","storage":"3.7.0"}"#;
    let server = format!(r#"{{"etcdserver":"{}","#, types::ETCD_VERSION);
    assert_eq!(ask(HEALTHY_MEMBER, "/version"), format!("{json}{server}{known}"));
    let young = FakeMember { versions: [None, None], ..HEALTHY_MEMBER };
    let unknown = r#""etcdcluster":"not_decided","storage":"unknown"}"#;
    assert_eq!(ask(young, "/version"), format!("{json}{server}{unknown}"));
}

#[test]
fn unknown_paths_are_not_found() {
    for uri in ["/", "/nope", "/health/", "/livez/nope", "/livez/data_corruption", "/v3/kv/range"] {
        assert_eq!(ask(HEALTHY_MEMBER, uri), NOT_FOUND, "{uri}");
    }
    let http = serve(HEALTHY_MEMBER, Config::default());
    for uri in ["/version", "/debug/vars", "/nope"] {
        assert_eq!(ask_on(&http, Surface::Metrics, "GET", uri), NOT_FOUND, "{uri}");
    }
    for uri in ["/metrics", "/health", "/livez", "/readyz/non_learner"] {
        assert!(ask_on(&http, Surface::Metrics, "GET", uri).starts_with("200\n"), "{uri}");
    }
}

#[test]
fn all_paths_except_metrics_accept_only_get() {
    let http = serve(HEALTHY_MEMBER, Config::default());
    for uri in ["/health", "/livez", "/readyz/non_learner", "/version", "/debug/vars"] {
        for method in ["POST", "PUT", "DELETE", "CONNECT", "TRACE", "FOO"] {
            assert_eq!(ask_on(&http, Surface::Client, method, uri), NOT_ALLOWED, "{method} {uri}");
        }
    }
    assert!(ask_on(&http, Surface::Client, "POST", "/metrics").starts_with("200\n"));
    assert_eq!(ask_on(&http, Surface::Metrics, "OPTIONS", "/health"), NOT_ALLOWED);
    let length = "content-length: 19\n\n";
    let refused = NOT_ALLOWED.replace("\nMethod Not Allowed\n", length);
    assert_eq!(ask_on(&http, Surface::Client, "HEAD", "/health"), refused);
}

#[test]
fn unclean_paths_are_redirected() {
    let html = "307\ncontent-type: text/html; charset=utf-8\nlocation: ";
    for (uri, to, link) in [
        ("//health", "/health", "/health"),
        ("/x/../health", "/health", "/health"),
        ("//v%2f3?x=1&y", "/v%252f3?x=1&y", "/v%252f3?x=1&amp;y"),
        ("//health?it's", "/health?it's", "/health?it&#39;s"),
    ] {
        let body = format!("<a href=\"{link}\">Temporary Redirect</a>.\n\n");
        assert_eq!(ask(HEALTHY_MEMBER, uri), format!("{html}{to}\n\n{body}"), "{uri}");
    }
    let http = serve(HEALTHY_MEMBER, Config::default());
    let posted = ask_on(&http, Surface::Client, "POST", "//health");
    assert_eq!(posted, "307\nlocation: /health\n\n");
}

#[test]
fn options_are_answered_for_every_path() {
    let http = serve(HEALTHY_MEMBER, Config::default());
    for uri in ["/nope", "/health", "*"] {
        assert_eq!(ask_on(&http, Surface::Client, "OPTIONS", uri), "200\n\n", "{uri}");
    }
    assert_eq!(ask_on(&http, Surface::Client, "GET", "*"), "400\nconnection: close\n\n");
}

fn origin_headers(config: Config, origin: Option<&str>) -> HeaderMap {
    let headers: Vec<_> = origin.iter().map(|origin| ("origin", *origin)).collect();
    let http = serve(HEALTHY_MEMBER, config);
    let parts = head("GET", "/health", &headers);
    now(http.call(Surface::Client, false, &parts, b"")).headers().clone()
}

#[test]
fn allowed_origins_get_cors_headers() {
    let some = || Config {
        access: Access { origins: ["http://a.b".to_owned()].into(), ..Access::default() },
        ..Config::default()
    };
    for (config, origin, allowed) in [
        (Config::default(), None, Some("*")),
        (Config::default(), Some("http://a.b"), Some("*")),
        (some(), Some("http://a.b"), Some("http://a.b")),
        (some(), Some("http://c.d"), None),
        (some(), None, None),
    ] {
        let headers = origin_headers(config, origin);
        let header = |name| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("access-control-allow-origin"), allowed);
        let methods = allowed.map(|_| "POST, GET, OPTIONS, PUT, DELETE");
        assert_eq!(header("access-control-allow-methods"), methods);
        let names = allowed.map(|_| "accept, content-type, authorization");
        assert_eq!(header("access-control-allow-headers"), names);
    }
}

#[test]
fn unlisted_hosts_are_refused_without_tls() {
    let access = Access { hosts: ["good.host".to_owned()].into(), ..Access::default() };
    let http = serve(HEALTHY_MEMBER, Config { access, ..Config::default() });
    let status = |secure, uri, host| {
        let parts = head("GET", uri, &[("host", host)]);
        now(http.call(Surface::Client, secure, &parts, b"")).status().as_u16()
    };
    assert_eq!(status(false, "/health", "good.host:2379"), 200);
    assert_eq!(status(false, "/health", "GOOD.HOST"), 421);
    assert_eq!(status(true, "/health", "evil"), 200);
    assert_eq!(status(false, "http://good.host/health", "evil"), 200);
    assert_eq!(status(false, "http://evil/health", "good.host"), 421);

    let refused = ask_on(&http, Surface::Client, "GET", "http://[::1]:22/health");
    let expected = r#"
etcd received your request, but the Host header was unrecognized.

To fix this, choose one of the following options:
- Enable TLS, then any HTTPS request will be allowed.
- Add the hostname you want to use to the whitelist in settings.
  - e.g. etcd --host-whitelist "::1"

This requirement has been added to help prevent "DNS Rebinding" attacks (CVE-2018-5702).

"#;
    assert_eq!(refused, FAILED.replace("503", "421") + expected);
    assert!(ask_on(&http, Surface::Metrics, "GET", "/health").starts_with("200\n"));
}

fn is_done(page: &mut Pin<Box<impl Future>>) -> bool {
    page.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn other_tasks_run_between_two_pages_of_metrics() {
    let http = serve(HEALTHY_MEMBER, Config::default());
    let parts = head("GET", "/metrics", &[]);
    let page = || Box::pin(http.call(Surface::Client, false, &parts, b""));
    let (mut first, mut second) = (page(), page());
    assert!(!is_done(&mut first), "the first poll yields");
    assert!(!is_done(&mut second) && !is_done(&mut second), "one page at a time");
    assert!(is_done(&mut first));
    assert!(!is_done(&mut second), "the first poll yields");
    assert!(is_done(&mut second));
}

#[test]
fn metrics_include_health_and_process() {
    let http = serve(HEALTHY_MEMBER, Config::default());
    for uri in ["/health", "/health", "/livez", "/readyz?exclude=linearizable_read"] {
        ask_on(&http, Surface::Client, "GET", uri);
    }
    let metrics = ask_on(&http, Surface::Client, "GET", "/metrics");
    let head = "200\ncontent-type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores\n\n# HELP ";
    assert!(metrics.starts_with(head), "{metrics}");
    for line in [
        "# TYPE etcd_server_health_success counter",
        "etcd_server_health_success 2",
        "etcd_server_health_failures 0",
        "# TYPE etcd_server_healthcheck gauge",
        "etcd_server_healthcheck{name=\"serializable_read\",type=\"livez\"} 1",
        "# TYPE etcd_server_healthchecks_total counter",
        "etcd_server_healthchecks_total{name=\"non_learner\",status=\"success\",type=\"readyz\"} 1",
        "promhttp_metric_handler_requests_in_flight 1",
        "promhttp_metric_handler_requests_total{code=\"200\"} 0",
        "# TYPE process_cpu_seconds_total counter",
        "# TYPE process_resident_memory_bytes gauge",
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("name=\"linearizable_read\""));
}

#[test]
fn variables_are_json() {
    let command_line = vec!["bowline".to_owned(), "--name".to_owned(), "a\"b".to_owned()];
    let http = serve(HEALTHY_MEMBER, Config { command_line, ..Config::default() });
    let answer = ask_on(&http, Surface::Client, "GET", "/debug/vars");
    let (head, body) = answer.split_once("\n\n").unwrap();
    assert_eq!(head, "200\ncontent-type: application/json; charset=utf-8");
    assert!(body.starts_with("{\n\"cmdline\": [\"bowline\",\"--name\",\"a\\\"b\"],\n\"file_"));
    assert!(body.ends_with(&format!(",\n\"raft.status\": {STATUS}\n}}\n")));
    let values: serde_json::Value = serde_json::from_str(body).unwrap();
    assert!(values["file_descriptor_limit"].as_u64().unwrap() > 0);
    assert!(values["memstats"]["Sys"].as_u64().unwrap() > 0);
}
