package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
)

// Binary is an etcd server of some version.
type Binary struct {
	Path    string
	Version semver.Version
	// help is the output of --help, which shows how this version spells a flag.
	help string
}

// Find runs a server binary to learn its version and flags.
func Find(path string) (*Binary, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	text, err := output(path, "--version")
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(text, "\n")
	version, err := semver.NewVersion(strings.TrimPrefix(line, "etcd Version: "))
	if err != nil {
		return nil, fmt.Errorf("version of %s: %w", path, err)
	}
	help, err := output(path, "--help")
	if err != nil {
		return nil, err
	}
	return &Binary{Path: path, Version: *version, help: help}, nil
}

// AtLeast reports whether the binary has this minor version or a newer one.
func (b *Binary) AtLeast(major, minor int64) bool {
	return !b.Version.LessThan(semver.Version{Major: major, Minor: minor})
}

// Name returns the program's name and version.
func (b *Binary) Name() string { return filepath.Base(b.Path) + " " + b.Version.String() }

// Flag returns a flag as this version spells it, or nothing if it has no such flag.
func (b *Binary) Flag(name, value string) []string { return b.flag(name, value) }

// flag returns a flag as this version spells it, or nothing if it has no such flag. Newer versions
// drop the "experimental" prefix of stable flags.
func (b *Binary) flag(name, value string) []string {
	for _, spelling := range []string{name, "experimental-" + name} {
		if slices.Contains(strings.Fields(b.help), "--"+spelling) {
			return []string{"--" + spelling + "=" + value}
		}
	}
	return nil
}

func output(path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", path, strings.Join(args, " "), err)
	}
	return string(text), nil
}
