//! Requests to the v2 store in the logs of older members, in today's words.
//!
//! ```text
//!   PUT /0/members/305db25c258609ea/attributes  {"name":"m1",...}   →  ClusterMemberAttrSet
//!   PUT /0/version                              3.5.0               →  ClusterVersionSet
//! ```
//!
//! Members wrote these up to 3.5, while the cluster still spoke 3.4. Whatever else there may be is about what users kept in the v2 store, and
//! no member since 3.6 would apply it.

use backend::schema::keys;
use proto::etcdserverpb::{InternalRaftRequest, Request, RequestHeader};
use proto::membershippb;
use proto::membershippb::{ClusterMemberAttrSetRequest, ClusterVersionSetRequest};
use types::MemberId;

use crate::error::DecodeError;
use crate::member::Attributes;

const VERSION_PATH: &str = "/0/version";
const MEMBERS_PATH: &str = "/0/members/";
const ATTRIBUTES_PATH: &str = "/attributes";

/// The request as it would be proposed today.
pub fn to_v3(request: &Request) -> Result<InternalRaftRequest, DecodeError> {
    let header = Some(RequestHeader { id: request.id(), ..RequestHeader::default() });
    let mut v3 = InternalRaftRequest { header, ..InternalRaftRequest::default() };
    if let Some(id) = published_by(request) {
        v3.cluster_member_attr_set = Some(attributes(id, request.val())?);
    } else if request.method() == "PUT" && request.path() == VERSION_PATH {
        v3.cluster_version_set = Some(ClusterVersionSetRequest { ver: request.val().to_owned() });
    } else {
        let (method, path) = (request.method().to_owned(), request.path().to_owned());
        return Err(DecodeError::V2Request { method, path });
    }
    Ok(v3)
}

/// The member whose attributes a request sets.
fn published_by(request: &Request) -> Option<MemberId> {
    let path = request.path().strip_prefix(MEMBERS_PATH).filter(|_| request.method() == "PUT")?;
    keys::decode_member(path.strip_suffix(ATTRIBUTES_PATH)?.as_bytes())
}

fn attributes(id: MemberId, text: &str) -> Result<ClusterMemberAttrSetRequest, DecodeError> {
    let Attributes { name, client_urls } =
        serde_json::from_str(text).map_err(DecodeError::Attributes)?;
    let member_attributes = Some(membershippb::Attributes { name, client_urls });
    Ok(ClusterMemberAttrSetRequest { member_id: id.0, member_attributes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, value: &str) -> Request {
        let text = |text: &str| Some(text.to_owned());
        Request {
            id: Some(7),
            method: text(method),
            path: text(path),
            val: text(value),
            ..Request::default()
        }
    }

    #[test]
    fn a_version_is_set() {
        let v3 = to_v3(&request("PUT", "/0/version", "3.5.0")).unwrap();
        assert_eq!(v3.header.unwrap().id, 7);
        assert_eq!(v3.cluster_version_set.unwrap().ver, "3.5.0");
    }

    #[test]
    fn attributes_are_set() {
        let text = r#"{"name":"m1","clientURLs":["http://127.0.0.1:38671"]}"#;
        let path = "/0/members/305db25c258609ea/attributes";
        let set = to_v3(&request("PUT", path, text)).unwrap().cluster_member_attr_set.unwrap();
        assert_eq!(set.member_id, 0x305d_b25c_2586_09ea);
        let attributes = set.member_attributes.unwrap();
        assert_eq!((&*attributes.name, attributes.client_urls.len()), ("m1", 1));
    }

    #[test]
    fn what_is_not_about_members_is_refused() {
        for (method, path) in [
            ("GET", "/0/version"),
            ("DELETE", "/0/members/a/attributes"),
            ("PUT", "/0/members/a/raftAttributes"),
            ("PUT", "/0/members//attributes"),
            ("PUT", "/1/0/members/a/attributes"),
            ("SYNC", ""),
        ] {
            let refused = to_v3(&request(method, path, "{}")).unwrap_err();
            assert!(matches!(refused, DecodeError::V2Request { .. }), "{method} {path}");
        }
        let refused = to_v3(&request("PUT", "/0/members/a/attributes", "x")).unwrap_err();
        assert!(matches!(refused, DecodeError::Attributes(_)));
    }
}
