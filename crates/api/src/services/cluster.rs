//! `etcdserverpb.Cluster`: members. Requests are forwarded to the server; the peer URLs of a new
//! member are validated here.
//!
//! ```text
//!    http://10.0.0.5:2380     accepted
//!    HTTPS://host:2380        https://host:2380
//!    unix:///run/peer.sock    accepted
//!    http://host   http://host:2380/   ftp://host:1   host:2380      "etcdserver: given member URLs are invalid"
//! ```

use std::net::Ipv6Addr;

use grpc::RequestBody;
use http::Response;
use proto::etcdserverpb as pb;

use super::auth::forward;
use crate::body::GrpcBody;
use crate::context::{Call, Context};
use crate::errors::{CallError, Canonical};
use crate::interceptor;
use crate::methods::Cluster;

pub(super) async fn serve<B: RequestBody>(rpc: Cluster, call: Call<'_, B>) -> Response<GrpcBody> {
    match rpc {
        Cluster::MemberAdd => call.unary(interceptor::unary, member_add).await,
        Cluster::MemberRemove => forward!(call to member_remove),
        Cluster::MemberUpdate => forward!(call to member_update),
        Cluster::MemberList => forward!(call to member_list),
        Cluster::MemberPromote => forward!(call to member_promote),
    }
}

/// Adds a member after validating its peer URLs.
async fn member_add(
    cx: Context,
    mut request: pb::MemberAddRequest,
) -> Result<pb::MemberAddResponse, CallError> {
    request.peer_urls = peer_urls(&request.peer_urls).ok_or(Canonical::MemberBadURLs)?;
    Ok(cx.server().member_add(&cx.credentials, request).await?)
}

/// Normalizes peer URLs for comparison. Returns none if the list is empty or a URL is invalid.
fn peer_urls(given: &[String]) -> Option<Vec<String>> {
    let urls: Vec<String> = given.iter().map(|url| peer_url(url)).collect::<Option<_>>()?;
    (!urls.is_empty()).then_some(urls)
}

fn peer_url(text: &str) -> Option<String> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let good = match &*scheme {
        "http" | "https" => is_host_and_port(rest.split(['?', '#']).next()?),
        "unix" | "unixs" => true,
        _ => false,
    };
    (good && rest.bytes().all(is_plain)).then(|| format!("{scheme}://{rest}"))
}

/// Reports whether a byte may appear in a URL without escaping.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte)
}

/// Accepts `host:port`, `[::1]:port` or `:port` without a path. The port may be missing, its colon
/// not.
fn is_host_and_port(text: &str) -> bool {
    let host = text.rsplit_once('@').map_or(text, |(_user, host)| host);
    let Some((host, port)) = host.rsplit_once(':') else { return false };
    let is_host = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|it| it.parse::<Ipv6Addr>().is_ok()),
        None => !host.contains([':', ']', '/', '%']),
    };
    is_host && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_urls_are_validated_as_in_etcd() {
        for (text, url) in [
            ("http://a:1", "http://a:1"),
            (" HTTP://A:1 ", "http://A:1"),
            ("https://[::1]:5", "https://[::1]:5"),
            ("http://:5", "http://:5"),
            ("http://a:", "http://a:"),
            ("http://b:99999", "http://b:99999"),
            ("http://u@b:1", "http://u@b:1"),
            ("http://a:1?x", "http://a:1?x"),
            ("unix://x", "unix://x"),
            ("unixs:///run/a.sock", "unixs:///run/a.sock"),
        ] {
            assert_eq!(peer_url(text).as_deref(), Some(url), "{text}");
        }
        for text in [
            "",
            "a:1",
            "http:a:1",
            "http://a",
            "http://a:1/",
            "http://a:1/x",
            "ftp://a:1",
            "http://b:x",
            "http://a b:1",
            "http://[::1:5",
            "http://[x]:5",
            "http://a:b:1",
        ] {
            assert_eq!(peer_url(text), None, "{text}");
        }
    }

    #[test]
    fn a_member_needs_valid_peer_urls() {
        assert_eq!(peer_urls(&[]), None);
        assert_eq!(peer_urls(&["http://a:1".to_owned(), String::new()]), None);
        assert_eq!(peer_urls(&["http://a:1".to_owned()]), Some(vec!["http://a:1".to_owned()]));
    }
}
