package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// threeMembers is a cluster of three members of one program, without proxies.
type threeMembers struct {
	members []*cluster.Member
	dir     string
	flags   []string
}

// start starts all members and waits until they respond.
func start(ctx context.Context, program *cluster.Binary, dir string, flags []string) (*threeMembers, error) {
	dir, err := os.MkdirTemp(dir, "clusterbench")
	if err != nil {
		return nil, err
	}
	t := &threeMembers{dir: dir}
	var initial []string
	for i := range 3 {
		m, err := cluster.Place(program, dir, fmt.Sprintf("m%d", i+1), func(_, target string) (string, error) { return target, nil })
		if err != nil {
			return nil, err
		}
		t.members = append(t.members, m)
		initial = append(initial, m.Name+"="+m.PeerURL)
	}
	t.flags = append([]string{"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-state=new", "--logger=zap"}, flags...)
	for _, m := range t.members {
		if err := m.Start(t.flags...); err != nil {
			t.close()
			return nil, err
		}
	}
	for _, m := range t.members {
		if err := m.Ready(ctx); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func (t *threeMembers) close() {
	for _, m := range t.members {
		m.Kill()
	}
	os.RemoveAll(t.dir)
}

// leader returns the leader as the first member reports it, and a follower.
func (t *threeMembers) leader(ctx context.Context) (leader, follower *cluster.Member, err error) {
	err = cluster.Until(ctx, "a leader", func(ctx context.Context) error {
		for i, m := range t.members {
			s, err := status(ctx, m)
			if err == nil && s.Leader == s.Header.MemberId {
				leader, follower = m, t.members[(i+1)%len(t.members)]
				return nil
			}
		}
		return errors.New("no leader")
	})
	return leader, follower, err
}

func status(ctx context.Context, m *cluster.Member) (*clientv3.StatusResponse, error) {
	var answer *clientv3.StatusResponse
	err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		var err error
		answer, err = client.Status(ctx, m.Endpoint())
		return err
	})
	return answer, err
}

// cpuTime returns the CPU time of all members so far.
func (t *threeMembers) cpuTime() (time.Duration, error) {
	var total time.Duration
	for _, m := range t.members {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.Process()))
		if err != nil {
			return 0, err
		}
		// The program name is in parentheses and may contain any character; the numbers follow.
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			total += time.Duration(ticks) * tick
		}
	}
	return total, nil
}

// tick is the unit of times in /proc on Linux.
const tick = 10 * time.Millisecond
