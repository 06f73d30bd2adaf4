// Program docs writes docs/reference from the code: the reasons from their constants, the metrics from a registry that
// holds them all, the configuration keys from a file that the loader accepts, the commands from their own help. It also runs
// the commands that the README shows and puts in what they print, and puts the chart's values with their comments into the
// chart's README.
// Run it from the repository's root: go run ./internal/gen/docs
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// reference is where the generated pages stand.
const reference = "docs/reference"

func main() {
	pages, err := generate(".")
	if err == nil {
		err = write(reference, pages)
	}
	if err == nil {
		err = writeReadme(".")
	}
	if err == nil {
		err = writeChartReadme(".")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// generate makes every page, by file name. The root is the repository's.
func generate(root string) (map[string][]byte, error) {
	pages := map[string][]byte{}
	for name, page := range map[string]func(string) ([]byte, error){
		"reasons.md": reasonsPage, "metrics.md": metricsPage, "configuration.md": configurationPage, "commands.md": commandsPage,
		"configuration-connector.md": connectorPage, "configuration-exchange.md": exchangePage,
	} {
		text, err := page(root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pages[name] = text
	}
	pages["README.md"] = indexPage(pages)
	return pages, nil
}

func write(dir string, pages map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("write page: %w", err)
		}
	}
	return nil
}

func writeReadme(root string) error {
	text, err := freshReadme(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "README.md"), text, 0o644)
}

// indexPage lists the other pages by their first lines.
func indexPage(pages map[string][]byte) []byte {
	text := "# Reference\n\n" + mark + "\n\n"
	for _, name := range sortedKeys(pages) {
		text += fmt.Sprintf("- [%s](%s)\n", title(pages[name]), name)
	}
	return []byte(text)
}

func sortedKeys(m map[string][]byte) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
