package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"bowline/interop/internal/cluster"
)

// services sends requests that followers forward to the leader, with a leader of each program.
func services(ctx context.Context, c *config) (string, error) {
	g, err := c.startGroup(ctx, []*cluster.Binary{c.ours, c.theirs, c.ours})
	if err != nil {
		return "", err
	}
	defer g.close()
	for _, leader := range g.members[:2] {
		if err := g.moveLeaderTo(ctx, leader); err != nil {
			return "", err
		}
		for _, service := range []struct {
			name string
			ask  func(*group, context.Context, *cluster.Member) error
			// repeatable is set if all requests may be repeated after an election.
			repeatable bool
		}{
			{"leases", (*group).leases, true}, {"expiry", (*group).expiry, true}, {"users", (*group).users, false},
			{"watches", (*group).watches, false}, {"downgrades", (*group).downgrades, false}, {"pages", (*group).pages, true},
			{"hashes", (*group).hashes, true},
		} {
			ask, send := func(ctx context.Context) error { return service.ask(g, ctx, leader) }, once
			if service.repeatable {
				send = g.acrossElection
			}
			if err := send(ctx, ask); err != nil {
				return "", fmt.Errorf("%s leads, %s: %w", leader.Binary().Name(), service.name, err)
			}
			logStep("%s leads: %s", leader.Binary().Name(), service.name)
		}
	}
	if err := g.checkIdle(ctx); err != nil {
		return "", err
	}
	return "leases, expiry, users, watches across leaders, downgrades, pages and hashes, with a leader of each kind", g.discard()
}

// once sends requests that must not be repeated.
func once(ctx context.Context, request func(context.Context) error) error { return request(ctx) }

// leases grants a lease through each member; every other member keeps it alive, reports its TTL and
// revokes it.
func (g *group) leases(ctx context.Context, _ *cluster.Member) error {
	for i, granter := range g.members {
		other := g.members[(i+1)%len(g.members)]
		third := g.members[(i+2)%len(g.members)]
		var id clientv3.LeaseID
		err := granter.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			granted, err := client.Grant(ctx, 60)
			if err != nil {
				return fmt.Errorf("grant through %s: %w", granter.Name, err)
			}
			id = granted.ID
			_, err = client.Put(ctx, "leased", "x", clientv3.WithLease(id))
			return err
		})
		if err != nil {
			return err
		}
		if err := keepLeaseAlive(ctx, other, id); err != nil {
			return fmt.Errorf("granted by %s: %w", granter.Name, err)
		}
		err = third.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			_, err := client.Revoke(ctx, id)
			return err
		})
		if err != nil {
			return fmt.Errorf("revoke through %s: %w", third.Name, err)
		}
		if err := absent(ctx, granter, "leased"); err != nil {
			return err
		}
	}
	return nil
}

// keepLeaseAlive keeps a lease alive through a member and reads its TTL there.
func keepLeaseAlive(ctx context.Context, m *cluster.Member, id clientv3.LeaseID) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		for range 3 {
			alive, err := client.KeepAliveOnce(ctx, id)
			if err != nil {
				return fmt.Errorf("kept alive through %s: %w", m.Name, err)
			}
			if alive.TTL != 60 {
				return fmt.Errorf("kept alive for %d s through %s", alive.TTL, m.Name)
			}
		}
		response, err := client.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
		if err != nil {
			return fmt.Errorf("TTL from %s: %w", m.Name, err)
		}
		if response.GrantedTTL != 60 || response.TTL < 50 || len(response.Keys) != 1 || string(response.Keys[0]) != "leased" {
			return fmt.Errorf("%s reports %d of %d s, keys %q", m.Name, response.TTL, response.GrantedTTL, response.Keys)
		}
		_, err = client.KeepAliveOnce(ctx, id+1)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return fmt.Errorf("keep-alive of a missing lease through %s: %v", m.Name, err)
		}
		return nil
	})
}

// expiry checks that a lease without keep-alives expires at all members.
func (g *group) expiry(ctx context.Context, leader *cluster.Member) error {
	via := g.others(leader)[0]
	err := via.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		granted, err := client.Grant(ctx, 5)
		if err == nil {
			_, err = client.Put(ctx, "expiring", "x", clientv3.WithLease(granted.ID))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range g.members {
		err := cluster.Until(ctx, "a lease to expire", func(ctx context.Context) error { return absent(ctx, m, "expiring") })
		if err != nil {
			return err
		}
	}
	return nil
}

func absent(ctx context.Context, m *cluster.Member, key string) error {
	return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
		got, err := client.Get(ctx, key)
		if err == nil && len(got.Kvs) > 0 {
			err = fmt.Errorf("%s still has %s", m.Name, key)
		}
		return err
	})
}

