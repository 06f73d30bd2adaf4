package preview

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// chunk is the text between two document separators; line is the file's line that the text starts on.
type chunk struct {
	line int
	data []byte
}

// first is the file's line of the chunk's first content.
func (c chunk) first() int {
	line := c.line
	for l := range bytes.Lines(c.data) {
		if !blank(l) {
			break
		}
		line++
	}
	return line
}

// split cuts a file at its YAML document separators. Chunks that hold nothing but blanks and comments are left out. The
// cut is made before parsing, since a YAML decoder cannot go on behind a document that it could not read.
func split(data []byte) []chunk {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var chunks []chunk
	current := chunk{line: 1}
	keep := func() {
		if !blank(current.data) {
			chunks = append(chunks, current)
		}
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		switch rest, ok := separator(line); {
		case ok:
			keep()
			current = chunk{line: number, data: rest}
		default:
			current.data = append(current.data, line...)
		}
	}
	keep()
	return chunks
}

// separator says whether a line starts a new document ("---") or ends one ("..."), and gives what stands behind the mark,
// indented as it was.
func separator(line []byte) (rest []byte, ok bool) {
	for _, mark := range []string{"---", "..."} {
		after, found := bytes.CutPrefix(line, []byte(mark))
		if found && (len(after) == 0 || strings.ContainsRune(" \t\r\n", rune(after[0]))) {
			return append([]byte("   "), after...), true
		}
	}
	return nil, false
}

// blank says whether a chunk holds only white space, comments and YAML directives.
func blank(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

var (
	lineNumber = regexp.MustCompile(`line (\d+): `)
	// quoted is what a parser cites from the file. It could be a value, and values are never shown.
	quoted = regexp.MustCompile(` ?(?:'[^']*'|"[^"]*"|` + "`[^`]*`" + `)`)
)

// parserProblem starts the messages whose line the YAML library counts from zero; all others it counts from one.
var parserProblem = regexp.MustCompile(`^(?:yaml: )?did not find expected (?:key|'-' indicator|node content|',' or|<document)`)

// yamlError makes one line of a YAML parser's error and turns the line within the chunk, which was parsed with one empty
// line in front, into a line of the file. (The library leaves the line out when it is the first.)
func yamlError(err error, start int) (message string, line int) {
	message = err.Error()
	if m := lineNumber.FindStringSubmatchIndex(message); m != nil {
		if n, err := strconv.Atoi(message[m[2]:m[3]]); err == nil {
			line = start + n - 2
		}
		message = message[m[1]:]
		if parserProblem.MatchString(message) {
			line++
		}
	}
	message, _, _ = strings.Cut(message, "\n")
	message = strings.TrimPrefix(message, "error converting YAML to JSON: ")
	message = strings.TrimPrefix(message, "yaml: ")
	if strings.HasPrefix(message, "unknown anchor") || strings.HasPrefix(message, "cannot unmarshal") {
		message = quoted.ReplaceAllString(message, "")
	}
	return "not valid YAML: " + message, line
}
