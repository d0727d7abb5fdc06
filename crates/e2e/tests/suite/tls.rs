//! TLS for clients and metrics.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use e2e::{Client, Exit, Member, Options, Sandbox, TlsClient, http};
use proto::etcdserverpb as pb;
use testkit::certs::{Authority, Subject, write};
use tonic::Status;

/// A sandbox with a server certificate and its authorities.
struct TlsFixture {
    sandbox: Sandbox,
    issuers: Issuers,
}

struct Issuers {
    servers: Authority,
    clients: Authority,
}

impl TlsFixture {
    fn new() -> TlsFixture {
        let issuers =
            Issuers { servers: Authority::new("servers"), clients: Authority::new("clients") };
        let sandbox = Sandbox::new();
        issuers.servers.issue(&Subject::default()).write(sandbox.dir(), "server");
        write(&sandbox.path("ca"), issuers.clients.pem().as_bytes());
        TlsFixture { sandbox, issuers }
    }

    fn start(self, options: Options) -> (Member, Issuers) {
        (Member::start_in(self.sandbox, options), self.issuers)
    }
}

impl Issuers {
    /// Returns a client without a certificate.
    fn without_certificate(&self) -> TlsClient {
        TlsClient::new(self.servers.pem())
    }

    /// Returns a client with a certificate of this name and serial number.
    fn named(&self, common_name: &str, serial: u64) -> TlsClient {
        let subject = Subject { common_name, serial, ..Subject::default() };
        let issued = self.clients.issue(&subject);
        self.without_certificate().with_identity(&issued.cert_pem, &issued.key_pem)
    }
}

/// TLS without client certificates; metrics in plaintext.
fn options() -> Options {
    Options::new()
        .flag("listen-client-urls", "https://127.0.0.1:{client}")
        .flag("advertise-client-urls", "https://127.0.0.1:{client}")
        .flag("listen-metrics-urls", "http://127.0.0.1:{extra}")
        .flag("cert-file", "{dir}/server.pem")
        .flag("key-file", "{dir}/server.key")
}

/// TLS with required client certificates, whose common names authenticate users.
fn strict() -> Options {
    options().flag("trusted-ca-file", "{dir}/ca").flag("client-cert-auth", "true")
}

/// Asserts that the connection failed, so that the status is the client library's.
#[track_caller]
fn assert_broken(status: &Status) {
    assert!(std::error::Error::source(status).is_some(), "{status:?}");
}

