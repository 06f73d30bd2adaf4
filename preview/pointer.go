package preview

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

// podTemplates finds an object's pod templates.
func podTemplates(object []byte) ([]podTemplate, error) {
	found, err := manifest.Templates(object)
	if err != nil {
		return nil, err
	}
	templates := make([]podTemplate, 0, len(found))
	for _, t := range found {
		pointer, err := pointerTo(t.Path)
		if err != nil {
			return nil, err
		}
		templates = append(templates, podTemplate{pointer: pointer, field: t.Path, raw: []byte(t.Raw)})
	}
	return templates, nil
}

// pointerTo turns a field path ("spec.replicatedJobs[0].template") into the JSON pointer to the same place.
func pointerTo(field string) (string, error) {
	if strings.HasSuffix(field, "...") {
		return "", fmt.Errorf("a pod template lies too deep to be shown")
	}
	var b strings.Builder
	for rest := field; rest != ""; {
		var step string
		switch rest[0] {
		case '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return "", fmt.Errorf("a pod template lies too deep to be shown")
			}
			unquoted, err := strconv.Unquote(`"` + rest[1:end] + `"`)
			if err != nil {
				return "", fmt.Errorf("a pod template lies under a key that cannot be shown")
			}
			step, rest = unquoted, rest[end+1:]
		default:
			rest = strings.TrimPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			step, rest = rest[:end], rest[end:]
		}
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return b.String(), nil
}
