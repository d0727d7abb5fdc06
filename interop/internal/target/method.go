package target

import (
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// Method is a gRPC method.
type Method uint8

// The methods except Watch, which has separate streams.
const (
	Range Method = iota + 1
	RangeStream
	Put
	DeleteRange
	Txn
	Compact
	LeaseGrant
	LeaseRevoke
	LeaseTimeToLive
	LeaseLeases
	LeaseKeepAlive
	HashKV
	Alarm
	Defragment

	AuthEnable
	AuthDisable
	AuthStatus
	Authenticate
	UserAdd
	UserGet
	UserList
	UserDelete
	UserChangePassword
	UserGrantRole
	UserRevokeRole
	RoleAdd
	RoleGet
	RoleList
	RoleDelete
	RoleGrantPermission
	RoleRevokePermission
)

// call is the gRPC path of a method and the type of its reply.
type call struct {
	path  string
	reply func() proto.Message
}

var calls = map[Method]call{
	Range:           to[pb.RangeResponse]("KV/Range"),
	Put:             to[pb.PutResponse]("KV/Put"),
	DeleteRange:     to[pb.DeleteRangeResponse]("KV/DeleteRange"),
	Txn:             to[pb.TxnResponse]("KV/Txn"),
	Compact:         to[pb.CompactionResponse]("KV/Compact"),
	LeaseGrant:      to[pb.LeaseGrantResponse]("Lease/LeaseGrant"),
	LeaseRevoke:     to[pb.LeaseRevokeResponse]("Lease/LeaseRevoke"),
	LeaseTimeToLive: to[pb.LeaseTimeToLiveResponse]("Lease/LeaseTimeToLive"),
	LeaseLeases:     to[pb.LeaseLeasesResponse]("Lease/LeaseLeases"),
	HashKV:          to[pb.HashKVResponse]("Maintenance/HashKV"),
	Alarm:           to[pb.AlarmResponse]("Maintenance/Alarm"),
	LeaseKeepAlive:  to[pb.LeaseKeepAliveResponse]("Lease/LeaseKeepAlive"),
	RangeStream:     to[pb.RangeResponse]("KV/RangeStream"),
	Authenticate:    to[pb.AuthenticateResponse]("Auth/Authenticate"),
	Defragment:      to[pb.DefragmentResponse]("Maintenance/Defragment"),

	AuthEnable:           to[pb.AuthEnableResponse]("Auth/AuthEnable"),
	AuthDisable:          to[pb.AuthDisableResponse]("Auth/AuthDisable"),
	AuthStatus:           to[pb.AuthStatusResponse]("Auth/AuthStatus"),
	UserAdd:              to[pb.AuthUserAddResponse]("Auth/UserAdd"),
	UserGet:              to[pb.AuthUserGetResponse]("Auth/UserGet"),
	UserList:             to[pb.AuthUserListResponse]("Auth/UserList"),
	UserDelete:           to[pb.AuthUserDeleteResponse]("Auth/UserDelete"),
	UserChangePassword:   to[pb.AuthUserChangePasswordResponse]("Auth/UserChangePassword"),
	UserGrantRole:        to[pb.AuthUserGrantRoleResponse]("Auth/UserGrantRole"),
	UserRevokeRole:       to[pb.AuthUserRevokeRoleResponse]("Auth/UserRevokeRole"),
	RoleAdd:              to[pb.AuthRoleAddResponse]("Auth/RoleAdd"),
	RoleGet:              to[pb.AuthRoleGetResponse]("Auth/RoleGet"),
	RoleList:             to[pb.AuthRoleListResponse]("Auth/RoleList"),
	RoleDelete:           to[pb.AuthRoleDeleteResponse]("Auth/RoleDelete"),
	RoleGrantPermission:  to[pb.AuthRoleGrantPermissionResponse]("Auth/RoleGrantPermission"),
	RoleRevokePermission: to[pb.AuthRoleRevokePermissionResponse]("Auth/RoleRevokePermission"),
}

func to[Message any, Pointer interface {
	*Message
	proto.Message
}](path string) call {
	return call{"/etcdserverpb." + path, func() proto.Message { return Pointer(new(Message)) }}
}

func (m Method) String() string {
	if call, ok := calls[m]; ok {
		return call.path[strings.LastIndexByte(call.path, '/')+1:]
	}
	return fmt.Sprintf("method %d", uint8(m))
}
