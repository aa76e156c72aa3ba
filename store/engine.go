package store

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatMajorVersion is Pebble's own format of a state; part of FormatVersion.
const formatMajorVersion = pebble.FormatValueSeparation

const (
	blockSize       = 16 << 10
	bloomBitsPerKey = 10
	l0Compact       = 2  // Pebble compacts from half as many sublevels of L0 on, where it may: see ripe
	l0Stop          = 48 // and at which writes wait
	openFiles       = 1000
	fileCacheShards = 8

	minWriteBuffer = 4 << 20
	maxWriteBuffer = 64 << 20
	// writeBufferQueue is how many write buffers of one partition may wait for
	// their flush before applies wait too.
	writeBufferQueue = 4
	// writeBufferShare is the part of the memory budget for the write buffers
	// of all partitions, as a divisor.
	writeBufferShare = 8
	// cacheSlack is the part of the memory budget, as a divisor, that the cache's
	// capacity leaves: each of its shards makes room before it takes a block, not
	// behind it, and so is over by one.
	cacheSlack = 64
	// minPartitions is the least number of partitions that the share is
	// divided by.
	minPartitions = 4
)

// shared is what all databases of a Dir use together.
type shared struct {
	fs        vfs.FS
	cache     *pebble.Cache
	fileCache *pebble.FileCache
	limiter   *limiter
}

func newShared(fs vfs.FS, memory int64, compactions int) *shared {
	return &shared{
		fs:        fs,
		cache:     pebble.NewCache(memory - memory/cacheSlack),
		fileCache: pebble.NewFileCache(min(fileCacheShards, runtime.GOMAXPROCS(0)), openFiles),
		limiter:   newLimiter(compactions),
	}
}

func (s *shared) close() {
	s.fileCache.Unref()
	s.cache.Unref()
}

// writeBuffer is the size, in bytes, of one write buffer (memtable) of a
// partition that is opened as the open-th: an equal part of an eighth of the
// budget, between 4 and 64 MiB. Buffers are taken out of the block cache, and
// a partition has up to four while flushes lag, so the budget holds for both
// together as long as the partitions are no more than budget / 16 MiB (32 for
// the default); beyond, the least size wins, and only flushes that lag in all
// partitions at once exceed the budget. A large apply bypasses it (tableShare).
func writeBuffer(memory int64, open int) uint64 {
	each := memory / writeBufferShare / int64(max(open, minPartitions))
	return uint64(min(max(each, minWriteBuffer), maxWriteBuffer))
}

// database is what one Pebble database needs besides what is shared.
type database struct {
	ended       *atomic.Bool // set when it is being closed
	merger      *pebble.Merger
	seat        *seat
	events      *events
	writeBuffer uint64
}

// options builds all options of a state's database; nothing else does.
func (s *shared) options(db database) *pebble.Options {
	o := &pebble.Options{
		Cache:                       s.cache,
		FileCache:                   s.fileCache,
		FS:                          endingFS{s.fs, db.ended},
		FormatMajorVersion:          formatMajorVersion,
		DisableWAL:                  true,
		Merger:                      db.merger,
		MemTableSize:                db.writeBuffer,
		MemTableStopWritesThreshold: writeBufferQueue,
		L0CompactionThreshold:       l0Compact,
		L0StopWritesThreshold:       l0Stop,
		MaxOpenFiles:                openFiles,
		CompactionConcurrencyRange:  func() (int, int) { return 1, s.limiter.limit },
		Logger:                      db.events,
		EventListener:               db.events.listener(),
	}
	o.Experimental.CompactionScheduler = db.seat
	for i := range o.Levels {
		o.Levels[i] = pebble.LevelOptions{
			BlockSize:    blockSize,
			FilterPolicy: bloom.FilterPolicy(bloomBitsPerKey),
		}
	}
	return o
}

// readOnlyOptions open a state for looking at it: nothing is written, nothing
// merged.
func readOnlyOptions(fs vfs.FS) *pebble.Options {
	// What is wrong comes back as an error of the read.
	events := newEvents(slog.New(slog.DiscardHandler), func(string) {}, func(pebble.LowDiskSpaceInfo) {})
	return &pebble.Options{
		FS:                 readOnlyFS{fs},
		ReadOnly:           true,
		ErrorIfNotExists:   true,
		FormatMajorVersion: pebble.FormatMinSupported,
		DisableWAL:         true,
		Merger:             countingMerger,
		Logger:             events,
		EventListener:      events.listener(),
		Filters: map[string]pebble.FilterPolicy{
			bloom.FilterPolicy(bloomBitsPerKey).Name(): bloom.FilterPolicy(bloomBitsPerKey),
		},
	}
}

// probe looks at the files of a database without opening it. It returns
// ErrNoMarker where the directory holds none, and ErrNewerFormat where a newer
// Pebble wrote it.
func probe(fs vfs.FS, path string) error {
	desc, err := pebble.Peek(path, fs)
	if err != nil {
		if n := engineFormat(fs, path); n > int64(pebble.FormatNewest) {
			return fmt.Errorf("%w: its files are of Pebble's format %d, this program reads up to %d",
				ErrNewerFormat, n, pebble.FormatNewest)
		}
		return err
	}
	if !desc.Exists {
		return ErrNoMarker
	}
	return nil
}

// engineFormat reads Pebble's own format marker: an empty file whose name ends
// in the number. 0 is none.
func engineFormat(fs vfs.FS, path string) (newest int64) {
	names, err := fs.List(path)
	if err != nil {
		return 0
	}
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "marker.format-version."); ok {
			_, number, _ := strings.Cut(rest, ".")
			if n, valid := parseNumber(number); valid {
				newest = max(newest, n)
			}
		}
	}
	return newest
}
