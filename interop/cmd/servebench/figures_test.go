package main

import (
	"testing"
	"time"

	"bowline/interop/internal/stats"
)

func TestProcessorTimeIsUserAndKernelTime(t *testing.T) {
	got, err := processorTime("42 (a (odd) name) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 7 9 20 0 5 0 100 1000 10")
	if err != nil || got != 3*time.Second {
		t.Errorf("%v, %v", got, err)
	}
}

func TestProcessorTimeRefusesTruncatedInput(t *testing.T) {
	if _, err := processorTime("42 (name) S 1"); err == nil {
		t.Error("accepted")
	}
}

func TestMedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo(t *testing.T) {
	if got := stats.Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Error(got)
	}
}

func TestPercentilesAreTakenFromSortedDurations(t *testing.T) {
	sorted := make([]time.Duration, 100)
	for n := range sorted {
		sorted[n] = time.Duration(n)
	}
	if got := []time.Duration{stats.Percentile(sorted, 0.5), stats.Percentile(sorted, 0.99)}; got[0] != 50 || got[1] != 99 {
		t.Error(got)
	}
}
