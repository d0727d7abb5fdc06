package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// durations are the measured times of repeated runs.
type durations []time.Duration

func (d durations) String() string {
	sorted := slices.Sorted(slices.Values(d))
	spread := short(sorted[0]) + " .. " + short(sorted[len(sorted)-1])
	return fmt.Sprintf("%12s %26s", short(sorted[len(sorted)/2]), spread)
}

// short formats a duration with one decimal.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1e3)
	default:
		return fmt.Sprintf("%.1fµs", d.Seconds()*1e6)
	}
}

// rates are the measured operations per second of repeated runs.
type rates []float64

func (r rates) String() string {
	sorted := slices.Sorted(slices.Values(r))
	return fmt.Sprintf("%12.0f /s, %.0f .. %.0f", sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1])
}

func rate(units int, took time.Duration) float64 { return float64(units) / took.Seconds() }

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

func timed(act func()) time.Duration {
	begun := time.Now()
	act()
	return time.Since(begun)
}

// bytesKept returns the growth of the heap by act, after garbage collection.
func bytesKept(act func()) float64 {
	before := heap()
	act()
	return float64(int64(heap()) - int64(before))
}

func heap() uint64 {
	// The second collection frees objects with finalizers and those in pools.
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// allocations returns the number of allocations of the whole process.
func allocations() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}
