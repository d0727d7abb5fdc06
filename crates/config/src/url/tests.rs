use super::list::{self, UniqueUrls, UrlsMap};
use super::{Address, Scheme, Url};

fn refusal(text: &str) -> String {
    Url::parse(text).expect_err(text).to_string()
}

#[test]
fn urls_print_as_in_go() {
    let cases = [
        ("http://10.0.0.1:2380", "http://10.0.0.1:2380"),
        (" HTTP://10.0.0.1:2380 ", "http://10.0.0.1:2380"),
        ("http://[::1]:2380", "http://[::1]:2380"),
        ("http://[fe80::1%25eth0]:2380", "http://[fe80::1%25eth0]:2380"),
        ("http://Example.COM:2380", "http://Example.COM:2380"),
        ("http://a:", "http://a:"),
        ("http://:1", "http://:1"),
        ("http://u:p%40@a:1", "http://u:p%40@a:1"),
        ("http://a:1?x=1&y", "http://a:1?x=1&y"),
        ("http://a:1?", "http://a:1?"),
        ("http://a:1#f%20g", "http://a:1#f%20g"),
        ("http://é:1", "http://%C3%A9:1"),
        ("unix://localhost:12", "unix://localhost:12"),
        ("unix:///run/b.sock", "unix:///run/b.sock"),
        ("unix:/run/b.sock", "unix:/run/b.sock"),
        ("unix:b.sock", "unix:b.sock"),
        ("unixs://a/b c", "unixs://a/b%20c"),
    ];
    for (text, printed) in cases {
        assert_eq!(Url::parse(text).map(|url| url.to_string()), Ok(printed.to_owned()), "{text:?}");
    }
}

#[test]
fn errors_have_etcds_texts() {
    let cases = [
        ("x", "URL scheme must be http, https, unix, or unixs: x"),
        ("", "URL scheme must be http, https, unix, or unixs: "),
        ("ftp://a:1", "URL scheme must be http, https, unix, or unixs: ftp://a:1"),
        ("http://a", r#"URL address does not have the form "host:port": http://a"#),
        ("http:a:1", r#"URL address does not have the form "host:port": http:a:1"#),
        ("http://[::1]", r#"URL address does not have the form "host:port": http://[::1]"#),
        ("http://a:1/", "URL must not contain a path: http://a:1/"),
        ("http://a:%", r#"parse "http://a:%": invalid port ":%" after host"#),
        ("http://a:b", r#"parse "http://a:b": invalid port ":b" after host"#),
        ("http://1:2:3", r#"parse "http://1:2:3": invalid port ":2:3" after host"#),
        ("http://a b:1", r#"parse "http://a b:1": invalid character " " in host name"#),
        ("http://a%20b:1", r#"parse "http://a%20b:1": invalid URL escape "%20""#),
        ("http://a:1\t#x", r#"parse "http://a:1\t": net/url: invalid control character in URL"#),
        ("http://[::1:1", r#"parse "http://[::1:1": missing ']' in host"#),
        ("http://[1.2.3.4]:1", r#"parse "http://[1.2.3.4]:1": invalid IP-literal"#),
        ("http://a[::1]:1", r#"parse "http://a[::1]:1": invalid IP-literal"#),
        ("http://u ser@a:1", r#"parse "http://u ser@a:1": net/url: invalid userinfo"#),
        (":80", r#"parse ":80": missing protocol scheme"#),
        ("1.2.3.4:80", r#"parse "1.2.3.4:80": first path segment in URL cannot contain colon"#),
        ("localhost:80", "URL scheme must be http, https, unix, or unixs: localhost:80"),
        ("unix://a:b", r#"parse "unix://a:b": invalid port ":b" after host"#),
    ];
    for (text, error) in cases {
        assert_eq!(refusal(text), error);
    }
}

#[test]
fn a_url_beyond_the_maximum_length_is_refused() {
    assert!(refusal(&format!("http://{}:1", "a".repeat(9000))).contains("longer than 8192 bytes"));
}

#[test]
fn a_url_has_scheme_host_and_port() {
    let url = Url::parse("https://[::1]:2380").expect("valid");
    assert_eq!(
        (url.scheme(), url.host(), url.hostname(), url.port()),
        (Scheme::Https, "[::1]:2380", "::1", "2380")
    );
    assert_eq!(url.address(), Ok(Address::Tcp { host: "::1".to_owned(), port: 2380 }));
}

#[test]
fn a_listen_address_is_tcp_or_a_unix_socket() {
    let address = |text| Url::parse(text).expect("valid").address();
    assert_eq!(address("unix:///run/b.sock"), Ok(Address::Unix("/run/b.sock".to_owned())));
    assert_eq!(address("unix://a/b"), Ok(Address::Unix("a/b".to_owned())));
    assert_eq!(address("http://a:"), Ok(Address::Tcp { host: "a".to_owned(), port: 0 }));
    let error = address("http://a:99999").expect_err("too large");
    assert_eq!(error.to_string(), "address 99999: invalid port");
}

#[test]
fn ip_addresses_are_compared_by_value() {
    let url = |text| Url::parse(text).expect("valid");
    assert!(url("http://[0:0::1]:1").same_endpoint(&url("http://[::1]:1")));
    assert!(!url("http://[::1]:1").same_endpoint(&url("https://[::1]:1")));
    assert!(!url("http://localhost:1").same_endpoint(&url("http://127.0.0.1:1")));
}

#[test]
fn lists_are_sorted() {
    let urls = list::parse("http://b:1, http://a:1,http://b:1").expect("valid");
    assert_eq!(list::texts(&urls), ["http://a:1", "http://b:1", "http://b:1"]);
}

#[test]
fn a_flag_has_each_url_once() {
    let mut flag = UniqueUrls::default();
    flag.set("http://b:1,http://a:1,http://b:1", "").expect("valid");
    assert_eq!(list::texts(flag.urls()), ["http://a:1", "http://b:1"]);
}

#[test]
fn an_empty_value_keeps_the_urls() {
    let mut flag = UniqueUrls::default();
    flag.set("http://a:1", "").expect("valid");
    flag.set("", "").expect("allowed");
    assert_eq!(list::texts(flag.urls()), ["http://a:1"]);
    assert!(flag.set("x", "").is_err());
    assert_eq!(list::texts(flag.urls()), ["http://a:1"]);
}

#[test]
fn an_initial_cluster_maps_names_to_urls() {
    let map = UrlsMap::parse("b=http://2:1,,a=http://1:2,a=http://1:1").expect("valid");
    assert_eq!(map.to_string(), "a=http://1:1,a=http://1:2,b=http://2:1");
    assert_eq!(map.len(), 2);
    assert_eq!(
        map.get("a").map(list::texts),
        Some(vec!["http://1:1".to_owned(), "http://1:2".to_owned()])
    );
    assert!(!map.has_duplicate_url());
    assert!(UrlsMap::parse("").expect("an empty cluster is valid").is_empty());
}

#[test]
fn an_initial_cluster_detects_duplicate_urls() {
    assert!(UrlsMap::parse("a=http://1:1,b=http://1:1").expect("valid").has_duplicate_url());
}

#[test]
fn a_list_beyond_the_maximum_is_refused() {
    let text = vec!["http://a:1"; list::URLS_MAX + 1].join(",");
    assert_eq!(list::parse(&text).expect_err("too many").to_string(), "more than 1024 URLs given");
}

#[test]
fn an_initial_cluster_with_a_bad_url_is_refused() {
    let error = UrlsMap::parse("a").expect_err("no url").to_string();
    assert_eq!(error, "URL scheme must be http, https, unix, or unixs: ");
}
