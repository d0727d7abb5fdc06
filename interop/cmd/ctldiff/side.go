package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bowline/interop/internal/cluster"
	"bowline/interop/internal/normal"
	"bowline/interop/internal/script"
)

const (
	// commandTimeout bounds the run time of a command.
	commandTimeout = 40 * time.Second
	// between is the polling interval.
	between = 50 * time.Millisecond
)

// side is one of the two servers with its command lines.
type side struct {
	binary *cluster.Binary
	tools  string
	// dir holds a directory for the server and the directory "files" for the commands.
	dir     string
	cluster *cluster.Cluster
	normal  *normal.Normal
	names   map[string]string
	jobs    map[string]*job
	// plant falsifies a result before it is normalized.
	plant *plant
}

func newSide(binary *cluster.Binary, tools, dir string) *side {
	return &side{
		binary: binary, tools: tools, dir: dir,
		normal: normal.New(), names: map[string]string{}, jobs: map[string]*job{},
	}
}

func (s *side) close() {
	for _, job := range s.jobs {
		job.kill()
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
}

// finish ends a script: it checks that no background command is left, and stops the server.
func (s *side) finish() answer {
	if left := slices.Sorted(maps.Keys(s.jobs)); len(left) > 0 {
		return answer{failed: fmt.Errorf("background commands neither ended nor joined: %s", strings.Join(left, ", "))}
	}
	if s.cluster == nil {
		return answer{}
	}
	return answer{failed: s.cluster.Stop()}
}

// do executes a statement and returns its normalized result.
func (s *side) do(ctx context.Context, statement script.Statement) answer {
	words := make([]string, len(statement.Words))
	for i, word := range statement.Words {
		words[i] = s.expand(word)
	}
	switch statement.Verb {
	case script.Server:
		return answer{failed: s.server(ctx, words)}
	case script.HTTP:
		return s.normalAnswer(statement, request(ctx, s.names["endpoint"], words))
	case script.Background:
		return answer{failed: s.background(statement.Name, words)}
	case script.Await, script.Tell, script.End, script.Join:
		return s.backgroundStatement(statement, words)
	case script.Until:
		return answer{failed: s.until(ctx, words, statement.Text)}
	default:
		result := s.command(ctx, statement.Verb, words, s.expand(statement.Stdin))
		if statement.Name != "" {
			if err := s.nameID(statement.Name, result.out); err != nil && result.failed == nil {
				result.failed = fmt.Errorf("%w in %s", err, result)
			}
		}
		return s.normalAnswer(statement, result)
	}
}

// nameID gives the first id in a text a name.
func (s *side) nameID(name, text string) error {
	s.names[name] = normal.FirstID(text)
	id, err := strconv.ParseUint(s.names[name], 16, 64)
	if err != nil {
		return errors.New("found no id")
	}
	s.normal.Know(id)
	return nil
}

// expand substitutes the variables of a script.
func (s *side) expand(text string) string {
	return os.Expand(text, func(name string) string {
		if value, known := s.names[name]; known {
			return value
		}
		// Unknown variables may be meant for a shell.
		return "$" + name
	})
}

func (s *side) normalAnswer(statement script.Statement, result answer) answer {
	result.out = readable(statement.Words, result.out)
	s.plant.apply(statement, &result)
	result.out = s.normal.Text(statement.Words, result.out)
	result.err = s.normal.Text(statement.Words, result.err)
	if statement.Unordered {
		result.out = normal.Unordered(result.out)
	}
	return result
}

// command runs etcdctl or etcdutl until it exits.
func (s *side) command(ctx context.Context, verb script.Verb, words []string, stdin string) answer {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	run := s.process(ctx, verb, words)
	var out, err bytes.Buffer
	run.Stdin, run.Stdout, run.Stderr = strings.NewReader(stdin), &out, &err
	ended := run.Run()
	if ctx.Err() != nil {
		return answer{failed: fmt.Errorf("timed out after %s; output so far:\n%s%s", commandTimeout, &out, &err)}
	}
	code, failed := exitCode(ended)
	return answer{code: code, out: out.String(), err: err.String(), failed: failed}
}

// process returns a command that is configured to reach the server.
func (s *side) process(ctx context.Context, verb script.Verb, words []string) *exec.Cmd {
	run := exec.CommandContext(ctx, filepath.Join(s.tools, "etcd"+string(verb)), words...)
	run.Dir = s.names["dir"]
	run.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "ETCDCTL_") })
	if verb == script.Ctl {
		run.Env = append(run.Env, s.environment(words)...)
	}
	return run
}

// environment returns the variables for a command: the endpoints, and timeouts for a busy machine.
// etcdctl refuses a setting that is given by flag and by variable.
func (s *side) environment(words []string) []string {
	var pairs []string
	for _, variable := range [][3]string{
		{"--endpoints", "ETCDCTL_ENDPOINTS", s.names["endpoint"]},
		{"--dial-timeout", "ETCDCTL_DIAL_TIMEOUT", "20s"},
		{"--command-timeout", "ETCDCTL_COMMAND_TIMEOUT", "30s"},
	} {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, variable[0]+"=") }) {
			pairs = append(pairs, variable[1]+"="+variable[2])
		}
	}
	return pairs
}

// exitCode returns the exit code of a command, or the error that prevented its start.
func exitCode(ended error) (int, error) {
	var exit *exec.ExitError
	if errors.As(ended, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, ended
}

// until repeats a command until it prints a text.
func (s *side) until(ctx context.Context, words []string, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	for {
		result := s.command(ctx, script.Ctl, words, "")
		if strings.Contains(result.out, s.expand(text)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timed out waiting for %q; last output: %s", text, result)
		case <-time.After(between):
		}
	}
}
