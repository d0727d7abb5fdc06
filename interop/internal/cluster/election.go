package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// electionWithin bounds the time between a failed request and the election that explains it.
	electionWithin = 10 * time.Second
	// transferTimeout bounds one attempt to move the leadership. Raft gives up a transfer after an
	// election timeout, but etcd waits for the new leader until the client's deadline.
	transferTimeout = 3 * time.Second
)

// IsUnavailable reports whether an error has the code Unavailable. The client returns known errors
// of the server as EtcdError, whose text has no code.
func IsUnavailable(err error) bool { return codeOf(err) == codes.Unavailable }

// IsLost reports whether a request may have been executed or not: its connection or its leader was
// lost, or it timed out.
func IsLost(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || codeOf(err) == codes.DeadlineExceeded || IsUnavailable(err)
}

func codeOf(err error) codes.Code {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code()
	}
	return status.Code(err)
}

// AcrossElection sends an idempotent request, and sends it once more if it is unavailable because
// of an election: a busy machine causes some. Without a new term, the error is final.
func AcrossElection(ctx context.Context, members []*Member, request func(context.Context) error) error {
	before, err := ledTerm(ctx, members)
	if err != nil {
		return err
	}
	if err = request(ctx); !IsUnavailable(err) {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, electionWithin)
	defer cancel()
	if Until(waiting, "a new term", func(ctx context.Context) error { return newTerm(ctx, members, before) }) != nil {
		return fmt.Errorf("in term %d, without an election: %w", before, err)
	}
	return request(ctx)
}

// ledTerm waits for a leader and returns the highest term of the members that know one.
func ledTerm(ctx context.Context, members []*Member) (uint64, error) {
	var term uint64
	err := Until(ctx, "a leader", func(ctx context.Context) error {
		for _, m := range members {
			if !m.Running() {
				continue
			}
			if s, err := m.status(ctx); err == nil && s.Leader != 0 {
				term = max(term, s.RaftTerm)
			}
		}
		if term == 0 {
			return errors.New("no leader")
		}
		return nil
	})
	return term, err
}

// newTerm returns an error unless a member has a leader in a term after this one.
func newTerm(ctx context.Context, members []*Member, before uint64) error {
	after, err := ledTerm(ctx, members)
	if err == nil && after <= before {
		err = fmt.Errorf("the term is still %d", after)
	}
	return err
}

// MoveLeader makes one attempt to move the leadership from this member to another.
func (m *Member) MoveLeader(ctx context.Context, to *Member) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.MoveLeader(ctx, to.ID)
		return err
	})
}

// Listed waits until the own member list of every running member has a peer URL. A member that
// joins takes the list of the first member that responds, and must find itself in it.
func Listed(ctx context.Context, members []*Member, peerURL string) error {
	return Until(ctx, "all members to list "+peerURL, func(ctx context.Context) error {
		for _, m := range members {
			if !m.Running() {
				continue
			}
			if err := m.lists(ctx, peerURL); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		return nil
	})
}

func (m *Member) lists(ctx context.Context, peerURL string) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		list, err := client.MemberList(ctx, clientv3.WithSerializable())
		if err != nil && rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner) {
			// A learner lists no members.
			return nil
		}
		if err != nil {
			return err
		}
		for _, known := range list.Members {
			if slices.Contains(known.PeerURLs, peerURL) {
				return nil
			}
		}
		return errors.New("not listed")
	})
}

// RemoveMember removes a member, also if an attempt was executed whose response was lost. A cluster
// refuses the removal within seconds of a reconnection between members.
func RemoveMember(ctx context.Context, client *clientv3.Client, id uint64) error {
	tried := false
	return Until(ctx, fmt.Sprintf("the removal of member %x", id), func(ctx context.Context) error {
		_, err := client.MemberRemove(ctx, id)
		if tried && errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		tried = true
		return err
	})
}