const (
	secret = "secret"
	reader = "reader"
)

// users checks that auth set up through one member holds at all, with tokens of each.
func (g *group) users(ctx context.Context, leader *cluster.Member) error {
	if err := g.others(leader)[0].Do(ctx, lock); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	// A read through each member waits until it has applied the change.
	for _, m := range g.members {
		if err := g.checkPermissions(ctx, m); err != nil {
			return fmt.Errorf("through %s: %w", m.Name, err)
		}
	}
	err := g.others(leader)[1].DoAs(ctx, "root", secret, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.AuthDisable(ctx)
		for _, name := range []string{"root", reader} {
			_, gone := client.UserDelete(ctx, name)
			_, role := client.RoleDelete(ctx, name)
			err = errors.Join(err, gone, role)
		}
		return err
	})
	if err != nil {
		return err
	}
	// Until a member has applied AuthDisable, it refuses anonymous requests.
	return g.settle(ctx)
}

// lock creates root and a user with read permission on one key, and enables auth.
func lock(ctx context.Context, client *clientv3.Client) error {
	for _, name := range []string{"root", reader} {
		_, added := client.UserAdd(ctx, name, secret)
		_, role := client.RoleAdd(ctx, name)
		_, granted := client.UserGrantRole(ctx, name, name)
		if err := errors.Join(added, role, granted); err != nil {
			return err
		}
	}
	_, err := client.RoleGrantPermission(ctx, reader, "open", "", clientv3.PermissionType(clientv3.PermRead))
	if err == nil {
		_, err = client.AuthEnable(ctx)
	}
	return err
}

func (g *group) checkPermissions(ctx context.Context, m *cluster.Member) error {
	// A member that is about to apply AuthEnable may still serve anonymous requests.
	err := cluster.Until(ctx, "anonymous requests to be refused", func(ctx context.Context) error {
		return m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			if _, err := client.Get(ctx, "open"); !errors.Is(err, rpctypes.ErrUserEmpty) {
				return fmt.Errorf("anonymous request: %v", err)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return m.DoAs(ctx, reader, secret, func(ctx context.Context, client *clientv3.Client) error {
		if _, err := client.Get(ctx, "open"); err != nil {
			return fmt.Errorf("a reader reads: %w", err)
		}
		if _, err := client.Put(ctx, "open", "x"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			return fmt.Errorf("a reader writes: %v", err)
		}
		return nil
	})
}

// watches checks that a watch at each member gets every write while leadership moves.
func (g *group) watches(ctx context.Context, leader *cluster.Member) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var channels []clientv3.WatchChan
	for _, m := range g.members {
		client, err := m.Client("", "")
		if err != nil {
			return err
		}
		defer client.Close()
		channels = append(channels, client.Watch(ctx, "watched", clientv3.WithCreatedNotify()))
	}
	for i, channel := range channels {
		if created := <-channel; created.Err() != nil {
			return fmt.Errorf("watch at %s: %w", g.members[i].Name, created.Err())
		}
	}
	writes := 0
	for _, next := range append(g.others(leader), leader) {
		for _, m := range g.members {
			writes++
			if err := g.put(ctx, m, "watched", fmt.Sprint(writes)); err != nil {
				return err
			}
		}
		if err := g.moveLeaderTo(ctx, next); err != nil {
			return err
		}
	}
	for i, channel := range channels {
		if err := waitForEvents(ctx, channel, writes); err != nil {
			return fmt.Errorf("watch at %s: %w", g.members[i].Name, err)
		}
	}
	return nil
}

// eventsWithin bounds the time until a watcher has got all events.
const eventsWithin = 30 * time.Second

// waitForEvents expects events with the values from 1 to last.
func waitForEvents(ctx context.Context, channel clientv3.WatchChan, last int) error {
	ctx, cancel := context.WithTimeout(ctx, eventsWithin)
	defer cancel()
	for next := 1; next <= last; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("got %d of %d events", next-1, last)
		case response := <-channel:
			if response.Err() != nil {
				return response.Err()
			}
			for _, event := range response.Events {
				if string(event.Kv.Value) != fmt.Sprint(next) {
					return fmt.Errorf("got the event %s, not %d", event.Kv.Value, next)
				}
				next++
			}
		}
	}
	return nil
}

