package store

import "sync"

// gate counts what uses a database, so that it is closed when nothing does.
type gate struct {
	mu   sync.Mutex
	in   int
	shut bool
	idle chan struct{} // closed once shut with nothing in
}

func newGate() *gate { return &gate{idle: make(chan struct{})} }

// enter is false once the gate is shut; each that was true needs a leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.in++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	if g.shut && g.in == 0 {
		close(g.idle)
	}
}

// close lets nothing more in and returns a channel that is closed when all
// have left. It may be called again.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		if g.in == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.in
}
