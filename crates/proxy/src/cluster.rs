//! The member list that clients of a proxy see.
//!
//! ```text
//!   --advertise-client-url p1:23790                          p1 alone
//!   and --resolver-prefix proxies    proxies/p1:23790 ...    all registered proxies
//!   --advertise-client-url ""                                the members of the cluster
//! ```
//!
//! Clients that follow the list stay with proxies. Compat: as in etcd, the other requests about
//! members are passed on.

use std::collections::BTreeMap;
use std::sync::Arc;

use grpc::{Code, Status};
use parking_lot::RwLock;
use proto::etcdserverpb::{Member, MemberListRequest, MemberListResponse};

use crate::context::Context;
use crate::registry::Registration;
use crate::upstream::from_tonic;

/// The member list of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct ClusterProxy {
    /// The address of this proxy; empty to pass requests on.
    advertised: String,
    host_name: String,
    proxies: Proxies,
}

/// The registered proxies by key. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies(Arc<RwLock<BTreeMap<bytes::Bytes, Registration>>>);

impl Proxies {
    /// Replaces all proxies.
    pub(crate) fn replace(&self, proxies: BTreeMap<bytes::Bytes, Registration>) {
        *self.0.write() = proxies;
    }

    /// Adds or replaces a proxy; without a registration, removes it.
    pub(crate) fn update(&self, key: bytes::Bytes, registration: Option<Registration>) {
        let mut proxies = self.0.write();
        match registration {
            Some(registration) => proxies.insert(key, registration),
            None => proxies.remove(&key),
        };
    }

    fn members(&self) -> Result<Vec<Member>, Status> {
        let proxies = self.0.read();
        let member = |registration: &Registration| {
            let name = registration.name().map_err(|error| Status::new(Code::Unknown, error))?;
            let client_urls = vec![registration.address.clone()];
            Ok(Member { name, client_urls, ..Member::default() })
        };
        proxies.values().map(member).collect()
    }
}

impl ClusterProxy {
    pub(crate) fn new(advertised: &str, host_name: &str, proxies: Proxies) -> ClusterProxy {
        let (advertised, host_name) = (advertised.to_owned(), host_name.to_owned());
        ClusterProxy { advertised, host_name, proxies }
    }

    /// Lists the members.
    pub(crate) async fn list(
        &self,
        cx: &Context,
        request: MemberListRequest,
    ) -> Result<MemberListResponse, Status> {
        if self.advertised.is_empty() {
            let list = async || {
                let listed = cx.upstream().cluster().member_list(cx.request(request)?).await;
                listed.map(tonic::Response::into_inner).map_err(from_tonic)
            };
            return cx.upstream().retry_read(list).await;
        }
        let mut members = self.proxies.members()?;
        if members.is_empty() {
            members.push(Member {
                name: self.host_name.clone(),
                client_urls: vec![self.advertised.clone()],
                ..Member::default()
            });
        }
        Ok(MemberListResponse { members, ..MemberListResponse::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_proxies_are_members() {
        let proxies = Proxies::default();
        proxies.update("x/b".into(), Some(Registration::new("b:1", "host-b")));
        proxies.update("x/a".into(), Some(Registration::new("a:1", "host-a")));
        let members = proxies.members().unwrap();
        assert_eq!(
            (members[0].name.as_str(), members[0].client_urls[0].as_str()),
            ("host-a", "a:1")
        );
        assert_eq!(members.len(), 2);
        proxies.update("x/a".into(), None);
        assert_eq!(proxies.members().unwrap().len(), 1);
    }
}
