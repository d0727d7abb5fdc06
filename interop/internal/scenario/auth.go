package scenario

import (
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"bowline/interop/internal/target"
)

const (
	root = "root"
	// markerRole grants read permission on the marker, so that settling works on the streams of all
	// users.
	markerRole = "marker"
)

var (
	userNames = []string{root, "ann", "bob", "cat", "dan"}
	roleNames = []string{root, "reader", "writer", "other"}
)

// guarded lists the choices with auth, in addition to plain.
var guarded = []choice{
	{600, (*Scenario).userAdd},
	{300, (*Scenario).userGet},
	{100, (*Scenario).userList},
	{120, (*Scenario).userDelete},
	{100, (*Scenario).userChangePassword},
	{900, (*Scenario).userGrantRole},
	{300, (*Scenario).userRevokeRole},
	{400, (*Scenario).roleAdd},
	{300, (*Scenario).roleGet},
	{100, (*Scenario).roleList},
	{100, (*Scenario).roleDelete},
	{1200, (*Scenario).roleGrantPermission},
	{400, (*Scenario).roleRevokePermission},
	{100, func(s *Scenario) *Step { return s.call(target.AuthStatus, &pb.AuthStatusRequest{}) }},
	{100, func(s *Scenario) *Step { return s.call(target.AuthEnable, &pb.AuthEnableRequest{}) }},
	{30, func(s *Scenario) *Step { return s.call(target.AuthDisable, &pb.AuthDisableRequest{}) }},
	{200, (*Scenario).enableAuth},
}

// caller returns the user of a request, which exists and can log in.
func (s *Scenario) caller() string {
	if !s.world.authEnabled {
		return ""
	}
	switch n := s.dice.below(100); {
	case n < 40:
		return root
	case n < 93:
		return one(s.dice, s.world.able())
	case n < 96:
		return target.Forger
	default:
		return ""
	}
}

// admin returns a user with the root role.
func (s *Scenario) admin() string {
	if s.world.authEnabled {
		return root
	}
	return ""
}

// able returns the users that can log in. While auth is enabled, root is among them.
func (w *world) able() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w.users)), func(name string) bool { return w.users[name].password == "" })
}

// Password returns the password of a user.
func (s *Scenario) Password(name string) string { return s.world.users[name].password }

// enableAuth returns the steps that enable auth.
func (s *Scenario) enableAuth() *Step {
	if s.world.authEnabled {
		return nil
	}
	as := func(method target.Method, request proto.Message) func() *Step {
		return func() *Step { return s.callAs("", method, request) }
	}
	return s.then(
		as(target.UserAdd, &pb.AuthUserAddRequest{Name: root, Password: s.password()}),
		as(target.UserGrantRole, &pb.AuthUserGrantRoleRequest{User: root, Role: root}),
		as(target.AuthEnable, &pb.AuthEnableRequest{}),
	)
}

// showMarker grants a user read permission on the marker.
func (s *Scenario) showMarker(name string) []func() *Step {
	if name == "" || name == root {
		return nil
	}
	as := func(method target.Method, request proto.Message) func() *Step {
		return func() *Step { return s.callAs(s.admin(), method, request) }
	}
	return []func() *Step{
		as(target.RoleAdd, &pb.AuthRoleAddRequest{Name: markerRole}),
		as(target.RoleGrantPermission, &pb.AuthRoleGrantPermissionRequest{
			Name: markerRole, Perm: &authpb.Permission{Key: []byte(target.MarkerKey), PermType: authpb.Permission_READ},
		}),
		as(target.UserGrantRole, &pb.AuthUserGrantRoleRequest{User: name, Role: markerRole}),
	}
}

func (s *Scenario) password() string { return fmt.Sprintf("secret %d", s.dice.below(1000)) }

func (s *Scenario) userName() string {
	if s.dice.chance(50) {
		return one(s.dice, []string{"", "nobody"})
	}
	return one(s.dice, userNames)
}

