use super::list::{self, UniqueUrls, UrlsMap};

#[test]
fn a_flag_has_each_url_once() {
    let mut flag = UniqueUrls::default();
    flag.set("http://b:1,http://a:1,http://b:1", "").expect("a list of URLs");
    assert_eq!(list::texts(flag.urls()), ["http://a:1", "http://b:1"]);
}

#[test]
fn an_empty_value_keeps_the_urls() {
    let mut flag = UniqueUrls::default();
    flag.set("http://a:1", "").expect("a list of URLs");
    flag.set("", "").expect("an empty list is allowed");
    assert_eq!(list::texts(flag.urls()), ["http://a:1"]);
    assert!(flag.set("x", "").is_err());
    assert_eq!(list::texts(flag.urls()), ["http://a:1"]);
}

#[test]
fn an_initial_cluster_maps_names_to_urls() {
    let map = UrlsMap::parse("b=http://2:1,,a=http://1:2,a=http://1:1").expect("a list of URLs");
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
    assert!(
        UrlsMap::parse("a=http://1:1,b=http://1:1").expect("a list of URLs").has_duplicate_url()
    );
}

#[test]
fn an_initial_cluster_with_a_bad_url_is_rejected() {
    let error = UrlsMap::parse("a").expect_err("no url").to_string();
    assert_eq!(error, "URL scheme must be http, https, unix, or unixs: ");
}
