//! Requests to a member whose raft loop is the test.

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
    rig.done(&InternalRaftRequest { auth_user_add, ..header() });
    let (user, role) = ("root".to_owned(), "root".to_owned());
    let auth_user_grant_role = Some(pb::AuthUserGrantRoleRequest { user, role });
    rig.done(&InternalRaftRequest { auth_user_grant_role, ..header() });
    let auth_enable = Some(pb::AuthEnableRequest {});
    rig.done(&InternalRaftRequest { auth_enable, ..header() });
}

/// Who asks is found out only by a member that has time for it.
#[test]
fn a_member_that_is_far_behind_turns_requests_away_whoever_asks() {
    let mut rig = Rig::new();
    enable_auth(&mut rig);
    let server = rig.server.clone();
    let unknown =
        Credentials { token: Some("abcdefghijklmnop.1".to_owned()), ..Credentials::default() };
    let put = || server.put(&unknown, pb::PutRequest::default());
    server.shared.applied.advance(Index(1));
    let invalid = Error::from(auth::Error::InvalidAuthToken);
    assert_eq!(poll(&mut Box::pin(put())), Some(Err(invalid)));
    server.shared.progress.set_committed(Index(APPLY_GAP_MAX + 2));
    assert_eq!(poll(&mut Box::pin(put())), Some(Err(Error::TooManyRequests)));
}

#[test]
fn for_ever_is_a_time_to_sleep() {
    let rig = Rig::new();
    assert_eq!(poll(&mut Box::pin(rig.server.sleep(Duration::MAX))), None);
}
