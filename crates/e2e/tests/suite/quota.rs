//! A full database: writes are rejected, and space can be freed.

use e2e::{Client, Member, Options, http};
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmType, DefragmentRequest, LeaseGrantRequest,
};
use tonic::Code;

use crate::files;

const QUOTA_BYTES: u64 = 4 << 20;
const VALUE_BYTES: usize = 256 << 10;
/// Far more values than the quota allows: 100 MiB. The size of the database is known only after a
/// commit, and up to 64 MiB may be pending.
const VALUES_MAX: usize = 400;
const FULL: &str = "etcdserver: mvcc: database space exceeded";

#[tokio::test(flavor = "multi_thread")]
async fn a_full_database_rejects_writes_until_space_is_freed() {
    let options = Options::new().flag("quota-backend-bytes", QUOTA_BYTES.to_string());
    let member = Member::start(options);
    let client = member.client();
    assert_eq!(member.metric("etcd_server_quota_backend_bytes"), 4_194_304.0);
    let filled = fill(&client).await;

    let own = AlarmMember { member_id: member_id(&client).await, alarm: AlarmType::Nospace.into() };
    assert_eq!(alarms(&client, AlarmAction::Get).await, [own]);
    let small = client.put("small", "value").await.unwrap_err();
    assert_eq!((small.code(), small.message()), (Code::ResourceExhausted, FULL));
    let grant = client.lease().lease_grant(LeaseGrantRequest { ttl: 60, id: 0 }).await.unwrap_err();
    assert_eq!((grant.code(), grant.message()), (Code::ResourceExhausted, FULL));
    let health = member.get("/health");
    assert_eq!(health.status, 503);
    assert_eq!(health.text(), "{\"health\":\"false\",\"reason\":\"ALARM NOSPACE\"}\n");
    let healthy = |path| http::wait_until_healthy(|| member.get(path));
    assert_eq!(healthy("/health?exclude=NOSPACE").status, 200);
    assert_eq!(healthy("/readyz").status, 200, "a full member still serves reads");

    // The alarm survives a restart.
    let member = member.terminate().start();
    let client = member.client();
    assert_eq!(alarms(&client, AlarmAction::Get).await, [own]);
    for number in 0..filled {
        assert_eq!(client.get(&key(number)).await.unwrap().count, 1);
        assert_eq!(client.delete(&key(number)).await.unwrap().deleted, 1);
    }
    free_space(&member, &client).await;
    assert_eq!(alarms(&client, AlarmAction::Deactivate).await, [own]);
    assert_eq!(alarms(&client, AlarmAction::Get).await, []);
    client.put("small", "value").await.unwrap();
    assert_eq!(http::wait_until_healthy(|| member.get("/health")).status, 200);
}

/// Compacts and defragments, which shrinks the file.
async fn free_space(member: &Member, client: &Client) {
    let revision = client.get("x").await.unwrap().header.unwrap().revision;
    client.compact(revision).await.unwrap();
    let still_full = client.put("small", "value").await.unwrap_err();
    assert_eq!(still_full.message(), FULL, "the alarm stays until it is disarmed");
    client.maintenance().defragment(DefragmentRequest {}).await.unwrap();
    let size = files::bytes_on_disk(&member.data_dir().join("member/snap/db"));
    assert!(size < QUOTA_BYTES / 2, "{size} bytes are left after defragmenting");
    let status = client.status().await.unwrap();
    assert!(status.db_size > 0 && status.db_size < 1 << 20, "{status:?}");
}

/// Puts large values until one is rejected, and returns the number of accepted ones.
async fn fill(client: &Client) -> usize {
    let value = "v".repeat(VALUE_BYTES);
    for number in 0..VALUES_MAX {
        if let Err(status) = client.put(&key(number), &value).await {
            assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, FULL));
            return number;
        }
    }
    panic!("{VALUES_MAX} values of {VALUE_BYTES} bytes fit into {QUOTA_BYTES}");
}

fn key(number: usize) -> String {
    format!("k/{number:03}")
}

async fn member_id(client: &Client) -> u64 {
    client.status().await.unwrap().header.unwrap().member_id
}

/// Lists or disarms alarms, and returns them.
async fn alarms(client: &Client, action: AlarmAction) -> Vec<AlarmMember> {
    let alarm = AlarmType::Nospace.into();
    let member_id = member_id(client).await;
    let ask = AlarmRequest { action: action.into(), member_id, alarm };
    client.maintenance().alarm(ask).await.unwrap().into_inner().alarms
}
