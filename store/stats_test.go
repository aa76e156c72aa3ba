package store_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Every answer asks for the size of the state. A flush that waits for a slow
// disk with the manifest in its hand, as each snapshot begins with one, does
// not hold it up.
func TestS02SizeWaitsForNoDisk(t *testing.T) {
	var slow atomic.Bool
	waits, goOn := make(chan struct{}, 1), make(chan struct{})
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if slow.Load() && op.Kind == errorfs.OpFileSync && strings.Contains(op.Path, "MANIFEST-") {
			select {
			case waits <- struct{}{}:
			default:
			}
			<-goOn
		}
		return nil
	}))
	// A compaction would change the size as well, and hold the manifest before the flush does.
	o := options(t).WithFS(disk).WithTune(func(o *pebble.Options) { o.DisableAutomaticCompactions = true })
	p := created(t, openDir(t, "state", o), 0)
	apply(t, p, map[string]int64{"a": 1}, 1)
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	before := p.Bytes()
	if before == 0 {
		t.Error("a state with a table takes no bytes")
	}
	slow.Store(true)
	apply(t, p, map[string]int64{"b": 1}, 2)
	flushed := make(chan error, 1)
	go func() { flushed <- p.Flush() }()
	<-waits
	size := make(chan int64, 1)
	go func() { size <- p.Bytes() }()
	select {
	case n := <-size:
		if n != before {
			t.Errorf("%d bytes before a flush has ended, they were %d", n, before)
		}
		close(goOn)
	case <-time.After(10 * time.Second):
		t.Error("the size waits for the disk")
		close(goOn)
		<-size
	}
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	if after := p.Bytes(); after <= before {
		t.Errorf("%d bytes after a second table, %d before", after, before)
	}
}
