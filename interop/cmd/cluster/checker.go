package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// check runs the checker on a history.
func check(ctx context.Context, checker, path string) error {
	output, err := exec.CommandContext(ctx, checker, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("history %s is not linearizable: %w\n%s", path, err, output[:min(len(output), 4000)])
	}
	if !strings.HasPrefix(string(output), "linearizable: ") {
		return fmt.Errorf("unexpected output of the checker for %s: %s", path, output)
	}
	return nil
}

// answeredRead matches the response to a read of one existing key.
var answeredRead = regexp.MustCompile(`"body":{"range":{"kvs":\[{"key":"k[0-9]","value":"[0-9]+\.[0-9]+"`)

// findsPlanted changes a read value in the middle of a history, which the checker must reject.
func findsPlanted(ctx context.Context, checker, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	found := answeredRead.FindAllIndex(text, -1)
	if len(found) == 0 {
		return errors.New("the history has no read of an existing key")
	}
	at := found[len(found)/2][1] - 1
	planted := path + ".planted"
	text = bytes.Join([][]byte{text[:at], text[at:]}, []byte("9"))
	if err := os.WriteFile(planted, text, 0o644); err != nil {
		return err
	}
	if check(ctx, checker, planted) == nil {
		return fmt.Errorf("the checker accepts the falsified history %s", planted)
	}
	return nil
}
