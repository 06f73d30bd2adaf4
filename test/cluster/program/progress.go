//go:build unix

package program

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"
)

// Nothing is said about builds that take less than quiet, and then a line comes every interval.
const (
	quiet    = 2 * time.Second
	interval = 10 * time.Second
)

// packageLine is what go build -v prints for a package that it starts to compile.
var packageLine = regexp.MustCompile(`^[A-Za-z0-9_.~/-]+$`)

// progress tells a person how far a build is.
type progress struct {
	out   io.Writer
	s     Source
	start time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu       sync.Mutex
	packages int
	spoken   bool
}

// newProgress starts telling; finish ends it.
func newProgress(out io.Writer, s Source) *progress {
	p := &progress{out: out, s: s, start: time.Now(), stop: make(chan struct{})}
	p.ended.Go(p.run)
	return p
}

// run speaks up after a while and then every interval.
func (p *progress) run() {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-timer.C:
			p.say()
			timer.Reset(interval)
		}
	}
}

// say prints one line.
func (p *progress) say() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.spoken && p.s.Hint != "" {
		fmt.Fprintf(p.out, "building %s (%s)\n", p.s.Name, p.s.Hint)
	}
	p.spoken = true
	fmt.Fprintf(p.out, "building %s: %s, %d packages compiled\n", p.s.Name, p.elapsed(), p.packages)
}

// compiled counts a line if it names a package, and says whether it did.
func (p *progress) compiled(line string) bool {
	if !packageLine.MatchString(line) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packages++
	return true
}

// finish ends the telling; a build that was spoken of is reported as done.
func (p *progress) finish(built bool) {
	close(p.stop)
	p.ended.Wait()
	if p.spoken && built {
		fmt.Fprintf(p.out, "built %s in %s\n", p.s.Name, p.elapsed())
	}
}

// elapsed is the time since the start in whole seconds.
func (p *progress) elapsed() time.Duration { return time.Since(p.start).Round(time.Second) }

// lines calls each for every whole line that is written to it.
type lines struct {
	each func(string)
	rest []byte
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		l.each(string(line))
		l.rest = rest
	}
}
