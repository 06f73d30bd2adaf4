package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ReadSettings reads settings from JSON, as the chart writes them beside the exchange's configuration (policies.json), so that
// the exchange renders the very policies that it must find installed. A key that is unknown, or anything after the object, is an
// error: it was written by another version of the chart, whose policies are others too.
func ReadSettings(raw []byte) (Settings, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var s Settings
	if err := decoder.Decode(&s); err != nil {
		return Settings{}, fmt.Errorf("reading the policies' settings: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Settings{}, errors.New("reading the policies' settings: something follows the object")
	}
	return s, nil
}
