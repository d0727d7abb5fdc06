package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"bowline/interop/internal/stats"
)

// figure is one measured number with its unit.
type figure struct {
	name  string
	value float64
	unit  unit
}

// unit is the format of a number.
type unit int

const (
	perSecond unit = iota
	microseconds
	milliseconds
	megabytes
)

func (u unit) write(value float64) string {
	switch u {
	case perSecond:
		return fmt.Sprintf("%.0f/s", value)
	case microseconds:
		return fmt.Sprintf("%s µs", stats.Digits(value))
	case milliseconds:
		return fmt.Sprintf("%s ms", stats.Digits(value))
	default:
		return fmt.Sprintf("%s MB", stats.Digits(value))
	}
}

func inMicroseconds(name string, d time.Duration) figure {
	return figure{name, d.Seconds() * 1e6, microseconds}
}

func inMilliseconds(name string, d time.Duration) figure {
	return figure{name, d.Seconds() * 1e3, milliseconds}
}

// line formats the result of one run, as progress output.
func line(figures []figure) string {
	var parts []string
	for _, f := range figures {
		parts = append(parts, f.name+" "+f.unit.write(f.value))
	}
	return strings.Join(parts, ", ")
}

// table has all runs of a case.
type table struct {
	order  []figure
	values map[string]map[string][]float64
}

func (t *table) add(program string, figures []figure) {
	if t.values == nil {
		t.values = make(map[string]map[string][]float64)
		t.order = figures
	}
	for _, f := range figures {
		if t.values[f.name] == nil {
			t.values[f.name] = make(map[string][]float64)
		}
		t.values[f.name][program] = append(t.values[f.name][program], f.value)
	}
}

// print prints a row for each figure: medians with minimum and maximum in brackets, and the ratio
// of the medians.
func (t *table) print(theirs, ours string) {
	for _, f := range t.order {
		a, b := t.values[f.name][theirs], t.values[f.name][ours]
		fmt.Printf("| %s | %s | %s | %.2f |\n", f.name, spread(f.unit, a), spread(f.unit, b), stats.Median(b)/stats.Median(a))
	}
}

func spread(unit unit, values []float64) string {
	if len(values) == 1 {
		return unit.write(values[0])
	}
	return fmt.Sprintf("%s (%s .. %s)", unit.write(stats.Median(values)), unit.write(slices.Min(values)), unit.write(slices.Max(values)))
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:2], " ")
}