fn metric(member: &Member, series: &str) -> f64 {
    let text = http::get(&member.sandbox().extra_address(), "/metrics").text();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tls_port_rejects_plaintext() {
    let (member, issuers) = TlsFixture::new().start(options());
    let (address, without_certificate) =
        (member.sandbox().client_address(), issuers.without_certificate());
    let client = without_certificate.client(&address);
    client.put("k", "v").await.unwrap();
    assert_eq!(client.get("k").await.unwrap().kvs[0].value, "v");
    let health = http::wait_until_healthy(|| without_certificate.get(&address, "/health"));
    assert_eq!((health.status, health.text().as_str()), (200, r#"{"health":"true","reason":""}"#));

    let plain = Client::new(&format!("http://{address}"));
    assert_broken(&plain.get("k").await.unwrap_err());
    let rejected = member.log().wait_for_message("rejected connection on client endpoint");
    assert_eq!(rejected["error"], "tls: first record does not look like a TLS handshake");
    let serving = member.log().wait_for_message("serving client traffic securely");
    assert_eq!((&serving["traffic"], &serving["address"]), (&"grpc+http".into(), &address.into()));
    let info = member.log().wait_for_message("starting with client TLS");
    let expected = "cert = {dir}/server.pem, key = {dir}/server.key, client-cert=, client-key=, \
                    trusted-ca = , client-cert-auth = false, crl-file = ";
    assert_eq!(info["tls-info"], member.sandbox().fill(expected).as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_may_serve_tls_and_plaintext_with_metrics_over_tls() {
    let both = "http://127.0.0.1:{client},https://127.0.0.1:{client}";
    let options = options()
        .flag("listen-client-urls", both)
        .flag("listen-metrics-urls", "https://127.0.0.1:{extra}");
    let (member, issuers) = TlsFixture::new().start(options);
    member.client().put("k", "v").await.unwrap();
    let secure = issuers.without_certificate().client(&member.sandbox().client_address());
    assert_eq!(secure.get("k").await.unwrap().kvs[0].value, "v");
    assert_eq!(http::wait_until_healthy(|| member.get("/health")).status, 200);
    let metrics = issuers.without_certificate().get(&member.sandbox().extra_address(), "/metrics");
    assert!(
        metrics.text().contains("bowline_tls_certificate_expiry_seconds{listener=\"client\"} ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn client_cert_auth_requires_a_trusted_certificate() {
    let (member, issuers) = TlsFixture::new().start(strict());
    let address = member.sandbox().client_address();
    issuers.named("alice", 2).client(&address).put("k", "v").await.unwrap();
    let refused = issuers.without_certificate().client(&address).get("k").await.unwrap_err();
    assert_broken(&refused);
    let text = issuers.without_certificate().refusal(&address);
    assert!(text.contains("CertificateRequired"), "{text}");
    let stranger = Authority::new("strangers").issue(&Subject::default());
    let stranger =
        issuers.without_certificate().with_identity(&stranger.cert_pem, &stranger.key_pem);
    let text = stranger.refusal(&address);
    assert!(text.contains("UnknownCA"), "{text}");
    let errors =
        ["tls: client didn't provide a certificate", "certificate signed by unknown authority"];
    for error in errors {
        let is_rejection =
            |line: &str| line.contains("rejected connection") && line.contains(error);
        assert!(member.log().wait_for(is_rejection).is_some(), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_common_name_authenticates_a_user() {
    let (member, issuers) = TlsFixture::new().start(strict());
    let address = member.sandbox().client_address();
    let root = issuers.named("root", 2).client(&address);
    add_users(&root).await;
    let alice = issuers.named("alice", 3).client(&address);
    alice.put("a/1", "v").await.unwrap();
    let refused = alice.put("b", "v").await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: permission denied");
    let unnamed = issuers.named("", 4).client(&address).get("a/1").await.unwrap_err();
    assert_eq!(unnamed.message(), "etcdserver: permission denied");
    let stranger = issuers.named("eve", 5).client(&address).get("a/1").await.unwrap_err();
    assert_eq!(stranger.message(), "etcdserver: permission denied");
    // A token takes precedence.
    let login = pb::AuthenticateRequest { name: "root".into(), password: "pw".into() };
    let token = alice.auth().authenticate(login).await.unwrap().into_inner().token;
    let mut put =
        tonic::Request::new(pb::PutRequest { key: "b".into(), ..pb::PutRequest::default() });
    put.metadata_mut().insert("token", token.parse().unwrap());
    alice.kv().put(put).await.unwrap();
    // A certificate does not authenticate calls through a gateway.
    let mut get =
        tonic::Request::new(pb::RangeRequest { key: "a/1".into(), ..pb::RangeRequest::default() });
    get.metadata_mut().insert("grpcgateway-accept", "*/*".parse().unwrap());
    let refused = alice.kv().range(get).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: user name is empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_ignores_the_common_name() {
    let (member, issuers) = TlsFixture::new().start(strict());
    let address = member.sandbox().client_address();
    let root = issuers.named("root", 2);
    // Without authentication the certificate is ignored.
    assert_eq!(root.get(&address, "/v3/kv/range").status, 501);
    add_users(&root.client(&address)).await;
    let refused = root.get(&address, "/v3/kv/range");
    let text = "CommonName of client sending a request against gateway will be ignored and not used as expected\n";
    assert_eq!((refused.status, refused.text().as_str()), (400, text));
    assert_eq!(http::wait_until_healthy(|| root.get(&address, "/health")).status, 200);
    assert_eq!(issuers.named("", 3).get(&address, "/v3/kv/range").status, 501);
}

/// Adds users root and alice, grants alice all keys below a/, and enables authentication.
async fn add_users(root: &Client) {
    for (name, password) in [("root", "pw"), ("alice", "")] {
        let options = Some(proto::authpb::UserAddOptions { no_password: password.is_empty() });
        let add = pb::AuthUserAddRequest {
            name: name.into(),
            password: password.into(),
            options,
            ..pb::AuthUserAddRequest::default()
        };
        root.auth().user_add(add).await.unwrap();
    }
    root.auth().role_add(pb::AuthRoleAddRequest { name: "r".into() }).await.unwrap();
    let perm = proto::authpb::Permission {
        perm_type: proto::authpb::permission::Type::Readwrite.into(),
        key: "a/".into(),
        range_end: "a0".into(),
    };
    let grant = pb::AuthRoleGrantPermissionRequest { name: "r".into(), perm: Some(perm) };
    root.auth().role_grant_permission(grant).await.unwrap();
    for (user, role) in [("root", "root"), ("alice", "r")] {
        let grant = pb::AuthUserGrantRoleRequest { user: user.into(), role: role.into() };
        root.auth().user_grant_role(grant).await.unwrap();
    }
    root.auth().auth_enable(pb::AuthEnableRequest {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_files_are_reloaded_without_a_restart() {
    let (member, issuers) = TlsFixture::new().start(strict());
    let (address, dir) = (member.sandbox().client_address(), member.sandbox().dir().to_owned());
    let alice = issuers.named("alice", 2);
    let connected = alice.client(&address);
    connected.put("k", "v").await.unwrap();
    let first = alice.server_certificate(&address);

    // A key that does not match the certificate yet.
    let next = issuers.servers.issue(&Subject { serial: 9, days: (-1, 90), ..Subject::default() });
    write(&dir.join("server.pem"), next.cert_pem.as_bytes());
    assert_eq!(alice.server_certificate(&address), first);
    let record = member
        .log()
        .wait_for_message("TLS files have changed and are invalid; the previous ones stay in use");
    let expected =
        "{dir}/server.pem and {dir}/server.key: tls: private key does not match public key";
    assert_eq!(record["error"], member.sandbox().fill(expected).as_str());
    write(&dir.join("server.key"), next.key_pem.as_bytes());
    assert_ne!(alice.server_certificate(&address), first);
    member.log().wait_for_message("reloaded TLS files");

    // Another authority, which trusts other clients.
    let others = Authority::new("others");
    write(&dir.join("ca"), others.pem().as_bytes());
    assert!(alice.refusal(&address).contains("UnknownCA"));
    let bob = others.issue(&Subject { common_name: "bob", ..Subject::default() });
    let bob = issuers.without_certificate().with_identity(&bob.cert_pem, &bob.key_pem);
    bob.client(&address).put("k", "w").await.unwrap();
    assert_eq!(connected.get("k").await.unwrap().kvs[0].value, "w", "existing connections stay");

    let reloads =
        |result| format!("bowline_tls_reloads_total{{listener=\"client\",result=\"{result}\"}}");
    assert_eq!((metric(&member, &reloads("ok")), metric(&member, &reloads("failed"))), (2.0, 1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_certificates_are_rejected_from_the_next_handshake_on() {
    let setting = TlsFixture::new();
    write(&setting.sandbox.path("crl"), &setting.issuers.clients.revoke(&[5]));
    let (member, issuers) = setting.start(strict().flag("client-crl-file", "{dir}/crl"));
    let address = member.sandbox().client_address();
    assert_eq!(issuers.named("eve", 5).refusal(&address), "closed");
    let alice = issuers.named("alice", 6);
    assert_eq!(http::wait_until_healthy(|| alice.get(&address, "/health")).status, 200);
    write(&member.sandbox().path("crl"), &issuers.clients.revoke(&[5, 6]));
    assert_eq!(alice.refusal(&address), "closed");
    for serial in ["05", "06"] {
        let error = format!("transport: certificate serial {serial} revoked");
        let is_rejection =
            |line: &str| line.contains("rejected connection") && line.contains(&error);
        assert!(member.log().wait_for(is_rejection).is_some(), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_tls_creates_a_certificate_and_reuses_it() {
    let options = options().without("cert-file").without("key-file").flag("auto-tls", "true");
    let member = Member::start(options);
    let dir = member.data_dir().join("fixtures/client");
    let made = fs::read_to_string(dir.join("cert.pem")).unwrap();
    // The certificate names only the listen address.
    let shown = |member: &Member| {
        let text = http::get(&member.sandbox().extra_address(), "/metrics").text();
        assert!(text.contains("bowline_tls_certificate_expiry_seconds"), "{text}");
        member.log().record("created key file").is_some()
    };
    assert!(shown(&member));
    member.log().wait_for_message("automatically generate certificates");
    let member = member.terminate().start();
    assert_eq!(fs::read_to_string(dir.join("cert.pem")).unwrap(), made);
    assert!(!shown(&member), "no second certificate is created");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_block_others() {
    let (member, issuers) = TlsFixture::new().start(options());
    let address = member.sandbox().client_address();
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
            stream
        })
        .collect();
    issuers.without_certificate().client(&address).put("k", "v").await.unwrap();
    drop(silent);
}

#[test]
fn unusable_tls_files_are_rejected_by_name() {
    let setting = TlsFixture::new();
    let sandbox = &setting.sandbox;
    setting.issuers.servers.issue(&Subject::default()).write(sandbox.dir(), "other");
    write(&sandbox.path("empty"), b"");
    for (flag, file, text) in [
        ("cert-file", "missing", "open {dir}/missing: no such file or directory"),
        ("key-file", "missing", "open {dir}/missing: no such file or directory"),
        ("trusted-ca-file", "missing", "open {dir}/missing: no such file or directory"),
        ("client-crl-file", "missing", "open {dir}/missing: no such file or directory"),
        (
            "cert-file",
            "empty",
            "{dir}/empty: tls: failed to find any PEM data in certificate input",
        ),
        ("key-file", "empty", "{dir}/empty: tls: failed to find any PEM data in key input"),
        ("client-crl-file", "empty", "{dir}/empty: x509: malformed crl"),
        (
            "key-file",
            "other.key",
            "{dir}/server.pem and {dir}/other.key: tls: private key does not match public key",
        ),
    ] {
        let ended = sandbox.run(&options().flag(flag, format!("{{dir}}/{file}")));
        assert_rejected(&ended, &sandbox.fill(text));
        assert!(!sandbox.path("data").exists(), "no data directory is created for {text}");
    }
    let ended = sandbox.run(&options().without("key-file"));
    assert_rejected(
        &ended,
        &sandbox.fill("KeyFile and CertFile must both be present[key: , cert: {dir}/server.pem]"),
    );
    let auto = options().without("cert-file").without("key-file").flag("auto-tls", "true");
    let ended = sandbox.run(&auto.flag("self-signed-cert-validity", "0"));
    assert_rejected(&ended, "selfSignedCertValidity is invalid,it should be greater than 0");
}

#[track_caller]
fn assert_rejected(ended: &Exit, text: &str) {
    assert_eq!(ended.code(), Some(1), "{text}: {}", ended.text());
    assert!(ended.text().contains(text), "no {text:?} in:\n{}", ended.text());
}

#[test]
fn an_expired_certificate_is_served_and_logged() {
    let setting = TlsFixture::new();
    let expired = Subject { days: (-9, -2), ..Subject::default() };
    setting.issuers.servers.issue(&expired).write(setting.sandbox.dir(), "server");
    let (member, _) = setting.start(options());
    let record = member.log().wait_for_message("the certificate has expired");
    assert_eq!(record["cert-file"], member.sandbox().fill("{dir}/server.pem").as_str());
}
