//! Lists of URLs, sorted by their texts.

use super::{Url, UrlError};

/// The maximum number of URLs in a list.
pub const URLS_MAX: usize = 1024;

/// Parses a comma-separated list of URLs and sorts it by text.
///
/// # Errors
/// As for [`sorted`].
pub fn parse(text: &str) -> Result<Vec<Url>, UrlError> {
    sorted(text.split(','))
}

/// Returns the texts of URLs.
pub fn texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(ToString::to_string).collect()
}

/// Parses URLs and sorts them by text.
///
/// # Errors
/// If etcd would reject one of them or the list is empty, or if there are too many.
pub fn sorted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Vec<Url>, UrlError> {
    let texts = texts.into_iter().take(URLS_MAX + 1);
    let mut urls = texts.map(|text| Url::parse(text.as_ref())).collect::<Result<Vec<_>, _>>()?;
    match urls.len() {
        0 => return Err(UrlError::Empty),
        1..=URLS_MAX => {}
        _ => return Err(UrlError::TooMany),
    }
    urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Ok(urls)
}
