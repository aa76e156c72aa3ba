package store

import "time"

// Stats are figures of one open partition, for metrics and the status.
type Stats struct {
	Partition int32
	Keys      int64 // estimate, within a few per cent
	Bytes     int64 // of all its files on disk
	// Obsolete are the bytes of files that are no longer part of the state:
	// open views hold them, or they wait for their removal.
	Obsolete    int64
	WriteBuffer int64         // bytes of memory for applies that are not flushed
	Debt        int64         // bytes that compaction has yet to rewrite, an estimate
	InUse       int           // views, reads and applies under way
	Stalls      int64         // times that applies had to wait for compaction
	Stalled     time.Duration // and for how long, in all
	Errors      int64         // failed flushes and compactions
}

// Stats returns the figures of p at this moment, zero once it is closed. It
// waits for writes of the manifest that are under way.
func (p *Partition) Stats() Stats {
	s := Stats{Partition: p.number}
	if !p.gate.enter() {
		return s
	}
	defer p.gate.leave()
	m := p.db.Metrics()
	s.Keys = p.keys.estimate()
	s.Bytes = int64(m.DiskSpaceUsage())
	s.Obsolete = int64(m.Table.Local.ObsoleteSize + m.Table.Local.ZombieSize)
	s.WriteBuffer = int64(m.MemTable.Size + m.MemTable.ZombieSize)
	s.Debt = int64(m.Compact.EstimatedDebt)
	s.InUse = p.gate.count() - 1
	s.Stalls = p.events.stalls.Load()
	s.Stalled = p.events.stalled.read()
	s.Errors = p.events.errors.Load()
	return s
}

// Keys is the number of keys, an estimate within a few per cent.
func (p *Partition) Keys() int64 { return p.keys.estimate() }

// Bytes is the size of the state's tables on disk, 0 once it is closed. It
// waits for nothing, as every answer asks for it: Stats waits for the disk
// while a flush, a compaction or a checkpoint has the manifest.
func (p *Partition) Bytes() int64 {
	if !p.gate.enter() {
		return 0
	}
	defer p.gate.leave()
	n, err := p.db.EstimateDiskUsage(leastKey, greatestKey)
	if err != nil { // the bounds alone can be wrong
		return 0
	}
	return int64(n)
}

// Stats returns the figures of all open partitions, by number.
func (d *Dir) Stats() []Stats {
	var stats []Stats
	for _, p := range d.opened() {
		if !p.isClosed() {
			stats = append(stats, p.Stats())
		}
	}
	return stats
}

// CacheBytes is the memory that cached blocks take; with the write buffers of
// the partitions it is what Options.Memory bounds.
func (d *Dir) CacheBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0
	}
	return d.shared.cache.Metrics().Size
}
