//! `Cluster` through the generated client.

use proto::etcdserverpb as pb;
use rpc::etcdserverpb::cluster_client::ClusterClient;
use tonic::{Code, Status};

use crate::support::{Channel, Fixture};

fn client(member: &Fixture) -> ClusterClient<Channel> {
    ClusterClient::new(member.channel())
}

fn add(urls: &[&str], is_learner: bool) -> pb::MemberAddRequest {
    let peer_urls = urls.iter().map(|url| (*url).to_owned()).collect();
    pb::MemberAddRequest { peer_urls, is_learner }
}

fn status_of(error: &Status) -> (Code, &str) {
    (error.code(), error.message())
}

#[tokio::test]
async fn members_are_listed_without_a_revision() {
    let member = Fixture::start();
    for linearizable in [false, true] {
        let request = pb::MemberListRequest { linearizable };
        let list = client(&member).member_list(request).await.unwrap().into_inner();
        assert_eq!(list.header, Some(member.server().header(0)));
        let [only] = &list.members[..] else { panic!("{list:?}") };
        assert_eq!(only.id, member.server().local().0);
        assert_eq!(only.peer_urls, ["http://localhost:2380"]);
    }
}

#[tokio::test]
async fn a_learner_is_added_and_removed() {
    let member = Fixture::start();
    let mut client = client(&member);
    let request = add(&["http://b:2380", " HTTP://a:2380 "], true);
    let added = client.member_add(request).await.unwrap().into_inner();
    assert_eq!(added.header.unwrap().revision, 0);
    let learner = added.member.unwrap();
    assert_eq!(learner.peer_urls, ["http://a:2380", "http://b:2380"]);
    assert!(learner.is_learner && learner.name.is_empty());
    assert_eq!(added.members.len(), 2);
    assert!(added.members.is_sorted_by_key(|member| member.id));

    let error = client.member_add(add(&["http://a:2380"], true)).await.unwrap_err();
    let text = "etcdserver: Peer URLs already exists";
    assert_eq!(status_of(&error), (Code::FailedPrecondition, text));
    let error = client.member_add(add(&["http://c:2380"], false)).await.unwrap_err();
    let text = "bowline: another voting member could not be reached: this one was started alone";
    assert_eq!(status_of(&error), (Code::Unimplemented, text));
    let error = client.member_add(add(&["http://c:2380"], true)).await.unwrap_err();
    let text = "etcdserver: too many learner members in cluster";
    assert_eq!(status_of(&error), (Code::FailedPrecondition, text));
    let promote = pb::MemberPromoteRequest { id: learner.id };
    let error = client.member_promote(promote).await.unwrap_err();
    let text = "etcdserver: can only promote a learner member which is in sync with leader";
    assert_eq!(status_of(&error), (Code::FailedPrecondition, text));

    let remove = pb::MemberRemoveRequest { id: learner.id };
    let removed = client.member_remove(remove).await.unwrap().into_inner();
    assert_eq!(removed.members.len(), 1);
    let error = client.member_remove(remove).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::NotFound, "etcdserver: member not found"));
}

#[tokio::test]
async fn a_new_member_needs_valid_peer_urls() {
    let member = Fixture::start();
    for urls in [&[][..], &["http://a"], &["http://a:1/x"], &["http://a:1", "a:2"]] {
        let error = client(&member).member_add(add(urls, false)).await.unwrap_err();
        let text = "etcdserver: given member URLs are invalid";
        assert_eq!(status_of(&error), (Code::InvalidArgument, text), "{urls:?}");
    }
}

#[tokio::test]
async fn the_last_voter_cannot_be_removed() {
    let member = Fixture::start();
    let remove = pb::MemberRemoveRequest { id: member.server().local().0 };
    let error = client(&member).member_remove(remove).await.unwrap_err();
    let text = "etcdserver: re-configuration failed due to not enough started members";
    assert_eq!(status_of(&error), (Code::Unknown, text));
}
