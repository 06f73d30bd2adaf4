package tokenfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/internal/tokenfile"
)

func TestRead(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", tokenfile.Most)
	for name, tc := range map[string]struct{ content, want, says string }{
		"a token":                          {content: "a.b.c", want: "a.b.c"},
		"white space around it":            {content: " \ta.b.c\r\n\n", want: "a.b.c"},
		"the longest":                      {content: longest + "\n", want: longest},
		"nothing":                          {says: "is empty"},
		"white space alone":                {content: " \n", says: "is empty"},
		"one byte too many":                {content: longest + "x", says: "is longer than any token"},
		"far too many":                     {content: strings.Repeat("x", 1<<20), says: "is longer than any token"},
		"more white space than any editor": {content: strings.Repeat(" ", 1<<20) + "a.b.c", says: "is empty"},
		"two words":                        {content: "MARKED one", says: "holds a space"},
		"two lines":                        {content: "MARKED\none", says: "holds a space, a line break"},
		"a zero byte":                      {content: "MARKED\x00", says: "not ASCII"},
		"a byte beyond ASCII":              {content: "MARKED\xff", says: "not ASCII"},
		"a space that is not ASCII's own":  {content: "MARKED\u00a0one", says: "not ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := tokenfile.Read(path)
			if tc.says == "" {
				if err != nil || got != tc.want {
					t.Errorf("got %d bytes, %v, want %d", len(got), err, len(tc.want))
				}
				return
			}
			if err == nil || got != "" || !strings.HasPrefix(err.Error(), "token file "+path+": ") || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %q, %v, want an error that says %q", got, err, tc.says)
			}
			if strings.Contains(err.Error(), "MARKED") {
				t.Errorf("the error shows what the file holds: %v", err)
			}
		})
	}
}

func TestReadWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := tokenfile.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), "none") != 1 {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := tokenfile.Read(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
}
