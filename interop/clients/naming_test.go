package clients

import (
	"maps"
	"net"
	"slices"
	"testing"

	"go.etcd.io/etcd/client/v3/naming/endpoints"
	"go.etcd.io/etcd/client/v3/naming/resolver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func TestEndpoints(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	service := "services/" + t.Name()
	manager := got(endpoints.NewManager(client, service))(t)
	changes := got(manager.NewWatchChannel(ctx))(t)
	must(t, manager.AddEndpoint(ctx, service+"/1", endpoints.Endpoint{Addr: "127.0.0.1:1", Metadata: "one"}))
	must(t, manager.AddEndpoint(ctx, service+"/2", endpoints.Endpoint{Addr: "127.0.0.1:2"}))
	// A watcher that is behind receives both revisions in one response.
	var added []*endpoints.Update
	for len(added) < 2 {
		added = append(added, next(t, changes)...)
	}
	for i, want := range []string{service + "/1", service + "/2"} {
		equal(t, "added", added[i].Key, want)
		equal(t, "operation", added[i].Op, endpoints.Add)
	}
	listed := got(manager.List(ctx))(t)
	equal(t, "listed", len(listed), 2)
	equal(t, "metadata", listed[service+"/1"].Metadata, any("one"))

	must(t, manager.Update(ctx, []*endpoints.UpdateWithOpts{
		endpoints.NewDeleteUpdateOpts(service + "/1"),
		endpoints.NewAddUpdateOpts(service+"/3", endpoints.Endpoint{Addr: "127.0.0.1:3"}),
	}))
	update := next(t, changes)
	equal(t, "together", len(update), 2)
	equal(t, "deleted", update[0].Op, endpoints.Delete)
	must(t, manager.DeleteEndpoint(ctx, service+"/2"))
	keys := slices.Sorted(maps.Keys(got(manager.List(ctx))(t)))
	equal(t, "left", slices.Equal(keys, []string{service + "/3"}), true)
}

// TestResolver calls a service through etcd's resolver while its address changes.
func TestResolver(t *testing.T) {
	ctx, client := within(t), shared.client(t)
	service := "resolved/" + t.Name()
	manager := got(endpoints.NewManager(client, service))(t)
	here, stopHere := serveHealth(t)
	must(t, manager.AddEndpoint(ctx, service+"/1", endpoints.Endpoint{Addr: here}))

	builder := got(resolver.NewBuilder(client))(t)
	conn := got(grpc.NewClient("etcd:///"+service, grpc.WithResolvers(builder),
		grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	check := func() error {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		return err
	}
	must(t, check())

	there, stopThere := serveHealth(t)
	defer stopThere()
	must(t, manager.AddEndpoint(ctx, service+"/2", endpoints.Endpoint{Addr: there}))
	must(t, manager.DeleteEndpoint(ctx, service+"/1"))
	stopHere()
	eventually(t, "the other address is called", func() bool { return check() == nil })
}

func serveHealth(t *testing.T) (addr string, stop func()) {
	t.Helper()
	listener := got(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go s.Serve(listener)
	return listener.Addr().String(), s.Stop
}

// TestHealthService calls the server's gRPC health service, as a load balancer does.
func TestHealthService(t *testing.T) {
	ctx := within(t)
	conn := got(grpc.NewClient(shared.endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	answer := got(client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}))(t)
	equal(t, "status", answer.Status, grpc_health_v1.HealthCheckResponse_SERVING)
	watching := got(client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{}))(t)
	equal(t, "watched", got(watching.Recv())(t).Status, grpc_health_v1.HealthCheckResponse_SERVING)
}
