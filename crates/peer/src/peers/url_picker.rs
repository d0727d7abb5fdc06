//! The URLs of a peer, tried one after another.

use net::{Target, TargetError};
use parking_lot::Mutex;

/// The most URLs of a peer that are used.
pub(crate) const URLS_MAX: usize = 64;

/// A URL of a peer, such as `http://10.0.0.7:2380`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerUrl {
    text: String,
    target: Target,
}

impl PeerUrl {
    pub(crate) fn parse(text: &str) -> Result<PeerUrl, TargetError> {
        let is_ignored_at_end = |c: char| c == '/' || c.is_whitespace();
        let text = text.trim_start().trim_end_matches(is_ignored_at_end);
        Ok(PeerUrl { target: Target::parse(text)?, text: text.to_owned() })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the URL of a path on the peer.
    pub(crate) fn of(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

/// Parses URLs and sorts them. Invalid ones are logged and skipped.
pub(crate) fn urls(texts: &[String]) -> Vec<PeerUrl> {
    let parse = |text: &String| match PeerUrl::parse(text) {
        Ok(url) => Some(url),
        Err(error) => {
            tracing::warn!(url = text, %error, "ignored an invalid peer URL");
            None
        }
    };
    let mut urls: Vec<PeerUrl> = texts.iter().take(URLS_MAX).filter_map(parse).collect();
    urls.sort_by(|a, b| a.text.cmp(&b.text));
    urls
}

/// The URLs of a peer, of which one is used until it fails. As in etcd.
#[derive(Debug)]
pub(crate) struct UrlPicker(Mutex<PickerState>);

#[derive(Debug)]
struct PickerState {
    urls: Vec<PeerUrl>,
    at: usize,
}

impl UrlPicker {
    pub(crate) fn new(urls: Vec<PeerUrl>) -> UrlPicker {
        UrlPicker(Mutex::new(PickerState { urls, at: 0 }))
    }

    /// Returns the current URL; `None` if there is none.
    pub(crate) fn pick(&self) -> Option<PeerUrl> {
        let picked = self.0.lock();
        picked.urls.get(picked.at).cloned()
    }

    /// Moves on to the next URL, unless another task already did.
    pub(crate) fn unreachable(&self, url: &PeerUrl) {
        let mut picked = self.0.lock();
        if picked.urls.get(picked.at) == Some(url) {
            picked.at = (picked.at + 1) % picked.urls.len();
        }
    }

    /// Replaces the URLs. Returns false if they are unchanged.
    pub(crate) fn update(&self, urls: Vec<PeerUrl>) -> bool {
        let mut picked = self.0.lock();
        let moved = picked.urls != urls;
        if moved {
            *picked = PickerState { urls, at: 0 };
        }
        moved
    }

    /// Returns the `n`th URL, modulo their number.
    pub(crate) fn nth(&self, n: usize) -> Option<PeerUrl> {
        let picked = self.0.lock();
        let count = picked.urls.len().max(1);
        picked.urls.get(n % count).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(texts: &[&str]) -> Vec<PeerUrl> {
        urls(&texts.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_failed_url_is_followed_by_the_next() {
        let picker = UrlPicker::new(some(&["http://b:1", "http://a:1"]));
        let first = picker.pick().unwrap();
        assert_eq!(first.text(), "http://a:1");
        picker.unreachable(&first);
        picker.unreachable(&first);
        let second = picker.pick().unwrap();
        assert_eq!(second.text(), "http://b:1");
        picker.unreachable(&second);
        assert_eq!(picker.pick(), Some(first));
        assert_eq!(picker.nth(3).unwrap().text(), "http://b:1");
    }

    #[test]
    fn an_update_starts_at_the_first_url() {
        let picker = UrlPicker::new(some(&["http://a:1", "http://b:1"]));
        picker.unreachable(&picker.pick().unwrap());
        assert!(!picker.update(some(&["http://a:1", "http://b:1"])));
        assert_eq!(picker.pick().unwrap().text(), "http://b:1");
        assert!(picker.update(some(&["http://c:1"])));
        assert_eq!(picker.pick().unwrap().text(), "http://c:1");
        assert!(picker.update(Vec::new()));
        assert_eq!((picker.pick(), picker.nth(7)), (None, None));
    }

    #[test]
    fn invalid_urls_are_skipped() {
        let urls = some(&["http://a:1", "ftp://x", "", "http://b:port", "unix:///run/b.sock"]);
        let texts: Vec<&str> = urls.iter().map(PeerUrl::text).collect();
        assert_eq!(texts, ["http://a:1", "unix:///run/b.sock"]);
        assert_eq!(urls[0].of("/raft"), "http://a:1/raft");
    }

    #[test]
    fn spaces_and_slashes_around_a_url_are_ignored() {
        for text in [" http://a:1 ", "http://a:1/", "http://a:1// /", "\thttp://a:1/ \n"] {
            assert_eq!(PeerUrl::parse(text).unwrap().text(), "http://a:1", "{text:?}");
        }
    }
}
