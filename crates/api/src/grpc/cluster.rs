//! `etcdserverpb.Cluster`: members. All is done by the server; only where a new member is to be reached is looked at here, before anything else.
//!
//! ```text
//!    http://10.0.0.5:2380     taken as it is
//!    HTTPS://host:2380        https://host:2380
//!    unix:///run/peer.sock    taken
//!    http://host   http://host:2380/   ftp://host:1   host:2380      "etcdserver: given member URLs are invalid"
//! ```

use std::net::Ipv6Addr;

use http::Response;
use proto::etcdserverpb as pb;

use super::auth::pass_on;
use super::call::{Call, Context};
use super::errors::Canonical;
use super::message::RequestBody;
use super::rpc::Cluster;
use super::status::Status;
use crate::body::Body;

pub(super) async fn serve<B: RequestBody>(rpc: Cluster, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Cluster::MemberAdd => call.unary(member_add).await,
        Cluster::MemberRemove => pass_on!(call to member_remove),
        Cluster::MemberUpdate => pass_on!(call to member_update),
        Cluster::MemberList => pass_on!(call to member_list),
        Cluster::MemberPromote => pass_on!(call to member_promote),
    }
}

/// Adds a member, if it says where it is reached.
async fn member_add(
    cx: Context,
    mut request: pb::MemberAddRequest,
) -> Result<pb::MemberAddResponse, Status> {
    request.peer_urls = peer_urls(&request.peer_urls).ok_or(Canonical::MemberBadURLs)?;
    Ok(cx.server().member_add(&cx.who, request).await?)
}

/// The URLs, each as members compare them. None if there are none, or one is none.
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

/// What may stand in a URL as it is.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte)
}

/// `host:port`, `[::1]:port` or `:port`, and no path behind it. The port may be missing, but not its colon.
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
    fn urls_are_taken_as_etcd_takes_them() {
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
    fn a_member_is_reached_somewhere() {
        assert_eq!(peer_urls(&[]), None);
        assert_eq!(peer_urls(&["http://a:1".to_owned(), String::new()]), None);
        assert_eq!(peer_urls(&["http://a:1".to_owned()]), Some(vec!["http://a:1".to_owned()]));
    }
}
