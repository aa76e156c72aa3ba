package aggregator

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
)

// totals are what one partition knows at this moment: the store, the delta
// that is being folded, and the delta that is being applied. Readers see all
// three as one, at the position up to which records were folded.
//
// One goroutine folds (update), one applies (freeze, thaw); any number read.
// mu is held for short stretches only: never during a read of the store.
type totals struct {
	program *Program

	mu       sync.RWMutex // a read waits for one slice of folding at most: who waits for RLock gets it next
	room     sync.Cond    // active may take more: see waitRoom
	stopped  bool         // no room until this is lifted
	store    Store        // nil before it is open and after it is closed
	progress Progress     // of the store
	active   *Delta       // [First, Next): being folded
	frozen   *Delta       // being applied, nil where none is
	spare    *Delta       // the next active, once it is emptied
	changed  chan struct{}

	reach    reach
	rankings map[Order]*ranking // of the store, at progress
	draft    *draft             // a ranking that is being made of store
	through  chan struct{}      // a slot for who looks through all keys
	closed   chan struct{}      // closed once store is wanted closed
	rankRoom func() bool        // whether there is memory for it; nil is yes

	readers sync.WaitGroup // reads of store under way; added under mu
	total   sync.Pool      // *Total
}

func newTotals(p *Program) *totals {
	t := &totals{program: p, reach: defaultReach, through: make(chan struct{}, 1)}
	t.room.L = &t.mu
	t.total.New = func() any { return p.NewTotal() }
	return t
}

// open begins at the store's position, under the epoch of this ownership.
func (t *totals) open(s Store, epoch int64) {
	id := s.Identity()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store = s
	t.progress = s.Progress()
	t.progress.Epoch = max(t.progress.Epoch, epoch)
	t.closed = make(chan struct{})
	t.frozen, t.rankings = nil, nil
	t.stopped = false
	t.active = t.program.NewDelta(id.Partition, id.Partitions)
	t.spare = t.program.NewDelta(id.Partition, id.Partitions)
	t.active.Reset(t.progress.Position)
}

// show makes the progress of a state that is not opened seen in the summary.
func (t *totals) show(p Progress) {
	t.mu.Lock()
	t.progress = p
	t.mu.Unlock()
}

// close ends reading: later reads get ErrClosing, those under way are waited
// for. The caller closes the store it gets back, nil where none was open.
func (t *totals) close() Store {
	t.mu.Lock()
	s := t.store
	if s != nil {
		close(t.closed)
	}
	t.store, t.rankings = nil, nil
	t.touch()
	t.mu.Unlock()
	t.readers.Wait()
	return s
}

// closing says whether close has begun, or nothing is open.
func (t *totals) closing() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.store == nil
}

// position is the next offset to fold; 0 before open.
func (t *totals) position() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.active == nil {
		return 0
	}
	return t.active.Next
}

// caughtUp tells the store that the log's end is reached.
func (t *totals) caughtUp() {
	t.letGo()
	t.mu.RLock()
	store := t.store
	t.mu.RUnlock()
	if store != nil {
		store.CatchUp(false)
	}
}

// letGo drops the memory of deltas that hold nothing: once the log's end is reached
// applies are rare. While one is under way no delta is spare, so it comes behind
// that, too.
func (t *totals) letGo() {
	t.mu.RLock()
	spare, table := t.spare, 0
	if spare != nil {
		table = spare.nextTable()
	}
	t.mu.RUnlock()
	if spare == nil {
		return
	}
	next := spare.successor(table) // before readers are held up
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spare == spare {
		t.spare = next
	}
	if d := t.active; d.First == d.Next && len(t.rankings) == 0 { // rankings go by what it has noted
		t.active = t.emptied(d.successor(d.nextTable()), d.Next)
	}
}

// gathered is how many records were folded since the last freeze.
func (t *totals) gathered() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.active.Counts.Consumed()
}

// summary is the progress of store and deltas together.
func (t *totals) summary() Progress {
	t.mu.RLock()
	defer t.mu.RUnlock()
	sum := t.progress
	for _, d := range []*Delta{t.frozen, t.active} {
		if d != nil {
			sum = sum.after(d)
		}
	}
	return sum
}

// hold is the part of summary that a read goes by, and whether anything is in
// store and deltas.
func (t *totals) hold() (position int64, placement Placement, anything bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p := &t.progress
	position, placement, anything = p.Position, p.Placement, p.Documents > 0 || p.Counts.Results[Folded] > 0
	for _, d := range [...]*Delta{t.frozen, t.active} {
		if d != nil {
			position, placement, anything = d.Next, placement&d.Placement, anything || d.Counts.Results[Folded] > 0
		}
	}
	return position, placement, anything
}

// size is how many keys the store has, about, and what they take on disk.
func (t *totals) size() (keys, bytes int64) {
	t.mu.RLock()
	store := t.store
	if store != nil {
		t.readers.Add(1)
		defer t.readers.Done()
	}
	t.mu.RUnlock()
	if store == nil {
		return 0, 0
	}
	return store.Keys(), store.Bytes()
}

