//go:build unix

package chart

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Objects splits a rendering into its objects, in the order in which helm would install them.
func Objects(rendered []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(rendered)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("splitting the rendering: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, fmt.Errorf("reading a rendered object: %w: %s", err, document)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
