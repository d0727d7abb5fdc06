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

// check has a history judged.
func check(ctx context.Context, checker, path string) error {
	said, err := exec.CommandContext(ctx, checker, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the history %s is not right: %w\n%s", path, err, said[:min(len(said), 4000)])
	}
	if !strings.HasPrefix(string(said), "linearizable: ") {
		return fmt.Errorf("the checker does not say that %s is right: %s", path, said)
	}
	return nil
}

// answeredRead is an answer to a read of one key that was there.
var answeredRead = regexp.MustCompile(`"body":{"range":{"kvs":\[{"key":"k[0-9]","value":"[0-9]+\.[0-9]+"`)

// findsPlanted changes a value that a client was told in the middle of a history, which the checker must notice.
func findsPlanted(ctx context.Context, checker, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	found := answeredRead.FindAllIndex(text, -1)
	if len(found) == 0 {
		return errors.New("nobody read anything")
	}
	at := found[len(found)/2][1] - 1
	planted := path + ".planted"
	text = bytes.Join([][]byte{text[:at], text[at:]}, []byte("9"))
	if err := os.WriteFile(planted, text, 0o644); err != nil {
		return err
	}
	if check(ctx, checker, planted) == nil {
		return fmt.Errorf("nobody noticed what was changed in %s", planted)
	}
	return nil
}