// after is the progress once d is applied.
func (p Progress) after(d *Delta) Progress {
	p.Position = d.Next
	p.Counts.Add(d.Counts)
	p.Placement &= d.Placement
	return p
}

// discard forgets what was folded and not applied.
func (t *totals) discard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen != nil {
		t.spare, t.frozen = t.frozen, nil
	}
	if t.active != nil {
		t.active = t.emptied(t.active, t.progress.Position)
	}
	t.touch()
}

// touch wakes those who wait on watch. The caller holds mu.
func (t *totals) touch() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// wake wakes watchers and the folding goroutine.
func (t *totals) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.touch()
	t.room.Broadcast()
}

// watch returns a channel that is closed at the next change.
func (t *totals) watch() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// stop takes or gives the room to fold.
func (t *totals) stop(stopped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = stopped
	t.room.Broadcast()
}

// waitRoom waits until the active delta may take more: folding is not stopped,
// and the delta holds fewer than limit records, in less than share bytes, or
// none is being applied and none is wanted to be. Who wants one wants it until
// it begins, with freeze.
func (t *totals) waitRoom(ctx context.Context, limit int64, share int, wanted func() bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ctx.Err() == nil && (t.stopped || (t.frozen != nil || wanted()) && t.active.fills(limit, share)) {
		t.room.Wait()
	}
	return ctx.Err()
}

// freeze sets the active delta aside for applying and returns it with the
// progress to apply; nil where nothing was folded since the last. A delta that
// is frozen already comes back again. The goroutine that applies calls it.
func (t *totals) freeze() (*Delta, Progress) {
	frozen, next, behind := t.setAside()
	for _, r := range behind {
		t.raiseCeilings(r, frozen)
	}
	return frozen, next
}

// setAside is freeze under mu: the rankings are still behind the frozen delta.
func (t *totals) setAside() (frozen *Delta, next Progress, behind []*ranking) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room.Broadcast()
	if t.frozen == nil {
		if t.active.First == t.active.Next {
			return nil, t.progress, nil
		}
		t.frozen, t.active, t.spare = t.active, t.emptied(t.spare, t.active.Next), nil
		behind = t.froze(t.frozen)
	}
	return t.frozen, t.progress.after(t.frozen), behind
}

// thaw drops the frozen delta: the store holds it now.
func (t *totals) thaw(applied Progress) {
	t.carry(func() {
		t.progress = applied
		t.spare, t.frozen = t.frozen, nil
		t.room.Broadcast()
	})
}

// moved begins anew at a position that the store was given without a delta.
// Nothing is frozen or folded.
func (t *totals) moved(applied Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress = applied
	t.active = t.emptied(t.active, applied.Position)
	t.touch()
}

// emptied is a delta without records to fold into, another one where d is still
// read. The caller holds mu.
func (t *totals) emptied(d *Delta, first int64) *Delta {
	if d.pinned() {
		d = d.successor(d.nextTable())
	}
	d.Reset(first)
	if len(t.rankings) == 0 {
		d.note(0)
	}
	for _, r := range t.rankings {
		d.note(t.reach.changes)
		r.anew(t.reach.carry)
	}
	return d
}

// sight is what a read takes under mu before it goes to the store: what the
// deltas hold of the keys it asks for, and where they begin.
type sight struct {
	store    Store
	frozen   bool
	first    [2]int64 // of frozen and active
	position int64
}

// look begins a read; ok is false where the store is closed. Each look that
// was ok needs a done.
func (t *totals) look(take func(frozen, active *Delta)) (s sight, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.store == nil {
		return s, false
	}
	t.readers.Add(1)
	s = sight{store: t.store, position: t.active.Next}
	s.first[1] = t.active.First
	if t.frozen != nil {
		s.frozen = true
		s.first[0] = t.frozen.First
	}
	take(t.frozen, t.active)
	return s, true
}

func (t *totals) done() { t.readers.Done() }

// get reads one key: the parts of its total, empty where there is none, and the
// position that they hold everything before.
func (t *totals) get(key []byte) (parts []byte, position int64, err error) {
	for {
		parts, position, ok, err := t.tryGet(key)
		if ok || err != nil {
			return parts, position, err
		}
	}
}

// tryGet is one try of get; ok is false where an apply came between.
func (t *totals) tryGet(key []byte) (parts []byte, position int64, ok bool, err error) {
	freezing := 0 // of the parts
	s, open := t.look(func(frozen, active *Delta) {
		if frozen != nil {
			parts, _ = frozen.Get(nil, key)
			freezing = len(parts)
		}
		parts, _ = active.Get(parts, key)
	})
	if !open {
		return nil, 0, false, ErrClosing
	}
	defer t.done()
	v, applied, err := s.view()
	if v == nil {
		return nil, 0, false, err
	}
	defer v.Close()
	if applied {
		parts = parts[freezing:]
	}
	parts, _, err = v.Get(parts, key)
	return parts, s.position, true, err
}

