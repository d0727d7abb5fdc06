//! Connections through proxies. The targets have names that only the proxies know.

use super::*;

/// Returns settings in which one proxy is for everything.
fn proxies(url: &str) -> Arc<ProxySettings> {
    let (settings, errors) = ProxySettings::from_variables(|name| {
        ["HTTP_PROXY", "HTTPS_PROXY"].contains(&name).then(|| url.to_owned())
    });
    assert_eq!(errors, []);
    Arc::new(settings)
}

/// Returns certificates for a proxy on this machine and for the target.
fn secure() -> Secure {
    let secure = Secure::new();
    let subject = Subject { hosts: &["127.0.0.1", "m1.test"], ..Subject::default() };
    secure.authority.issue(&subject).write(secure.dir.path(), "m1");
    secure
}

/// Reads a request up to the empty line.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_secure_target_is_reached_through_a_tunnel() {
    let secure = secure();
    let (acceptor, (listener, port)) = (secure.acceptor(), listen().await);
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n").await.unwrap();
        // The tunnel leads to a server in this task.
        secure_echo(acceptor, stream).await;
        request
    });
    let url = format!("http://u:p%40ss@127.0.0.1:{port}");
    let dialer = Dialer { proxies: proxies(&url), ..dialer(secure.info()) };
    let stream = dialer.dial(&target("https://m1.test:2380")).await.unwrap();
    assert!(stream.is_secure() && stream.forwarding().is_none());
    assert_eq!(echoed(stream).await, b"ahoy");
    // The request that Go sends, in another order of headers.
    assert_eq!(
        within("the end of the proxy", proxy).await.unwrap(),
        "CONNECT m1.test:2380 HTTP/1.1\r\nHost: m1.test:2380\r\n\
         User-Agent: Go-http-client/1.1\r\nProxy-Authorization: Basic dTpwQHNz\r\n\r\n"
    );
}

#[tokio::test]
async fn a_proxy_may_be_reached_by_tls() {
    let secure = secure();
    let (outer, inner, (listener, port)) = (secure.acceptor(), secure.acceptor(), listen().await);
    let proxy = tokio::spawn(async move {
        let mut stream = outer.accept(listener.accept().await.unwrap().0).await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").await.unwrap();
        secure_echo(inner, stream).await;
    });
    let proxies = proxies(&format!("https://127.0.0.1:{port}"));
    let dialer = Dialer { proxies, ..dialer(secure.info()) };
    let stream = dialer.dial(&target("https://m1.test:2380")).await.unwrap();
    assert_eq!(echoed(stream).await, b"ahoy");
    within("the end of the proxy", proxy).await.unwrap();
}

#[tokio::test]
async fn a_plaintext_target_is_left_to_the_proxy() {
    let (listener, port) = listen().await;
    let echo = tokio::spawn(echo(listener));
    let dialer = Dialer { proxies: proxies(&format!("u@127.0.0.1:{port}")), ..plain() };
    let stream = dialer.dial(&target("http://m1.test:2380")).await.unwrap();
    let forwarding = stream.forwarding().unwrap();
    assert_eq!(forwarding.authorization.as_deref(), Some("Basic dTo="));
    assert_eq!(echoed(stream).await, b"ahoy");
    within("the end of the server", echo).await.unwrap();
}

#[tokio::test]
async fn grpc_without_tls_is_tunneled_by_the_proxy_for_tls() {
    let (listener, port) = listen().await;
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        request
    });
    let (settings, _) = ProxySettings::from_variables(|name| match name {
        "HTTPS_PROXY" => Some(format!("http://127.0.0.1:{port}")),
        // Nothing answers there.
        "HTTP_PROXY" => Some("http://127.0.0.1:1".to_owned()),
        _ => None,
    });
    let dialer = Dialer { proxies: Arc::new(settings.for_grpc()), ..plain() };
    let stream = dialer.dial(&target("http://m1.test:2379")).await.unwrap();
    assert!(stream.forwarding().is_none() && !stream.is_secure());
    assert_eq!(echoed(stream).await, b"ahoy");
    let request = within("the end of the proxy", proxy).await.unwrap();
    assert!(request.starts_with("CONNECT m1.test:2379 HTTP/1.1\r\n"), "{request}");
}

#[tokio::test]
async fn socks_tunnels_plaintext() {
    let (listener, port) = listen().await;
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = [0; 4];
        stream.read_exact(&mut hello).await.unwrap();
        stream.write_all(&[5, 2]).await.unwrap();
        let mut login = [0; 7];
        stream.read_exact(&mut login).await.unwrap();
        stream.write_all(&[1, 0]).await.unwrap();
        let mut request = [0; 14];
        stream.read_exact(&mut request).await.unwrap();
        stream.write_all(&[5, 0, 0, 3, 2, b'h', b'i', 0, 1]).await.unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        (hello, login, request)
    });
    let dialer =
        Dialer { proxies: proxies(&format!("socks5://ab:cd@127.0.0.1:{port}")), ..plain() };
    let stream = dialer.dial(&target("http://m1.test:2380")).await.unwrap();
    assert!(stream.forwarding().is_none());
    assert_eq!(echoed(stream).await, b"ahoy");
    let (hello, login, request) = within("the end of the proxy", proxy).await.unwrap();
    assert_eq!(hello, [5, 2, 0, 2]);
    assert_eq!(&login, b"\x01\x02ab\x02cd");
    assert_eq!(&request, b"\x05\x01\x00\x03\x07m1.test\x09\x4c");
}

#[tokio::test]
async fn refusals_name_proxy_and_target() {
    let secure = secure();
    let answers: [&[u8]; 3] = [
        b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n",
        b"220 smtp\r\n\r\n",
        b"",
    ];
    let texts = [
        "proxy refused the connection: 407 Proxy Authentication Required",
        "the answer of the proxy is malformed: it is not HTTP",
        "the connection to the proxy failed: unexpected end of file",
    ];
    for (answer, text) in answers.into_iter().zip(texts) {
        let (listener, port) = listen().await;
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            stream.write_all(answer).await.unwrap();
        });
        let proxies = proxies(&format!("127.0.0.1:{port}"));
        let dialer = Dialer { proxies, ..dialer(secure.info()) };
        let error = dialer.dial(&target("https://m1.test:2380")).await.unwrap_err();
        let expected = format!("proxyconnect tcp: http://127.0.0.1:{port} to m1.test:2380: {text}");
        assert_eq!(error.to_string(), expected);
        within("the end of the proxy", proxy).await.unwrap();
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let secure = secure();
    let (listener, port) = listen().await;
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // Ends when the dialer gives up.
        while stream.write_all(&[b'x'; 1024]).await.is_ok() {}
    });
    let proxies = proxies(&format!("127.0.0.1:{port}"));
    let dialer = Dialer { proxies, ..dialer(secure.info()) };
    let error = dialer.dial(&target("https://m1.test:2380")).await.unwrap_err();
    assert!(error.to_string().ends_with("malformed: it is too long"), "{error}");
    within("the end of the proxy", proxy).await.unwrap();
}

#[tokio::test]
async fn an_unreachable_proxy_reads_as_in_go() {
    let reserved = ReservedPort::new();
    let port = reserved.number();
    let dialer = Dialer { proxies: proxies(&format!("127.0.0.1:{port}")), ..plain() };
    let error = dialer.dial(&target("http://m1.test:2380")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("proxyconnect tcp: dial tcp 127.0.0.1:{port}: connect: connection refused")
    );
}
