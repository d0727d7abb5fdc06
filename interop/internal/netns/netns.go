// Package netns runs programs in network namespaces of their own, so that programs with fixed ports
// can run side by side, and none is left over.
package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter is the first argument of a process that [Command] started: it enables the loopback
// interface and becomes the program in the other arguments.
const enter = "enter-network-namespace"

// Address is an address of a namespace besides 127.0.0.1.
const Address = "10.1.0.1"

// Main runs the program of [Command] if this process was started for it. Programs that use this
// package call it first.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != enter {
		return
	}
	err := enableLoopback()
	if err == nil {
		err = syscall.Exec(os.Args[2], os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "netns:", err)
	os.Exit(126)
}

// Command returns a command that runs a program in a new network namespace. Its only interface is
// the loopback interface, with 127.0.0.1 and [Address].
func Command(program string, arguments ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	command := exec.Command(self, append([]string{enter, path}, arguments...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		// Only in a user namespace of its own may another user create a network namespace.
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return command, nil
}

// Available returns an error if this machine allows no network namespaces.
func Available() error {
	command, err := Command("true")
	if err != nil {
		return err
	}
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w %s", err, output)
	}
	return nil
}

// Of returns the namespace of a process.
func Of(pid int) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
}

// Kill kills all processes in a namespace, which must not be that of the calling process.
func Kill(namespace string) error {
	own, err := Of(os.Getpid())
	if err != nil {
		return err
	}
	if namespace == own {
		return errors.New("refusing to kill the processes of the caller's own namespace")
	}
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if found, err := Of(pid); err == nil && found == namespace {
			// It may have ended meanwhile.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}

// enableLoopback enables the loopback interface, and gives it a second address, as if the machine
// were in a network: [Address] is the source address of packets to 8.0.0.0/5, which are not sent.
func enableLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	set := func(name string, request uint, value func(*unix.Ifreq) error) error {
		ifreq, err := unix.NewIfreq(name)
		if err == nil {
			err = value(ifreq)
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, request, ifreq)
		}
		if err != nil {
			return fmt.Errorf("set up the loopback interface: %w", err)
		}
		return nil
	}
	flags := func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
	address := func(r *unix.Ifreq) error { return r.SetInet4Addr(net.ParseIP(Address).To4()) }
	mask := func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{248, 0, 0, 0}) }
	if err := set("lo", unix.SIOCSIFFLAGS, flags); err != nil {
		return err
	}
	if err := set("lo:1", unix.SIOCSIFADDR, address); err != nil {
		return err
	}
	return set("lo:1", unix.SIOCSIFNETMASK, mask)
}
