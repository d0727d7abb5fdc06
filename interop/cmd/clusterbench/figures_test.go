package main

import (
	"testing"
	"time"

	"bowline/interop/internal/stats"
)

func TestMediansAndPercentiles(t *testing.T) {
	if got := stats.Median([]float64{5, 1, 3}); got != 3 {
		t.Error(got)
	}
	if got := stats.Median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Error(got)
	}
	if got := stats.Percentile([]time.Duration{4, 1, 3, 2}, 0.5); got != 3 {
		t.Error(got)
	}
	if got := spread([]float64{1, 200, 30}, "ms"); got != "30.0 ms (1.00 .. 200)" {
		t.Error(got)
	}
}
