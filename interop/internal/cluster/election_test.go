package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestLostRequests checks errors as the client returns them, whose text has no code, and as a raw
// connection does.
func TestLostRequests(t *testing.T) {
	for _, c := range []struct {
		err               error
		unavailable, lost bool
	}{
		{nil, false, false},
		{errors.New("unavailable"), false, false},
		{rpctypes.ErrCompacted, false, false},
		{rpctypes.ErrLeaderChanged, true, true},
		{rpctypes.ErrTimeoutDueToLeaderFail, true, true},
		{fmt.Errorf("put 3 of 5: %w", rpctypes.ErrNoLeader), true, true},
		{rpctypes.ErrGRPCTimeout, true, true},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), false, true},
		{fmt.Errorf("waiting: %w", context.DeadlineExceeded), false, true},
	} {
		if IsUnavailable(c.err) != c.unavailable || IsLost(c.err) != c.lost {
			t.Errorf("%v: unavailable %v, lost %v", c.err, IsUnavailable(c.err), IsLost(c.err))
		}
	}
}
