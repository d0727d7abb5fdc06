package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"bowline/interop/internal/history"
)

// porcupineTimeout bounds the search of porcupine for one history.
const porcupineTimeout = 5 * time.Minute

// agreed writes a history to path and returns the verdict of both checkers: whether it is
// linearizable. Differing verdicts are an error.
func agreed(ctx context.Context, checker, path string, operations []history.Operation) (bool, error) {
	if err := history.WriteOperations(path, operations); err != nil {
		return false, err
	}
	accepted, output, err := runChecker(ctx, checker, path)
	if err != nil {
		return false, err
	}
	switch result := porcupine.CheckOperationsTimeout(model, porcupineOperations(operations), porcupineTimeout); {
	case result == porcupine.Unknown:
		return false, fmt.Errorf("porcupine has no verdict on %s after %s", path, porcupineTimeout)
	case (result == porcupine.Ok) != accepted:
		return false, fmt.Errorf("verdicts differ on %s: porcupine says %s, %s says:\n%s", path, result, checker, output)
	}
	return accepted, nil
}

// runChecker runs the checker of crates/history. It exits with 0 for a linearizable history
// and with 1 for another.
func runChecker(ctx context.Context, checker, path string) (accepted bool, output string, err error) {
	text, err := exec.CommandContext(ctx, checker, path).CombinedOutput()
	output = string(text[:min(len(text), 4000)])
	var exit *exec.ExitError
	switch {
	case err == nil && strings.HasPrefix(output, "linearizable: "):
		return true, output, nil
	case errors.As(err, &exit) && exit.ExitCode() == 1 && !strings.Contains(output, "undecided"):
		return false, output, nil
	}
	return false, output, fmt.Errorf("%s has no verdict on %s: %v\n%s", checker, path, err, output)
}
