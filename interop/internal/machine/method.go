package machine

import (
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// Method is the number that a request has in a frame.
type Method uint8

// The methods. Those of watches, and Restart, have no gRPC call of their own.
const (
	Range           Method = 1
	Put             Method = 2
	DeleteRange     Method = 3
	Txn             Method = 4
	Compact         Method = 5
	LeaseGrant      Method = 6
	LeaseRevoke     Method = 7
	LeaseTimeToLive Method = 8
	LeaseLeases     Method = 9
	HashKV          Method = 10

	AuthEnable           Method = 20
	AuthDisable          Method = 21
	AuthStatus           Method = 22
	UserAdd              Method = 23
	UserGet              Method = 24
	UserList             Method = 25
	UserDelete           Method = 26
	UserChangePassword   Method = 27
	UserGrantRole        Method = 28
	UserRevokeRole       Method = 29
	RoleAdd              Method = 30
	RoleGet              Method = 31
	RoleList             Method = 32
	RoleDelete           Method = 33
	RoleGrantPermission  Method = 34
	RoleRevokePermission Method = 35

	watch      Method = 40
	watchDrain Method = 41
	Alarm      Method = 42

	restart Method = 50

	// Those below are not for frames.
	LeaseKeepAlive Method = 60
	RangeStream    Method = 61
	Authenticate   Method = 62
	Defragment     Method = 63
)

// call is how gRPC names a method, and what it replies with.
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
