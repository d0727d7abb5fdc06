package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// lineBytesMax bounds a line, as crates/history does.
const lineBytesMax = 64 << 20

// ReadOperations reads the operations of a history. It returns the number of other records
// (watches, finals, hashes, defragmentations), which it skips. An operation with a request or an
// option that this package has no type for is an error, for example a lease, a compaction or a read
// at an old revision.
func ReadOperations(path string) (operations []Operation, skipped int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, lineBytesMax)
	for number := 1; lines.Scan(); number++ {
		var record map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		text, ok := record["operation"]
		if !ok {
			skipped++
			continue
		}
		var operation Operation
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&operation); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: unsupported operation: %w", path, number, err)
		}
		operations = append(operations, operation)
	}
	return operations, skipped, lines.Err()
}

// WriteOperations writes a history that consists of operations only.
func WriteOperations(path string, operations []Operation) error {
	file, err := Create(path)
	if err != nil {
		return err
	}
	for i := range operations {
		file.Add(Record{Operation: &operations[i]})
	}
	return file.Close()
}