func (s *Scenario) roleName() string {
	if s.dice.chance(50) {
		return one(s.dice, []string{"", "none", markerRole})
	}
	return one(s.dice, roleNames)
}

// userAdd always gives root a password, so that a user with all permissions exists.
func (s *Scenario) userAdd() *Step {
	request := &pb.AuthUserAddRequest{Name: s.userName(), Password: s.password()}
	if request.Name != root {
		switch n := s.dice.below(100); {
		case n < 10:
			request.Options = &authpb.UserAddOptions{NoPassword: true}
		case n < 20:
			request.Options = &authpb.UserAddOptions{}
		case n < 25:
			request.Password = ""
		}
	}
	return s.call(target.UserAdd, request)
}

func (s *Scenario) userGet() *Step {
	return s.call(target.UserGet, &pb.AuthUserGetRequest{Name: s.userName()})
}

func (s *Scenario) userList() *Step { return s.call(target.UserList, &pb.AuthUserListRequest{}) }

func (s *Scenario) userDelete() *Step {
	return s.call(target.UserDelete, &pb.AuthUserDeleteRequest{Name: s.userName()})
}

func (s *Scenario) userChangePassword() *Step {
	request := &pb.AuthUserChangePasswordRequest{Name: s.userName(), Password: s.password()}
	if request.Name != root && s.dice.chance(100) {
		request.Password = ""
	}
	return s.call(target.UserChangePassword, request)
}

func (s *Scenario) userGrantRole() *Step {
	return s.call(target.UserGrantRole, &pb.AuthUserGrantRoleRequest{User: s.userName(), Role: s.roleName()})
}

func (s *Scenario) userRevokeRole() *Step {
	return s.call(target.UserRevokeRole, &pb.AuthUserRevokeRoleRequest{Name: s.userName(), Role: s.roleName()})
}

func (s *Scenario) roleAdd() *Step {
	return s.call(target.RoleAdd, &pb.AuthRoleAddRequest{Name: s.roleName()})
}

func (s *Scenario) roleGet() *Step {
	return s.call(target.RoleGet, &pb.AuthRoleGetRequest{Role: s.roleName()})
}

func (s *Scenario) roleList() *Step { return s.call(target.RoleList, &pb.AuthRoleListRequest{}) }

func (s *Scenario) roleDelete() *Step {
	return s.call(target.RoleDelete, &pb.AuthRoleDeleteRequest{Role: s.roleName()})
}

func (s *Scenario) roleGrantPermission() *Step {
	request := &pb.AuthRoleGrantPermissionRequest{Name: s.roleName()}
	if !s.dice.chance(20) {
		key := s.key()
		request.Perm = &authpb.Permission{Key: key, RangeEnd: s.anyEnd(key), PermType: authpb.Permission_Type(s.enum(3))}
	}
	return s.call(target.RoleGrantPermission, request)
}

func (s *Scenario) roleRevokePermission() *Step {
	key := s.key()
	request := &pb.AuthRoleRevokePermissionRequest{Role: s.roleName(), Key: key}
	if s.dice.chance(700) {
		request.RangeEnd = s.anyEnd(key)
	}
	return s.call(target.RoleRevokePermission, request)
}

// learnAuth records a change of users that etcd has applied.
func (w *world) learnAuth(request proto.Message) {
	switch request := request.(type) {
	case *pb.AuthEnableRequest:
		w.authEnabled = true
	case *pb.AuthDisableRequest:
		w.authEnabled = false
	case *pb.AuthUserAddRequest:
		w.setPassword(request.Name, request.Password, request.Options.GetNoPassword())
	case *pb.AuthUserDeleteRequest:
		delete(w.users, request.Name)
	case *pb.AuthUserChangePasswordRequest:
		w.setPassword(request.Name, request.Password, w.users[request.Name].unkeyed)
	}
}

func (w *world) setPassword(name, password string, unkeyed bool) {
	if unkeyed {
		password = ""
	}
	w.users[name] = user{password, unkeyed}
}