// downgrades checks that all members agree on a possible, an impossible and a canceled downgrade.
func (g *group) downgrades(ctx context.Context, _ *cluster.Member) error {
	for _, m := range g.members {
		// While a downgrade is enabled, the leader lowers the cluster version at its next check, and
		// raises it again at one after the cancellation. A lowered version permits no downgrade to 3.6.
		if err := g.ofVersion(ctx, "3.7.0"); err != nil {
			return err
		}
		err := m.Do(ctx, func(ctx context.Context, client *clientv3.Client) error {
			valid, err := client.Downgrade(ctx, clientv3.DowngradeValidate, "3.6.0")
			if err != nil || valid.Version != "3.7" {
				return fmt.Errorf("validate 3.6: %v, %w", valid, err)
			}
			if _, err := client.Downgrade(ctx, clientv3.DowngradeValidate, "3.5.0"); !errors.Is(err, rpctypes.ErrInvalidDowngradeTargetVersion) {
				return fmt.Errorf("validate 3.5: %w", err)
			}
			if _, err := client.Downgrade(ctx, clientv3.DowngradeEnable, "3.6.0"); err != nil {
				return fmt.Errorf("enable: %w", err)
			}
			if err := g.downgrading(ctx, true); err != nil {
				return err
			}
			if _, err := client.Downgrade(ctx, clientv3.DowngradeCancel, ""); err != nil {
				return fmt.Errorf("cancel: %w", err)
			}
			return g.downgrading(ctx, false)
		})
		if err != nil {
			return fmt.Errorf("through %s: %w", m.Name, err)
		}
	}
	// The cluster version rises again without a request.
	return g.ofVersion(ctx, "3.7.0")
}

// downgrading waits until all members report whether a downgrade is enabled.
func (g *group) downgrading(ctx context.Context, expected bool) error {
	return cluster.Until(ctx, "all members to report the downgrade", func(ctx context.Context) error {
		for _, m := range g.members {
			s, err := status(ctx, m)
			if err != nil {
				return err
			}
			if enabled := s.DowngradeInfo != nil && s.DowngradeInfo.Enabled; enabled != expected {
				return fmt.Errorf("%s reports %v", m.Name, enabled)
			}
		}
		return nil
	})
}

// pages checks that the peer HTTP endpoints give the same response at each member.
func (g *group) pages(ctx context.Context, _ *cluster.Member) error {
	if err := g.settle(ctx); err != nil {
		return err
	}
	var first [3]string
	for i, m := range g.members {
		var answers [3]string
		var errs [4]error
		answers[0], errs[0] = fetch(ctx, m.PeerURL+"/members")
		answers[1], errs[1] = fetch(ctx, m.PeerURL+"/version")
		answers[2], errs[2] = peerHash(ctx, m)
		_, errs[3] = fetch(ctx, m.ClientURL()+"/health")
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		// The order of the member list is unspecified.
		if answers[0], errs[0] = sorted(answers[0]); errs[0] != nil {
			return errs[0]
		}
		if i == 0 {
			first = answers
		}
		if answers != first {
			return fmt.Errorf("%s responds\n%q\nnot\n%q", m.Name, answers, first)
		}
	}
	return nil
}

// sorted returns a member list keyed by name.
func sorted(text string) (string, error) {
	var list []map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return "", fmt.Errorf("%q: %w", text, err)
	}
	byID := map[string]any{}
	for _, m := range list {
		byID[fmt.Sprint(m["name"])] = m
	}
	again, err := json.Marshal(byID)
	return string(again), err
}

// peerHash returns the hash of all keys that a member reports to its peers, with its revision.
func peerHash(ctx context.Context, m *cluster.Member) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.PeerURL+"/members/hashkv", strings.NewReader(`{}`))
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	var response struct {
		Header struct{ Revision int64 }
		Hash   uint32
	}
	if err := json.Unmarshal(body, &response); err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("hash of %s: %s: %q, %w", m.Name, answer.Status, body, err)
	}
	if response.Hash == 0 {
		return "", fmt.Errorf("hash of %s: %q", m.Name, body)
	}
	return fmt.Sprintf("%d at %d", response.Hash, response.Header.Revision), nil
}
