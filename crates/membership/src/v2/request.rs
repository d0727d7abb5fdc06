//! Requests to the v2 store in the logs of older members, as commands.
//!
//! ```text
//!   PUT /0/members/305db25c258609ea/attributes  {"name":"m1",...}   →  ClusterMemberAttrSet
//!   PUT /0/version                              3.5.0               →  ClusterVersionSet
//! ```
//!
//! Members up to 3.5 wrote these while the cluster version was 3.4. All other v2 requests are about
//! keys of the v2 store; no member since 3.6 applies them.

use backend::schema::keys;
use proto::command::{Command, RaftRequest};
use proto::etcdserverpb::{Request, RequestHeader};
use proto::membershippb;
use proto::membershippb::{ClusterMemberAttrSetRequest, ClusterVersionSetRequest};
use types::MemberId;

use crate::error::DecodeError;
use crate::member::Attributes;

const VERSION_PATH: &str = "/0/version";
const MEMBERS_PATH: &str = "/0/members/";
const ATTRIBUTES_PATH: &str = "/attributes";

/// Converts a v2 request to the request that a member of today would propose.
pub fn to_raft_request(request: &Request) -> Result<RaftRequest, DecodeError> {
    let header = RequestHeader { id: request.id(), ..RequestHeader::default() };
    Ok(RaftRequest::new(header, to_command(request)?))
}

fn to_command(request: &Request) -> Result<Command, DecodeError> {
    if let Some(id) = published_by(request) {
        return Ok(attributes(id, request.val())?.into());
    }
    if request.method() == "PUT" && request.path() == VERSION_PATH {
        return Ok(ClusterVersionSetRequest { ver: request.val().to_owned() }.into());
    }
    let (method, path) = (request.method().to_owned(), request.path().to_owned());
    Err(DecodeError::V2Request { method, path })
}

/// Returns the member whose attributes a request sets.
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
    fn a_version_request_becomes_cluster_version_set() {
        let request = to_raft_request(&request("PUT", "/0/version", "3.5.0")).unwrap();
        assert_eq!(request.request_id(), 7);
        let set = ClusterVersionSetRequest { ver: "3.5.0".to_owned() };
        assert_eq!(request.command, Command::ClusterVersionSet(set));
    }

    #[test]
    fn an_attributes_request_becomes_cluster_member_attr_set() {
        let text = r#"{"name":"m1","clientURLs":["http://127.0.0.1:38671"]}"#;
        let path = "/0/members/305db25c258609ea/attributes";
        let command = to_raft_request(&request("PUT", path, text)).unwrap().command;
        let Command::ClusterMemberAttrSet(set) = command else { panic!("got {command:?}") };
        assert_eq!(set.member_id, 0x305d_b25c_2586_09ea);
        let attributes = set.member_attributes.unwrap();
        assert_eq!((&*attributes.name, attributes.client_urls.len()), ("m1", 1));
    }

    #[test]
    fn requests_about_anything_but_members_and_version_are_refused() {
        for (method, path) in [
            ("GET", "/0/version"),
            ("DELETE", "/0/members/a/attributes"),
            ("PUT", "/0/members/a/raftAttributes"),
            ("PUT", "/0/members//attributes"),
            ("PUT", "/1/0/members/a/attributes"),
            ("SYNC", ""),
        ] {
            let refused = to_raft_request(&request(method, path, "{}")).unwrap_err();
            assert!(matches!(refused, DecodeError::V2Request { .. }), "{method} {path}");
        }
        let refused = to_raft_request(&request("PUT", "/0/members/a/attributes", "x")).unwrap_err();
        assert!(matches!(refused, DecodeError::Attributes(_)));
    }
}
