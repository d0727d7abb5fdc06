//! The form of `/metrics` that a client prefers, chosen as by promhttp.

use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue};

/// The version of the text format.
const VERSION: &str = "0.0.4";

/// The content types of the text format, by their escaping of names. Our names need none.
const TEXTS: [(&str, HeaderValue); 4] = [
    ("underscores", text_type("text/plain; version=0.0.4; charset=utf-8; escaping=underscores")),
    ("allow-utf-8", text_type("text/plain; version=0.0.4; charset=utf-8; escaping=allow-utf-8")),
    ("dots", text_type("text/plain; version=0.0.4; charset=utf-8; escaping=dots")),
    ("values", text_type("text/plain; version=0.0.4; charset=utf-8; escaping=values")),
];

const fn text_type(text: &'static str) -> HeaderValue {
    HeaderValue::from_static(text)
}

/// Returns the content type for a client: the text format with the escaping that it accepts.
pub(crate) fn content_type(headers: &HeaderMap) -> HeaderValue {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut clauses: Vec<Clause<'_>> = accepted.split(',').map(Clause::parse).collect();
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    let mut chosen = TEXTS[0].1.clone();
    for clause in clauses {
        // Compat: as in promhttp, the escaping of a format that is passed over counts.
        if let Some((_, text)) = TEXTS.into_iter().find(|(name, _)| Some(*name) == clause.escaping)
        {
            chosen = text;
        }
        if clause.kind == "text/plain" && clause.version.is_none_or(|given| given == VERSION) {
            break;
        }
    }
    chosen
}

/// One format of an `Accept` header.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    version: Option<&'a str>,
    escaping: Option<&'a str>,
    quality: f64,
}

impl Clause<'_> {
    fn parse(text: &str) -> Clause<'_> {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let mut clause = Clause { kind, version: None, escaping: None, quality: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => clause.quality = value.trim().parse().unwrap_or(1.0),
                "version" => clause.version = Some(value.trim()).filter(|value| !value.is_empty()),
                "escaping" => clause.escaping = Some(value.trim()),
                _ => {}
            }
        }
        clause
    }
}

/// Reports whether a client prefers gzip to no encoding.
pub(crate) fn prefers_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let codings: Vec<(&str, f64)> = values.flat_map(codings_of).collect();
    let best = |offer: &str| {
        let matching = codings.iter().filter(|(name, _)| *name == offer || *name == "*");
        matching.map(|(_, quality)| *quality).fold(-1.0, f64::max)
    };
    // Of equal offers the first is chosen, which is no encoding.
    best("gzip") > best("identity").max(0.0)
}

/// Returns the codings of a header line with their qualities, up to the first malformed one.
fn codings_of(line: &str) -> Vec<(&str, f64)> {
    let coding = |part: &'_ str| -> Option<(usize, f64)> {
        let (name, quality) =
            part.split_once(';').map_or((part, None), |(name, rest)| (name, Some(rest)));
        let quality = match quality {
            None => 1.0,
            Some(text) => text.trim().strip_prefix("q=")?.trim_end().parse::<f64>().ok()?,
        };
        let name = name.trim_end();
        let is_token = !name.is_empty() && !name.contains(char::is_whitespace);
        (is_token && (0.0..2.0).contains(&quality)).then_some((name.len(), quality))
    };
    let parts = line.split(',').map(str::trim_start);
    let parsed =
        parts.map_while(|part| coding(part).map(|(length, quality)| (&part[..length], quality)));
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &http::header::HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| HeaderValue::from_str(value).unwrap());
        values.map(|value| (name.clone(), value)).collect()
    }

    #[test]
    fn gzip_is_chosen_as_by_etcd() {
        for (accepted, gzip) in [
            ("gzip", true),
            ("deflate, gzip", true),
            ("gzip;q=0.5, identity;q=0.4", true),
            ("gzip;q=0.5,identity;q=0.5", false),
            ("gzip; q=1.0", true),
            ("identity, gzip", false),
            ("*", false),
            ("gzip;q=0", false),
            ("gzip;q=0, *", false),
            ("identity;q=0", false),
            ("br", false),
            ("GZIP", false),
            ("", false),
            ("br;x=1, gzip", false),
        ] {
            assert_eq!(prefers_gzip(&with(&ACCEPT_ENCODING, &[accepted])), gzip, "{accepted}");
        }
        assert!(prefers_gzip(&with(&ACCEPT_ENCODING, &["br;x", "gzip"])), "each line counts");
        assert!(!prefers_gzip(&HeaderMap::new()));
    }

    #[test]
    fn the_accepted_escaping_is_echoed() {
        // What Prometheus 3 sends.
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accepted, escaping) in [
            ("", "underscores"),
            ("text/html", "underscores"),
            ("text/plain;version=0.0.4;escaping=dots", "dots"),
            ("text/plain;escaping=values", "values"),
            ("text/plain;escaping=nope", "underscores"),
            ("text/plain;q=0.5,text/html;escaping=dots", "dots"),
            ("text/plain,text/html;escaping=dots;q=0.5", "underscores"),
            (prometheus, "allow-utf-8"),
        ] {
            let expected = format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}");
            assert_eq!(content_type(&with(&ACCEPT, &[accepted])), expected, "{accepted}");
        }
    }
}
