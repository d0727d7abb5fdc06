//! All messages by name, for tests that get them as bytes.

use std::collections::BTreeMap;

use prost::{DecodeError, Message, Name};

/// Decodes bytes as a message type and encodes the result.
pub(crate) type Recode = fn(&[u8]) -> Result<Vec<u8>, DecodeError>;

fn recode<M: Message + Default>(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    M::decode(bytes).map(|message| message.encode_to_vec())
}

macro_rules! kinds {
    ($($package:ident { $($message:ident)* })*) => {
        /// Returns every message type by its full name, such as `raftpb.Entry`.
        pub(crate) fn kinds() -> BTreeMap<String, Recode> {
            BTreeMap::from([$($(
                (proto::$package::$message::full_name(), recode::<proto::$package::$message> as Recode),
            )*)*])
        }
    };
}

kinds! {
    authpb {
        Permission Role User UserAddOptions
    }
    etcdserverpb {
        AlarmMember AlarmRequest AlarmResponse AuthDisableRequest AuthDisableResponse
        AuthEnableRequest AuthEnableResponse AuthRoleAddRequest AuthRoleAddResponse
        AuthRoleDeleteRequest AuthRoleDeleteResponse AuthRoleGetRequest AuthRoleGetResponse
        AuthRoleGrantPermissionRequest AuthRoleGrantPermissionResponse AuthRoleListRequest
        AuthRoleListResponse AuthRoleRevokePermissionRequest AuthRoleRevokePermissionResponse
        AuthStatusRequest AuthStatusResponse AuthUserAddRequest AuthUserAddResponse
        AuthUserChangePasswordRequest AuthUserChangePasswordResponse AuthUserDeleteRequest
        AuthUserDeleteResponse AuthUserGetRequest AuthUserGetResponse AuthUserGrantRoleRequest
        AuthUserGrantRoleResponse AuthUserListRequest AuthUserListResponse
        AuthUserRevokeRoleRequest AuthUserRevokeRoleResponse AuthenticateRequest
        AuthenticateResponse CompactionRequest CompactionResponse Compare DefragmentRequest
        DefragmentResponse DeleteRangeRequest DeleteRangeResponse DowngradeInfo DowngradeRequest
        DowngradeResponse DowngradeVersionTestRequest EmptyResponse HashKvRequest HashKvResponse
        HashRequest HashResponse InternalAuthenticateRequest InternalRaftRequest LeaseCheckpoint
        LeaseCheckpointRequest LeaseCheckpointResponse LeaseGrantRequest LeaseGrantResponse
        LeaseKeepAliveRequest LeaseKeepAliveResponse LeaseLeasesRequest LeaseLeasesResponse
        LeaseRevokeRequest LeaseRevokeResponse LeaseStatus LeaseTimeToLiveRequest
        LeaseTimeToLiveResponse Member MemberAddRequest MemberAddResponse MemberListRequest
        MemberListResponse MemberPromoteRequest MemberPromoteResponse MemberRemoveRequest
        MemberRemoveResponse MemberUpdateRequest MemberUpdateResponse Metadata MoveLeaderRequest
        MoveLeaderResponse PutRequest PutResponse RangeRequest RangeResponse RangeStreamResponse
        Request RequestHeader RequestOp ResponseHeader ResponseOp SnapshotRequest SnapshotResponse
        StatusRequest StatusResponse TxnRequest TxnResponse WatchCancelRequest WatchCreateRequest
        WatchProgressRequest WatchRequest WatchResponse
    }
    leasepb {
        Lease LeaseInternalRequest LeaseInternalResponse
    }
    membershippb {
        Attributes ClusterMemberAttrSetRequest ClusterVersionSetRequest DowngradeInfoSetRequest
        Member RaftAttributes
    }
    mvccpb {
        Event KeyValue
    }
    raftpb {
        ConfChange ConfChangeSingle ConfChangeV2 ConfState Entry HardState Message Snapshot
        SnapshotMetadata
    }
    snappb {
        Snapshot
    }
    v3electionpb {
        CampaignRequest CampaignResponse LeaderKey LeaderRequest LeaderResponse ProclaimRequest
        ProclaimResponse ResignRequest ResignResponse
    }
    v3lockpb {
        LockRequest LockResponse UnlockRequest UnlockResponse
    }
    walpb {
        Record Snapshot
    }
    health {
        HealthCheckRequest HealthCheckResponse HealthListRequest HealthListResponse
    }
}
