package main

import (
	"fmt"
	"slices"
	"time"

	"bowline/interop/internal/stats"
)

// figure is one measured number.
type figure struct {
	name  string
	value float64
	unit  string
}

func milliseconds(name string, d time.Duration) figure { return figure{name, d.Seconds() * 1e3, "ms"} }

func microseconds(name string, d time.Duration) figure { return figure{name, d.Seconds() * 1e6, "µs"} }

// printRows prints a row for each figure: medians with minimum and maximum in brackets, and the
// ratio of the medians.
func printRows(theirs, ours [][]figure) {
	for i, f := range theirs[0] {
		a, b := column(theirs, i), column(ours, i)
		fmt.Printf("| %s | %s | %s | %.2f |\n", f.name, spread(a, f.unit), spread(b, f.unit), stats.Median(b)/stats.Median(a))
	}
}

func column(rounds [][]figure, i int) []float64 {
	var values []float64
	for _, figures := range rounds {
		values = append(values, figures[i].value)
	}
	return values
}

func spread(values []float64, unit string) string {
	text := fmt.Sprintf("%s %s", stats.Digits(stats.Median(values)), unit)
	if len(values) > 1 {
		text += fmt.Sprintf(" (%s .. %s)", stats.Digits(slices.Min(values)), stats.Digits(slices.Max(values)))
	}
	return text
}
