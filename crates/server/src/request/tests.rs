//! Requests to a member whose raft loop the test plays.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use types::Index;

use proto::etcdserverpb::InternalRaftRequest;

use super::*;
use crate::background::tests::{Rig, header};
use crate::server::APPLY_GAP_MAX;

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn enable_auth(rig: &mut Rig) {
    let options = Some(proto::authpb::UserAddOptions { no_password: true });
    let auth_user_add = Some(pb::AuthUserAddRequest {
        name: "root".to_owned(),
        options,
        ..pb::AuthUserAddRequest::default()
    });
    rig.apply_ok(&InternalRaftRequest { auth_user_add, ..header() });
    let (user, role) = ("root".to_owned(), "root".to_owned());
    let auth_user_grant_role = Some(pb::AuthUserGrantRoleRequest { user, role });
    rig.apply_ok(&InternalRaftRequest { auth_user_grant_role, ..header() });
    let auth_enable = Some(pb::AuthEnableRequest {});
    rig.apply_ok(&InternalRaftRequest { auth_enable, ..header() });
}

/// An overloaded member does not spend time on authentication.
#[test]
fn an_overloaded_member_refuses_requests_before_authentication() {
    let mut rig = Rig::new();
    enable_auth(&mut rig);
    let server = rig.server.clone();
    let unknown =
        Credentials { token: Some("abcdefghijklmnop.1".to_owned()), ..Credentials::default() };
    let put = || server.put(&unknown, pb::PutRequest::default());
    server.inner.applied.advance(Index(1));
    let invalid = Error::from(auth::Error::InvalidAuthToken);
    assert_eq!(poll(&mut Box::pin(put())), Some(Err(invalid)));
    server.inner.raft.progress.set_committed(Index(APPLY_GAP_MAX + 2));
    assert_eq!(poll(&mut Box::pin(put())), Some(Err(Error::TooManyRequests)));
}

#[test]
fn sleeping_for_the_longest_duration_does_not_overflow() {
    let rig = Rig::new();
    assert_eq!(poll(&mut Box::pin(rig.server.sleep(Duration::MAX))), None);
}
