package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is GOGC where the environment sets none. Nearly all of the heap is
// rows, tables and buffers without pointers, which a collection does not look
// at: it costs little, and room for garbage costs memory.
const gcPercent = 25

// tuneGC sets how far the heap grows between collections.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
