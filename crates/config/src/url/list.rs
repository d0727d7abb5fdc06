//! Lists of URLs, and the map from names to URLs that an initial cluster is.
//!
//! ```text
//!     --initial-cluster  b=http://10.0.0.2:2380,a=http://10.0.0.1:2380,a=http://10.1.0.1:2380
//!     a  http://10.0.0.1:2380  http://10.1.0.1:2380
//!     b  http://10.0.0.2:2380
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Url, UrlError};

/// The most URLs that a list, or an initial cluster, is taken with.
pub const URLS_MAX: usize = 1024;

/// The URLs in a text with commas, in the order of their texts.
pub fn parse(text: &str) -> Result<Vec<Url>, UrlError> {
    sorted(text.split(','))
}

/// The texts of some URLs.
pub fn texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
}

fn sorted<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Url>, UrlError> {
    let mut urls = texts.take(URLS_MAX + 1).map(Url::parse).collect::<Result<Vec<_>, _>>()?;
    match urls.len() {
        0 => return Err(UrlError::Empty),
        1..=URLS_MAX => {}
        _ => return Err(UrlError::TooMany),
    }
    urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Ok(urls)
}

/// The value of a flag that takes URLs: each once, in order; or one text that is allowed besides, such as `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UniqueUrls {
    urls: Vec<Url>,
    values: BTreeSet<String>,
}

impl UniqueUrls {
    /// Takes another value.
    ///
    /// Compat: as in etcd, the text that is allowed besides is added to what is there, and all else replaces it. So an empty
    /// `--listen-peer-urls` leaves the default alone, and `*` after some origin means both.
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

    /// Takes URLs as they are, with what is double in them.
    pub(crate) fn replace(&mut self, urls: Vec<Url>) {
        self.values = urls.iter().map(ToString::to_string).collect();
        self.urls = urls;
    }

    /// The URLs.
    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// The texts of the URLs, and of what is allowed besides.
    pub fn values(&self) -> &BTreeSet<String> {
        &self.values
    }
}

/// Names and their URLs, as in `--initial-cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlsMap {
    members: BTreeMap<String, Vec<Url>>,
}

impl UrlsMap {
    /// Reads `a=http://10.0.0.1:2380,b=http://10.0.0.2:2380`. A name may come more than once; what is empty between commas is
    /// nothing.
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
            members.insert(name.to_owned(), sorted(urls.into_iter())?);
        }
        Ok(Self { members })
    }

    /// One name.
    pub fn of(name: &str, urls: &[Url]) -> Self {
        Self { members: BTreeMap::from([(name.to_owned(), urls.to_vec())]) }
    }

    /// The URLs of a name.
    pub fn get(&self, name: &str) -> Option<&[Url]> {
        self.members.get(name).map(Vec::as_slice)
    }

    /// Names and their URLs, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Url])> {
        self.members.iter().map(|(name, urls)| (name.as_str(), urls.as_slice()))
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether two names, or one name twice, have the same URL.
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
