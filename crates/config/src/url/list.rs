//! The values of URL flags, and the initial cluster as a map from names to URLs.
//!
//! ```text
//!     --initial-cluster  b=http://10.0.0.2:2380,a=http://10.0.0.1:2380,a=http://10.1.0.1:2380
//!     a  http://10.0.0.1:2380  http://10.1.0.1:2380
//!     b  http://10.0.0.2:2380
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use gocompat::member_url::list::sorted;
pub use gocompat::member_url::list::{URLS_MAX, parse, texts};

use super::{Url, UrlError};

/// The value of a URL flag: sorted distinct URLs, or a special text such as `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UniqueUrls {
    urls: Vec<Url>,
    values: BTreeSet<String>,
}

impl UniqueUrls {
    /// Sets the flag.
    ///
    /// Compat: as in etcd, the special text `allowed` is added to the value, and other texts
    /// replace it. So an empty `--listen-peer-urls` keeps the default, and `*` after an origin
    /// means both.
    pub(crate) fn set(&mut self, text: &str, allowed: &str) -> Result<(), UrlError> {
        if self.values.contains(text) {
            return Ok(());
        }
        if text == allowed {
            self.values.insert(text.to_owned());
            return Ok(());
        }
        let urls = parse(text)?;
        self.values = BTreeSet::new();
        self.urls = urls.into_iter().filter(|url| self.values.insert(url.to_string())).collect();
        Ok(())
    }

    /// Replaces the URLs, and keeps duplicates.
    pub(crate) fn replace(&mut self, urls: Vec<Url>) {
        self.values = urls.iter().map(ToString::to_string).collect();
        self.urls = urls;
    }

    /// Returns the URLs.
    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// Returns the texts of the URLs and the special text, if it was given.
    pub fn values(&self) -> &BTreeSet<String> {
        &self.values
    }
}

/// Member names and their URLs, as in `--initial-cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlsMap {
    members: BTreeMap<String, Vec<Url>>,
}

impl UrlsMap {
    /// Parses `a=http://10.0.0.1:2380,b=http://10.0.0.2:2380`. A name may be repeated; empty parts
    /// are ignored.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let mut texts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (count, pair) in text.split(',').filter(|pair| !pair.is_empty()).enumerate() {
            if count == URLS_MAX {
                return Err(UrlError::TooMany);
            }
            let (name, url) = pair.split_once('=').unwrap_or((pair, ""));
            texts.entry(name).or_default().push(url);
        }
        let mut members = BTreeMap::new();
        for (name, urls) in texts {
            members.insert(name.to_owned(), sorted(urls)?);
        }
        Ok(Self { members })
    }

    /// Creates a map with one name.
    pub fn of(name: &str, urls: &[Url]) -> Self {
        Self { members: BTreeMap::from([(name.to_owned(), urls.to_vec())]) }
    }

    /// Returns the URLs of a name.
    pub fn get(&self, name: &str) -> Option<&[Url]> {
        self.members.get(name).map(Vec::as_slice)
    }

    /// Iterates over names and URLs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Url])> {
        self.members.iter().map(|(name, urls)| (name.as_str(), urls.as_slice()))
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns whether a URL appears twice, under one name or two.
    pub fn has_duplicate_url(&self) -> bool {
        let mut seen = BTreeSet::new();
        self.members.values().flatten().any(|url| !seen.insert(url.as_str()))
    }
}

impl fmt::Display for UrlsMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pairs: Vec<String> = self
            .iter()
            .flat_map(|(name, urls)| urls.iter().map(move |url| format!("{name}={url}")))
            .collect();
        pairs.sort();
        f.write_str(&pairs.join(","))
    }
}
