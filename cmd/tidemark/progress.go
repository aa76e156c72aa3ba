package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"tidemark/aggregator"
)

const (
	lineEvery = 100 * time.Millisecond // on a terminal
	logEvery  = 10 * time.Second       // elsewhere
	lineWidth = 79                     // of a terminal that does not tell
)

// progress tells how far long work is: by a line on a terminal that is written
// over, elsewhere in the log. It belongs to one goroutine at a time.
type progress struct {
	log   *slog.Logger
	line  io.Writer // nil where there is no terminal
	last  time.Time
	shown bool // a line stands on the terminal
}

func (p *program) progress(log *slog.Logger) *progress {
	g := &progress{log: log, last: time.Now()}
	if isTerminal(p.stderr) {
		g.line, g.last = p.stderr, time.Time{}
	}
	return g
}

// due says whether it is time to show something, and notes that it is shown.
func (g *progress) due() bool {
	every := logEvery
	if g.line != nil {
		every = lineEvery
	}
	if time.Since(g.last) < every {
		return false
	}
	g.last = time.Now()
	return true
}

// write writes the line on the terminal anew, as much of it as fits.
func (g *progress) write(text string) {
	width := lineWidth
	if f, ok := g.line.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 1 {
			width = w - 1
		}
	}
	if runes := []rune(text); len(runes) > width {
		text = string(runes[:width])
	}
	fmt.Fprint(g.line, "\r\x1b[K"+text)
	g.shown = true
}

// told is told that have of need units of some work are done.
func (g *progress) told(work string, have, need int64, unit string) {
	if !g.due() {
		return
	}
	percent := int64(100)
	if need > 0 {
		percent = 100 * have / need
	}
	if g.line == nil {
		g.log.Info(work, unit, have, "of", need, "percent", percent)
		return
	}
	g.write(fmt.Sprintf("%s: %d of %d %s, %d %%", work, have, need, unit, percent))
}

// reads is told how far the reading of the history is.
func (g *progress) reads(p aggregator.SeedProgress) {
	switch {
	case !g.due():
	case g.line == nil:
		g.log.Info("the history is being read", p.Attrs()...)
	default:
		g.write("reading the history: " + p.String())
	}
}

// says is told what is done, or waited for, now.
func (g *progress) says(what string) {
	if g.line == nil {
		g.log.Info("bootstrap", "now", what)
		return
	}
	g.write(what)
}

// together adds up the progress of parts that are worked on at the same time.
type together struct {
	*progress
	mu         sync.Mutex
	have, need []int64 // of each part
}

// told is told that have of need bytes of a part are done.
func (g *together) told(work string, part int, have, need int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.have[part], g.need[part] = have, need
	var sum, of int64
	for i := range g.have {
		sum, of = sum+g.have[i], of+g.need[i]
	}
	g.progress.told(work, sum, of, "bytes")
}

// done takes the line away, before anything else is printed.
func (g *progress) done() {
	if g.shown {
		fmt.Fprint(g.line, "\r\x1b[K")
		g.shown = false
	}
}
