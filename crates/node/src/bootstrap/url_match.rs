//! Comparing lists of peer URLs that may be spelled differently.

use std::net::IpAddr;

use config::url::Url;
use config::url::list;
use gocompat::{bracketed, quote, quote_list};

use super::host_resolver::HostResolver;

/// Parses two lists of URLs and compares them with [`match_urls`].
pub(super) fn match_url_texts(
    a: &[String],
    b: &[String],
    resolver: &HostResolver<'_>,
) -> Result<(), String> {
    if a.len() != b.len() {
        return Err(format!("len({}) != len({})", quote_list(a), quote_list(b)));
    }
    let parse_sorted = |urls: &[String]| {
        let mut urls = urls.iter().map(|url| parse_url(url)).collect::<Result<Vec<_>, _>>()?;
        urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok::<_, String>(urls)
    };
    match_urls(&parse_sorted(a)?, &parse_sorted(b)?, resolver)
}

/// Compares two sorted lists of URLs. Host names are resolved only if the lists differ as written.
///
/// # Errors
/// The first difference, in etcd's words.
pub(super) fn match_urls(a: &[Url], b: &[Url], resolver: &HostResolver<'_>) -> Result<(), String> {
    if a.len() != b.len() {
        let (a, b) = (quote_list(&list::texts(a)), quote_list(&list::texts(b)));
        return Err(format!("len({a}) != len({b})"));
    }
    if a.iter().zip(b).all(|(a, b)| a.same_endpoint(b)) {
        return Ok(());
    }
    let (a, b) = (resolve_all(a, resolver)?, resolve_all(b, resolver)?);
    match a.iter().zip(&b).find(|(a, b)| !a.same_endpoint(b)) {
        Some((a, b)) => {
            Err(format!("resolved urls: {} != {}", quote(a.as_str()), quote(b.as_str())))
        }
        None => Ok(()),
    }
}

fn parse_url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|_| format!("failed to parse string to URL: {}", quote(text)))
}

/// Replaces host names by addresses and sorts the result.
fn resolve_all(urls: &[Url], resolver: &HostResolver<'_>) -> Result<Vec<Url>, String> {
    let resolved = urls.iter().map(|url| resolve(url, resolver));
    let mut urls = resolved.collect::<Result<Vec<_>, _>>()?;
    urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Ok(urls)
}

fn resolve(url: &Url, resolver: &HostResolver<'_>) -> Result<Url, String> {
    // Compat: as in etcd, `localhost` is not resolved and equals no address.
    if url.scheme().is_unix() || url.hostname() == "localhost" {
        return Ok(url.clone());
    }
    let address: IpAddr = match url.hostname().parse() {
        Ok(address) => address,
        Err(_) => resolver
            .address(url)
            .map_err(|reason| format!("failed to resolve {} ({reason})", quote(url.as_str())))?,
    };
    Ok(Url::with_host(url.scheme(), &bracketed(&address.to_string()), url.port()))
}
