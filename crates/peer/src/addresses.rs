//! Where a member can be reached: one of its URLs after the other.

use std::sync::{Mutex, PoisonError};

use net::{Target, TargetError};

/// The most URLs of one member that are looked at.
pub(crate) const URLS_MAX: usize = 64;

/// A URL of a member, such as `http://10.0.0.7:2380`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
    target: Target,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Url, TargetError> {
        let text = text.trim().trim_end_matches('/');
        Ok(Url { target: Target::parse(text)?, text: text.to_owned() })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What a request names as its host. A socket has a path instead, which is no name.
    pub(crate) fn host(&self) -> String {
        let place = self.target.to_string();
        if place.contains('/') { self.target.host().to_owned() } else { place }
    }

    /// The URL of something there.
    pub(crate) fn of(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }
}

/// All URLs that make sense, in order. Those that do not are told of.
pub(crate) fn urls(texts: &[String]) -> Vec<Url> {
    let parse = |text: &String| match Url::parse(text) {
        Ok(url) => Some(url),
        Err(error) => {
            tracing::warn!(url = text, %error, "ignored a peer URL that makes no sense");
            None
        }
    };
    let mut urls: Vec<Url> = texts.iter().take(URLS_MAX).filter_map(parse).collect();
    urls.sort_by(|a, b| a.text.cmp(&b.text));
    urls
}

/// The URLs of a member, of which one is tried until it fails.
#[derive(Debug)]
pub(crate) struct Picker(Mutex<Picked>);

#[derive(Debug)]
struct Picked {
    urls: Vec<Url>,
    at: usize,
}

impl Picker {
    pub(crate) fn new(urls: Vec<Url>) -> Picker {
        Picker(Mutex::new(Picked { urls, at: 0 }))
    }

    /// The one to try; none if there are none.
    pub(crate) fn pick(&self) -> Option<Url> {
        let picked = self.lock();
        picked.urls.get(picked.at).cloned()
    }

    /// It does not answer: the next one is to be tried, unless somebody else has found out already.
    pub(crate) fn unreachable(&self, url: &Url) {
        let mut picked = self.lock();
        if picked.urls.get(picked.at) == Some(url) {
            picked.at = (picked.at + 1) % picked.urls.len();
        }
    }

    /// The member has moved. False if it has not.
    pub(crate) fn update(&self, urls: Vec<Url>) -> bool {
        let mut picked = self.lock();
        let moved = picked.urls != urls;
        if moved {
            *picked = Picked { urls, at: 0 };
        }
        moved
    }

    /// The one behind so many others.
    pub(crate) fn nth(&self, n: usize) -> Option<Url> {
        let picked = self.lock();
        let count = picked.urls.len().max(1);
        picked.urls.get(n % count).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Picked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(texts: &[&str]) -> Vec<Url> {
        urls(&texts.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn urls_take_turns_when_they_fail() {
        let picker = Picker::new(some(&["http://b:1", "http://a:1"]));
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
    fn a_member_that_moved_is_looked_for_anew() {
        let picker = Picker::new(some(&["http://a:1", "http://b:1"]));
        picker.unreachable(&picker.pick().unwrap());
        assert!(!picker.update(some(&["http://a:1", "http://b:1"])));
        assert_eq!(picker.pick().unwrap().text(), "http://b:1");
        assert!(picker.update(some(&["http://c:1"])));
        assert_eq!(picker.pick().unwrap().text(), "http://c:1");
        assert!(picker.update(Vec::new()));
        assert_eq!((picker.pick(), picker.nth(7)), (None, None));
    }

    #[test]
    fn what_is_no_url_is_left_out() {
        let urls = some(&["http://a:1", "ftp://x", "", "http://b:port", "unix:///run/b.sock"]);
        let texts: Vec<&str> = urls.iter().map(Url::text).collect();
        assert_eq!(texts, ["http://a:1", "unix:///run/b.sock"]);
        let hosts: Vec<String> = urls.iter().map(Url::host).collect();
        assert_eq!(hosts, ["a:1", "localhost"]);
        assert_eq!(urls[0].of("/raft"), "http://a:1/raft");
    }
}
