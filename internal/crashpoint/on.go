//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// crash is the name at which the process ends, "" for none, and left how many
// hits of it are yet to come.
var crash, left = wanted(os.Getenv("TIDEMARK_CRASH"))

func wanted(text string) (string, *atomic.Int64) {
	left := new(atomic.Int64)
	if text == "" {
		return "", left
	}
	name, times, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("crashpoint: TIDEMARK_CRASH is %q, want NAME:N with N from 1", text))
	}
	left.Store(n)
	return name, left
}

// Hit ends the process as kill -9 does where this is the hit that the
// environment names; it may be called from any goroutine. Nobody who comes by
// the name later gets beyond it.
func Hit(name string) {
	if name != crash || left.Add(-1) > 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("crashpoint: the process cannot kill itself: %v", err))
	}
	select {} // nothing is done after it
}
