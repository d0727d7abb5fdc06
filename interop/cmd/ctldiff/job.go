package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"bowline/interop/internal/script"
)

// job is a command that runs in the background.
type job struct {
	words   []string
	process *exec.Cmd
	stdin   io.WriteCloser
	err     bytes.Buffer
	exited  chan struct{}
	ended   error

	mu  sync.Mutex
	out bytes.Buffer
	// seen is the length of the output that await has consumed.
	seen int
}

// Write appends to the output of the command.
func (j *job) Write(printed []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(printed)
}

func (s *side) background(name string, words []string) error {
	j := &job{words: words, process: s.process(context.Background(), script.Ctl, words), exited: make(chan struct{})}
	j.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := j.process.StdinPipe()
	if err != nil {
		return err
	}
	j.stdin, j.process.Stdout, j.process.Stderr = stdin, j, &j.err
	if err := j.process.Start(); err != nil {
		return err
	}
	go func() {
		j.ended = j.process.Wait()
		close(j.exited)
	}()
	s.jobs[name] = j
	return nil
}

// backgroundStatement executes a statement about a command in the background.
func (s *side) backgroundStatement(statement script.Statement, words []string) answer {
	j := s.jobs[statement.Name]
	if j == nil {
		return answer{failed: fmt.Errorf("no background command is called %q", statement.Name)}
	}
	switch statement.Verb {
	case script.Await:
		return answer{failed: j.await(strings.Join(words, " "))}
	case script.Tell:
		_, err := io.WriteString(j.stdin, strings.Join(words, " ")+"\n")
		return answer{failed: err}
	default:
		delete(s.jobs, statement.Name)
		if statement.Verb == script.End {
			j.interrupt()
		}
		result := j.join()
		statement.Words = j.words
		return s.normalAnswer(statement, result)
	}
}

// await waits for a text in the output, after the text of the previous await.
func (j *job) await(text string) error {
	deadline := time.Now().Add(commandTimeout)
	for !j.has(text) {
		if time.Now().After(deadline) {
			return fmt.Errorf("timed out waiting for %q; output so far:\n%s%s", text, &j.out, &j.err)
		}
		select {
		case <-j.exited:
			if !j.has(text) {
				return fmt.Errorf("the command ended without printing %q:\n%s%s", text, &j.out, &j.err)
			}
			return nil
		case <-time.After(between):
		}
	}
	return nil
}

func (j *job) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := strings.Index(j.out.String()[j.seen:], text)
	if at >= 0 {
		j.seen += at + len(text)
	}
	return at >= 0
}

// quiet is how long the output must stay unchanged before an interrupt, since the awaited text may
// be in the middle of the output.
const quiet = 200 * time.Millisecond

// interrupt sends SIGINT once the command has stopped printing.
func (j *job) interrupt() {
	for before := -1; before != j.printed(); time.Sleep(quiet) {
		before = j.printed()
	}
	j.process.Process.Signal(os.Interrupt)
}

func (j *job) printed() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Len()
}

// join waits until the command exits.
func (j *job) join() answer {
	select {
	case <-j.exited:
	case <-time.After(commandTimeout):
		j.kill()
		return answer{failed: fmt.Errorf("the command does not exit; output so far:\n%s%s", &j.out, &j.err)}
	}
	code, failed := exitCode(j.ended)
	return answer{code: code, out: j.out.String(), err: j.err.String(), failed: failed}
}

func (j *job) kill() {
	j.process.Process.Kill()
	<-j.exited
}
