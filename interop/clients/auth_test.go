package clients

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// enableAuth creates root and a user with write permission below a prefix, and enables auth.
func enableAuth(t *testing.T, s *server) {
	t.Helper()
	ctx, client := within(t), s.client(t)
	got(client.UserAdd(ctx, "root", "pw"))(t)
	got(client.RoleAdd(ctx, "root"))(t)
	got(client.UserGrantRole(ctx, "root", "root"))(t)
	got(client.UserAdd(ctx, "ann", "secret"))(t)
	got(client.RoleAdd(ctx, "worker"))(t)
	got(client.RoleGrantPermission(ctx, "worker", "a/", clientv3.GetPrefixRangeEnd("a/"), clientv3.PermissionType(clientv3.PermReadWrite)))(t)
	got(client.UserGrantRole(ctx, "ann", "worker"))(t)
	got(client.AuthEnable(ctx))(t)
}

func TestAuth(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	enableAuth(t, s)
	anonymous, root, ann := s.client(t), s.clientAs(t, "root", "pw"), s.clientAs(t, "ann", "secret")
	_, err := anonymous.Get(ctx, "a/1")
	fails(t, "without a user", err, rpctypes.ErrUserEmpty)
	config := s.config()
	config.Username, config.Password = "ann", "wrong"
	_, err = clientv3.New(config)
	fails(t, "wrong password", err, rpctypes.ErrAuthFailed)

	got(ann.Put(ctx, "a/1", "x"))(t)
	_, err = ann.Put(ctx, "b/1", "x")
	fails(t, "outside the permission", err, rpctypes.ErrPermissionDenied)
	_, err = ann.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("b/1", "x")}, nil)).Commit()
	fails(t, "outside the permission, nested", err, rpctypes.ErrPermissionDenied)
	_, err = ann.UserList(ctx)
	fails(t, "users", err, rpctypes.ErrPermissionDenied)
	refused := next(t, ann.Watch(ctx, "b/", clientv3.WithPrefix()))
	equal(t, "watch", refused.Err().Error(), rpctypes.ErrGRPCPermissionDenied.Error())
	allowed := ann.Watch(ctx, "a/", clientv3.WithPrefix(), clientv3.WithRev(1))
	equal(t, "watch", len(next(t, allowed).Events), 1)

	// Changes take effect at once.
	got(root.RoleGrantPermission(ctx, "worker", "b/1", "", clientv3.PermissionType(clientv3.PermWrite)))(t)
	got(ann.Put(ctx, "b/1", "x"))(t)
	got(root.UserRevokeRole(ctx, "ann", "worker"))(t)
	_, err = ann.Put(ctx, "a/1", "x")
	fails(t, "without a role", err, rpctypes.ErrPermissionDenied)
	got(root.AuthDisable(ctx))(t)
	got(anonymous.Put(ctx, "b/2", "x"))(t)
}

// TestTokensAreRenewed checks that the client renews a token that has expired or that the server
// has lost by a restart.
func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t, "--auth-token-ttl=10")
	enableAuth(t, s)
	ann := s.clientAs(t, "ann", "secret")
	got(ann.Put(ctx, "a/1", "x"))(t)
	// Each use of a token restarts its TTL on the server, so waitUntilExpired polls rarely.
	waitUntilExpired(t, s, tokenOf(t, s), 12*time.Second)
	got(ann.Put(ctx, "a/1", "y"))(t)
	token := tokenOf(t, s)
	s.stop(t)
	s.startAgain(t)
	fails(t, "a token from before the restart", ask(t, s, token), rpctypes.ErrInvalidAuthToken)
	got(ann.Put(ctx, "a/1", "z"))(t)
	watch := ann.Watch(ctx, "a/1", clientv3.WithRev(1))
	equal(t, "values", values(t, watch, 3), "x y z")
}

// tokenOf logs ann in and returns the token, for tests that send it themselves: a client renews its
// own token silently.
func tokenOf(t *testing.T, s *server) string {
	t.Helper()
	return got(s.client(t).Authenticate(within(t), "ann", "secret"))(t).Token
}

