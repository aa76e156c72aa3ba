package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// gcPercent is GOGC where the environment sets none. Nearly all of the heap is
// rows, tables and buffers without pointers, which a collection does not look
// at: it costs little, and room for garbage costs memory.
const gcPercent = 25

// tuneRuntime sets, once, what the environment leaves open: how far the heap
// grows between collections, and one processor of Go's scheduler more than the
// machine gives. While folding and compaction have all of them a request waits
// until one is taken away from them, up to 10 ms; the one more waits for the
// network, and the operating system lets it run at once.
var tuneRuntime = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})
