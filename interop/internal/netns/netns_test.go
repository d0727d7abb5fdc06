package netns

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// TestPortsAreSeparate listens on a port, and again in a namespace.
func TestPortsAreSeparate(t *testing.T) {
	if err := Available(); err != nil {
		t.Fatal("this machine allows no network namespaces:", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if output, err := listen(t, exec.Command, listener.Addr().String()); err == nil {
		t.Errorf("listened twice in one namespace: %s", output)
	}
	within := func(program string, arguments ...string) *exec.Cmd {
		command, err := Command(program, arguments...)
		if err != nil {
			t.Fatal(err)
		}
		return command
	}
	for _, address := range []string{listener.Addr().String(), Address + ":20000", "[::1]:20000"} {
		if output, err := listen(t, within, address); err != nil {
			t.Errorf("cannot listen on %s in a namespace: %v: %s", address, err, output)
		}
	}
}

func listen(t *testing.T, start func(string, ...string) *exec.Cmd, address string) ([]byte, error) {
	t.Helper()
	command := start(os.Args[0], "-test.run", "^TestListener$")
	command.Env = append(os.Environ(), "NETNS_TEST_LISTEN="+address)
	return command.CombinedOutput()
}

// TestListener is the program that TestPortsAreSeparate runs.
func TestListener(t *testing.T) {
	address := os.Getenv("NETNS_TEST_LISTEN")
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if !strings.HasPrefix(address, Address) {
		return
	}
	connection, err := net.Dial("udp", "8.8.8.8:80")
	if err != nil {
		t.Fatal(err)
	}
	if local := connection.LocalAddr().(*net.UDPAddr).IP.String(); local != Address {
		t.Error("the source address of packets to a public address is", local)
	}
}

func TestKillEndsAllProcessesOfANamespace(t *testing.T) {
	command, err := Command("sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	namespace, err := Of(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := Kill(namespace); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err := <-ended:
		if err == nil || err.Error() != "signal: killed" {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		command.Process.Kill()
		t.Error("timed out after 10 s waiting for a killed process")
	}
}

func TestTheOwnNamespaceIsSpared(t *testing.T) {
	own, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := Kill(own); err == nil {
		t.Error("killed")
	}
}