// ask sends a read request with a token.
func ask(t *testing.T, s *server, token string) error {
	t.Helper()
	_, err := s.client(t).Get(metadata.AppendToOutgoingContext(within(t), rpctypes.TokenFieldNameGRPC, token), "a/1")
	return err
}

// waitUntilExpired polls a valid token until it expires.
func waitUntilExpired(t *testing.T, s *server, token string, pause time.Duration) {
	t.Helper()
	must(t, ask(t, s, token))
	var refused error
	eventually(t, "the token has run out", func() bool {
		time.Sleep(pause)
		refused = ask(t, s, token)
		return refused != nil
	})
	fails(t, "an expired token", refused, rpctypes.ErrInvalidAuthToken)
}

// TestPasswordChange checks that a new password invalidates tokens, and that a client with the old
// password fails.
func TestPasswordChange(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	enableAuth(t, s)
	ann, root := s.clientAs(t, "ann", "secret"), s.clientAs(t, "root", "pw")
	got(ann.Put(ctx, "a/1", "x"))(t)
	got(root.UserChangePassword(ctx, "ann", "other"))(t)
	_, err := ann.Put(ctx, "a/1", "y")
	fails(t, "old password", err, rpctypes.ErrAuthFailed)
	got(s.clientAs(t, "ann", "other").Put(ctx, "a/1", "y"))(t)
	got(root.UserDelete(ctx, "ann"))(t)
	_, err = ann.Put(ctx, "a/1", "z")
	fails(t, "missing user", err, rpctypes.ErrAuthFailed)
}

// TestSignedTokens checks that signed tokens survive a restart and expire at the time they name.
func TestSignedTokens(t *testing.T) {
	t.Parallel()
	public, private := keyPair(t)
	ctx, s := within(t), alone(t, "--auth-token=jwt,pub-key="+public+",priv-key="+private+",sign-method=RS256,ttl=30s")
	enableAuth(t, s)
	ann := s.clientAs(t, "ann", "secret")
	got(ann.Put(ctx, "a/1", "x"))(t)
	token := tokenOf(t, s)
	s.stop(t)
	s.startAgain(t)
	waitUntilExpired(t, s, token, time.Second)
	got(ann.Put(ctx, "a/1", "y"))(t)
	_, err := ann.Put(ctx, "b/1", "x")
	fails(t, "outside the permission", err, rpctypes.ErrPermissionDenied)
	equal(t, "renewed", got(ann.KeepAliveOnce(ctx, got(ann.Grant(ctx, 50))(t).ID))(t).TTL, 50)
}

// keyPair writes a private key and its public key to files.
func keyPair(t *testing.T) (public, private string) {
	t.Helper()
	key := got(rsa.GenerateKey(rand.Reader, 2048))(t)
	half := got(x509.MarshalPKIXPublicKey(&key.PublicKey))(t)
	public, private = filepath.Join(t.TempDir(), "jwt.pub"), filepath.Join(t.TempDir(), "jwt.key")
	must(t, os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: half}), 0o600))
	must(t, os.WriteFile(private, pem.EncodeToMemory(
		&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
	return public, private
}

// TestLeasesOfUsers checks that revoking a lease needs write permission on all its keys.
func TestLeasesOfUsers(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), alone(t)
	enableAuth(t, s)
	ann, root := s.clientAs(t, "ann", "secret"), s.clientAs(t, "root", "pw")
	lease := got(root.Grant(ctx, 100))(t)
	got(root.Put(ctx, "b/1", "x", clientv3.WithLease(lease.ID)))(t)
	_, err := ann.Revoke(ctx, lease.ID)
	fails(t, "revoke", err, rpctypes.ErrPermissionDenied)
	_, err = ann.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
	fails(t, "keys", err, rpctypes.ErrPermissionDenied)
	got(root.Revoke(ctx, lease.ID))(t)

	keeping, cancel := context.WithCancel(ctx)
	defer cancel()
	own := got(ann.Grant(ctx, 60))(t)
	alive := got(ann.KeepAlive(keeping, own.ID))(t)
	equal(t, "renewed", next(t, alive).TTL, 60)
}
