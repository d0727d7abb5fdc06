use super::list;
use super::{Address, Scheme, Url};

fn rejection(text: &str) -> String {
    Url::parse(text).expect_err(text).to_string()
}

/// Parsing and printing are tested with `GoUrl`.
#[test]
fn a_url_is_printed_as_in_go_without_surrounding_spaces() {
    for (text, printed) in [
        (" HTTP://10.0.0.1:2380 ", "http://10.0.0.1:2380"),
        ("https://[::1]:5", "https://[::1]:5"),
        ("http://é:1", "http://%C3%A9:1"),
        ("http://:1", "http://:1"),
        ("http://a:", "http://a:"),
        ("http://a:99999", "http://a:99999"),
        ("http://u@a:1?x#y", "http://u@a:1?x#y"),
        ("unix:b.sock", "unix:b.sock"),
        ("unixs://a/b c", "unixs://a/b%20c"),
    ] {
        assert_eq!(Url::parse(text).map(|url| url.to_string()), Ok(printed.to_owned()), "{text:?}");
    }
}

#[test]
fn errors_have_etcds_texts() {
    for (text, error) in [
        ("x", "URL scheme must be http, https, unix, or unixs: x"),
        ("", "URL scheme must be http, https, unix, or unixs: "),
        ("ftp://a:1", "URL scheme must be http, https, unix, or unixs: ftp://a:1"),
        ("localhost:80", "URL scheme must be http, https, unix, or unixs: localhost:80"),
        ("http://a", r#"URL address does not have the form "host:port": http://a"#),
        ("http:a:1", r#"URL address does not have the form "host:port": http:a:1"#),
        ("http://[::1]", r#"URL address does not have the form "host:port": http://[::1]"#),
        ("http://a:1/", "URL must not contain a path: http://a:1/"),
        ("http://a:b", r#"parse "http://a:b": invalid port ":b" after host"#),
    ] {
        assert_eq!(rejection(text), error);
    }
}

#[test]
fn a_url_beyond_the_maximum_length_is_rejected() {
    assert!(
        rejection(&format!("http://{}:1", "a".repeat(9000))).contains("longer than 8192 bytes")
    );
}

#[test]
fn a_url_has_scheme_host_and_port() {
    let url = Url::parse("https://[::1]:2380").expect("a URL");
    assert_eq!(
        (url.scheme(), url.host(), url.hostname(), url.port()),
        (Scheme::Https, "[::1]:2380", "::1", "2380")
    );
    assert_eq!(url.address(), Ok(Address::Tcp { host: "::1".to_owned(), port: 2380 }));
}

#[test]
fn a_listen_address_is_tcp_or_a_unix_socket() {
    let address = |text| Url::parse(text).expect("a URL").address();
    assert_eq!(address("unix:///run/b.sock"), Ok(Address::Unix("/run/b.sock".to_owned())));
    assert_eq!(address("unix://a/b"), Ok(Address::Unix("a/b".to_owned())));
    assert_eq!(address("http://a:"), Ok(Address::Tcp { host: "a".to_owned(), port: 0 }));
    let error = address("http://a:99999").expect_err("too large");
    assert_eq!(error.to_string(), "address 99999: invalid port");
}

#[test]
fn ip_addresses_are_compared_by_value() {
    let url = |text| Url::parse(text).expect("a URL");
    assert!(url("http://[0:0::1]:1").same_endpoint(&url("http://[::1]:1")));
    assert!(!url("http://[::1]:1").same_endpoint(&url("https://[::1]:1")));
    assert!(!url("http://localhost:1").same_endpoint(&url("http://127.0.0.1:1")));
}

#[test]
fn an_empty_list_is_rejected() {
    let none: [&str; 0] = [];
    assert_eq!(list::sorted(none).expect_err("empty").to_string(), "no valid URLs given");
}

#[test]
fn lists_are_sorted() {
    let urls = list::parse("http://b:1, http://a:1,http://b:1").expect("a URL");
    assert_eq!(list::texts(&urls), ["http://a:1", "http://b:1", "http://b:1"]);
}

#[test]
fn a_list_beyond_the_maximum_is_rejected() {
    let text = vec!["http://a:1"; list::URLS_MAX + 1].join(",");
    assert_eq!(list::parse(&text).expect_err("too many").to_string(), "more than 1024 URLs given");
}
