//! `etcdserverpb.Cluster`: members. Requests are forwarded to the server; the peer URLs of a new
//! member are validated here.
//!
//! ```text
//!    http://10.0.0.5:2380     accepted
//!    HTTPS://host:2380        https://host:2380
//!    unix:///run/peer.sock    accepted
//!    http://host   http://host:2380/   ftp://host:1   host:2380      "etcdserver: given member URLs are invalid"
//! ```

use gocompat::member_url::list;
use grpc::RequestBody;
use proto::etcdserverpb as pb;

use super::auth::forward;
use crate::body::GrpcResponse;
use crate::context::{Call, Context};
use crate::errors::{CallError, Canonical};
use crate::interceptor;
use crate::methods::Cluster;

pub(super) fn serve<B: RequestBody>(rpc: Cluster, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Cluster::MemberAdd => call.unary(interceptor::unary, member_add),
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

/// Parses peer URLs. Returns none if etcd would refuse them.
fn peer_urls(given: &[String]) -> Option<Vec<String>> {
    list::sorted(given).ok().map(|urls| list::texts(&urls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_urls_are_validated_and_sorted_as_in_etcd() {
        let parsed = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|url| (*url).to_owned()).collect();
            peer_urls(&given)
        };
        assert_eq!(parsed(&[]), None);
        assert_eq!(parsed(&["http://a:1", ""]), None);
        assert_eq!(parsed(&["http://a:1/"]), None);
        let sorted = Some(vec!["http://A:1".to_owned(), "unix:///run/a.sock".to_owned()]);
        assert_eq!(parsed(&["unix:///run/a.sock", " HTTP://A:1 "]), sorted);
    }
}
