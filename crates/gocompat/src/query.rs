//! Queries of URLs, as Go's `net/url` parses them.

use crate::query_unescape;

/// Returns the parameters of a query, in order. Malformed parameters are skipped.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
    pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((query_unescape(name).ok()?, query_unescape(value).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_parameters_are_skipped() {
        let pairs: Vec<_> = query_pairs("a%2Fb+c=d%20e&&b&x=%zz&%4=y&b;c&a=x+y").collect();
        let expected = [("a/b c", "d e"), ("b", ""), ("a", "x y")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
