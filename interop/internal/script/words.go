package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Words splits a line at spaces outside quotes.
func Words(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimLeft(line, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		word, after, err := word(rest)
		if err != nil {
			return nil, err
		}
		words, rest = append(words, word), after
	}
	if len(words) == 0 {
		return nil, errors.New("no words")
	}
	return words, nil
}

// word returns the first word of a line. Quotes may begin within it, as in --sort-by="x".
func word(line string) (word, rest string, err error) {
	for line != "" && line[0] != ' ' {
		var part string
		if part, line, err = piece(line); err != nil {
			return "", "", err
		}
		word += part
	}
	return word, line, nil
}

// piece returns a quoted string, or the text up to the next quote or space.
func piece(line string) (piece, rest string, err error) {
	switch line[0] {
	case '"':
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", line, err)
		}
		piece, err = strconv.Unquote(quoted)
		return piece, line[len(quoted):], err
	case '\'':
		piece, rest, ends := strings.Cut(line[1:], "'")
		if !ends {
			return "", "", fmt.Errorf("%s: no closing quote", line)
		}
		return piece, rest, nil
	default:
		end := strings.IndexAny(line, ` "'`)
		if end < 0 {
			end = len(line)
		}
		return line[:end], line[end:], nil
	}
}