// view opens a view of the store for s, and says whether it holds the frozen
// delta already. The view is nil where there is an error, or where it is past
// both deltas: then the read must look again.
func (s sight) view() (v View, applied bool, err error) {
	if v, err = s.store.View(); err != nil {
		return nil, false, err
	}
	at, err := v.Position()
	switch {
	case err == nil && at == s.first[1]:
		return v, true, nil
	case err == nil && s.frozen && at == s.first[0]:
		return v, false, nil
	}
	return nil, false, errors.Join(err, v.Close())
}

// merge adds encoded totals, of which any may be empty; nil where all are.
func (t *totals) merge(encoded ...[]byte) ([]byte, error) {
	sum := t.total.Get().(*Total)
	defer t.total.Put(sum)
	return sum.Sum(encoded...)
}

// scan reads the first limit keys that are >= from and begin with prefix.
func (t *totals) scan(from, prefix []byte, limit int) (entries []Entry, more bool, position int64, err error) {
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	for {
		entries, position, ok, err := t.tryScan(from, prefix, limit+1)
		if err != nil {
			return nil, false, 0, err
		}
		if ok {
			more = len(entries) > limit
			return entries[:min(limit, len(entries))], more, position, nil
		}
	}
}

// tryScan is one try of scan; ok is false where an apply came between.
func (t *totals) tryScan(from, prefix []byte, limit int) (entries []Entry, position int64, ok bool, err error) {
	t.extend()
	var pending [2][]Entry
	s, open := t.look(func(frozen, active *Delta) {
		if frozen != nil {
			pending[0] = collect(frozen.Smallest(from, limit), prefix)
		}
		pending[1] = collect(active.Smallest(from, limit), prefix)
	})
	if !open {
		return nil, 0, false, ErrClosing
	}
	defer t.done()
	v, applied, err := s.view()
	if v == nil {
		return nil, 0, false, err
	}
	defer v.Close()
	if applied {
		pending[0] = nil
	}
	g := gathering{limit: limit, pending: pending, entries: make([]Entry, 0, min(limit, pageRoom))}
	for key, total := range v.Scan(from) {
		if !bytes.HasPrefix(key, prefix) {
			break
		}
		if g.add(key, total); len(g.entries) == limit {
			break
		}
	}
	if err = v.Err(); err != nil {
		return nil, 0, false, err
	}
	g.add(nil, nil)
	return g.entries, s.position, true, nil
}

// pageRoom is how many entries a page has room for at first.
const pageRoom = 256

// gathering merges the store's keys with those that wait, in key order.
type gathering struct {
	limit   int
	pending [2][]Entry // of the frozen and the active delta, that are not in yet
	entries []Entry
	arena
}

// add adds the keys that wait up to the store's next key, and that; nil is behind
// them all. It adds none above the limit.
func (g *gathering) add(key, total []byte) {
	for len(g.entries) < g.limit {
		least := key
		for _, p := range g.pending {
			if len(p) > 0 && (least == nil || bytes.Compare(p[0].Key, least) < 0) {
				least = p[0].Key
			}
		}
		if least == nil {
			return
		}
		e := Entry{Key: g.copy(least)}
		n := len(g.arena)
		stored := key != nil && bytes.Equal(key, least)
		if stored {
			g.arena = append(g.arena, total...)
		}
		for i, p := range g.pending {
			if len(p) > 0 && bytes.Equal(p[0].Key, least) {
				g.arena = append(g.arena, p[0].Parts...)
				g.pending[i] = p[1:]
			}
		}
		e.Parts = g.arena[n:len(g.arena):len(g.arena)]
		g.entries = append(g.entries, e)
		if stored {
			return
		}
	}
}

// arena is room for the bytes of many entries: what they have stays where it is
// when it grows.
type arena []byte

// copy keeps b.
func (a *arena) copy(b []byte) []byte {
	n := len(*a)
	*a = append(*a, b...)
	return (*a)[n:len(*a):len(*a)]
}

// extend brings the indexes of the deltas up to date, for the look that follows.
func (t *totals) extend() {
	t.mu.RLock()
	deltas := [...]*Delta{t.frozen, t.active}
	for _, d := range deltas {
		if d != nil {
			d.pin()
		}
	}
	t.mu.RUnlock()
	for _, d := range deltas {
		if d != nil {
			d.extend(t.mu.RLocker())
			d.unpin()
		}
	}
}

// collect copies entries that begin with prefix.
func collect(from iter.Seq2[[]byte, []byte], prefix []byte) (entries []Entry) {
	var a arena
	for key, total := range from {
		if !bytes.HasPrefix(key, prefix) {
			break
		}
		entries = append(entries, Entry{a.copy(key), a.copy(total)})
	}
	return entries
}
