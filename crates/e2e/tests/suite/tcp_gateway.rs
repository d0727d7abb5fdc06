//! `gateway start`: a TCP proxy in front of members.

use e2e::{Member, Options, Proxy, Sandbox, http};

#[tokio::test]
async fn a_gateway_forwards_requests_to_members() {
    let member = Member::start(Options::new());
    let endpoints = format!("--endpoints=http://{}", member.sandbox().client_address());
    let gateway = Proxy::start("gateway", &[&endpoints]);
    gateway.client().put("k", "v").await.unwrap();
    assert_eq!(member.client().get("k").await.unwrap().kvs[0].value, "v");
    let health = http::wait_until_healthy(|| gateway.get("/health"));
    assert_eq!(health.status, 200, "any protocol passes");
    assert_eq!(gateway.log().wait_for_message("Running: ")["args"][1], "gateway");
    let ready = gateway.log().wait_for_message("ready to proxy client requests");
    assert_eq!(ready["endpoints"][0], member.sandbox().client_address());
    let ended = gateway.terminate();
    assert_eq!(ended.code(), None, "the signal ends the process");
}

#[tokio::test]
async fn a_failed_endpoint_is_left_out_until_it_answers_again() {
    let member = Member::start(Options::new());
    let other = Member::start(Options::new());
    let addresses = [&member, &other].map(|member| member.sandbox().client_address());
    let flags = [format!("--endpoints={}", addresses.join(",")), "--retry-delay=20ms".to_owned()];
    let gateway = Proxy::start("gateway", &flags.each_ref().map(String::as_str));
    let stopped = member.kill();
    for _ in 0..4 {
        gateway.client().put("k", "v").await.unwrap();
    }
    let line = gateway.log().wait_for_message("deactivated endpoint");
    assert_eq!(line["address"], addresses[0].as_str());
    assert_eq!(line["interval"], "20ms");
    gateway
        .log()
        .wait_for_message("failed to activate endpoint (stay inactive for another interval)");
    let member = stopped.start();
    gateway.log().wait_for_message("activated");
    // Both take turns again, so the restarted member gets one of two connections.
    for value in ["a", "b"] {
        gateway.client().put("after", value).await.unwrap();
    }
    assert_eq!(member.client().get("after").await.unwrap().count, 1);
}

#[test]
fn a_client_is_disconnected_if_no_endpoint_answers() {
    let nothing = Sandbox::new();
    let gateway = Proxy::start("gateway", &[&format!("--endpoints={}", nothing.client_address())]);
    let stream = std::net::TcpStream::connect(gateway.address()).unwrap();
    stream.set_read_timeout(Some(e2e::TIMEOUT)).unwrap();
    let read = std::io::Read::read(&mut &stream, &mut [0; 1]);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    gateway.log().wait_for_message("deactivated endpoint");
}

/// The texts are those of etcd 3.7.3.
#[test]
fn invalid_flags_end_a_gateway_with_code_1() {
    let refused = Proxy::refused("gateway", &["--endpoints=a"]);
    assert_eq!(
        (refused.code(), refused.stdout.text().as_str()),
        (Some(1), "error parsing endpoint \"a\"")
    );
    let refused = Proxy::refused("gateway", &["--endpoints=http://a/b"]);
    assert_eq!(refused.stdout.text(), "error parsing endpoint \"a\"");
    let refused = Proxy::refused("gateway", &["--listen-addr=foo"]);
    assert_eq!(refused.stdout.text(), "failed to validate listen address: foo");
    let refused = Proxy::refused("gateway", &["--listen-addr=127.0.0.1:99999"]);
    assert!(refused.text().ends_with("listen tcp: address 99999: invalid port"));
    let refused = Proxy::refused("gateway", &["--endpoints=127.0.0.1:{client}"]);
    assert!(refused.stdout.text().contains("should not resolve to the gateway listen addr"));
    let refused = Proxy::refused("gateway", &["--bogus"]);
    assert_eq!(refused.code(), Some(1));
    assert!(refused.text().ends_with("unknown flag: --bogus"), "{}", refused.text());
}
