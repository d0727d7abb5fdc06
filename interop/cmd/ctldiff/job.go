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

// job is a command in the background.
type job struct {
	words   []string
	process *exec.Cmd
	stdin   io.WriteCloser
	err     bytes.Buffer
	exited  chan struct{}
	ended   error

	mu  sync.Mutex
	out bytes.Buffer
	// seen is how much of the output has been waited for.
	seen int
}

// Write takes what the command prints.
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

// attend speaks to a command in the background.
func (s *side) attend(statement script.Statement, words []string) answer {
	j := s.jobs[statement.Name]
	if j == nil {
		return answer{failed: fmt.Errorf("nothing called %q in the background", statement.Name)}
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
		said := j.join()
		statement.Words = j.words
		return s.normalAnswer(statement, said)
	}
}

// await waits for a text in the output beyond what was waited for before.
func (j *job) await(text string) error {
	deadline := time.Now().Add(patience)
	for !j.has(text) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%q was not printed; so far:\n%s%s", text, &j.out, &j.err)
		}
		select {
		case <-j.exited:
			if !j.has(text) {
				return fmt.Errorf("ended without %q:\n%s%s", text, &j.out, &j.err)
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

// quiet is how long nothing must have been printed: what is waited for may be in the middle of
// something.
const quiet = 200 * time.Millisecond

// interrupt ends the command when it has nothing more to say.
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

// join waits for the end of the command.
func (j *job) join() answer {
	select {
	case <-j.exited:
	case <-time.After(patience):
		j.kill()
		return answer{failed: fmt.Errorf("does not end; so far:\n%s%s", &j.out, &j.err)}
	}
	code, failed := exitCode(j.ended)
	return answer{code: code, out: j.out.String(), err: j.err.String(), failed: failed}
}

func (j *job) kill() {
	j.process.Process.Kill()
	<-j.exited
}
