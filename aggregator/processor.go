package aggregator

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

var (
	// ErrNotOwned: the partition is not this member's.
	ErrNotOwned = errors.New("partition is not owned by this member")
	// ErrClosing: the partition's store takes no reads: not yet, or no longer.
	ErrClosing = errors.New("partition is closed to reads")
	// ErrOtherDefinition: the state is of another definition.
	ErrOtherDefinition = errors.New("another definition")
)

// Parts are what a Processor works with. Letters and Observer may be nil.
type Parts struct {
	Program   *Program
	Log       Log
	States    States
	Seeder    Seeder
	Snapshots Snapshots
	Seeds     *Seeds // makes the first snapshots where there is a history
	Commits   Commits
	Letters   DeadLetter
	Observer  Observer
	Logger    *slog.Logger
}

// Tuning is how a Processor works. All fields are wanted.
type Tuning struct {
	Topic            string
	ApplyRecords     int           // folded in memory before one batch to disk
	ApplyInterval    time.Duration // or this long
	PendingBytes     int           // or until the totals of all partitions that wait for it take so much; top lists take half as much; 0 is no bound
	FlushInterval    time.Duration // between two times of making applies durable
	SnapshotInterval time.Duration // between two snapshots
	Keep             int           // snapshots of a partition that are kept
	AcceptGap        bool          // go on over records that retention removed
}

// Processor holds the tasks of the partitions of this member and answers reads
// from them. Its methods may be called from any goroutine.
type Processor struct {
	options   Tuning
	program   *Program
	source    Log
	states    States
	snapshots Snapshots
	commits   Commits
	letters   DeadLetter
	observer  Observer
	log       *slog.Logger
	seeder    Seeder
	seeds     *Seeds
	topic     *topicWatch
	badLog    *badLog

	scans   chan struct{} // a slot for each partition that is looked through at a time
	started chan struct{} // closed by Run
	failed  chan error    // the first error that ends the process

	mu       sync.Mutex
	ctx      context.Context // of the tasks; set by Run
	ended    bool            // no more tasks
	tasks    map[int32]*running
	sessions map[int32]*sessionCounts
}

// running is a task with its end.
type running struct {
	*task
	cancel context.CancelFunc
	done   chan struct{}
}

// NewProcessor returns a processor without partitions.
func NewProcessor(parts Parts, tuning Tuning) *Processor {
	return &Processor{
		options: tuning, program: parts.Program, source: parts.Log, states: parts.States, snapshots: parts.Snapshots,
		commits: parts.Commits, letters: parts.Letters, observer: parts.Observer, log: parts.Logger,
		seeder: parts.Seeder, seeds: parts.Seeds, topic: newTopicWatch(parts.Log),
		badLog: &badLog{log: parts.Logger, now: time.Now},
		// Folding keeps its pace: looking through keys takes half of the
		// processors, two at least, which the tasks outnumber.
		scans:   make(chan struct{}, max(2, runtime.GOMAXPROCS(0)/2)),
		started: make(chan struct{}), failed: make(chan error, 1),
		tasks: map[int32]*running{}, sessions: map[int32]*sessionCounts{},
	}
}

// Run lets tasks work until ctx ends or one of them fails. When it returns all
// tasks have applied what they could and their stores are closed.
func (p *Processor) Run(ctx context.Context) error {
	tasks, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	p.ctx = tasks
	p.mu.Unlock()
	close(p.started)

	looking := make(chan struct{})
	go func() { defer close(looking); p.look(tasks) }()
	settle := time.NewTicker(badMinute / 6)
	defer settle.Stop()
	var err error
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case err = <-p.failed:
			ended = true
		case <-settle.C:
			p.badLog.settle(false)
		}
	}
	cancel()
	p.mu.Lock()
	p.ended = true
	held := make([]*running, 0, len(p.tasks))
	for _, r := range p.tasks {
		held = append(held, r)
	}
	p.mu.Unlock()
	for _, r := range held {
		<-r.done
	}
	<-looking
	p.badLog.settle(true)
	select {
	case late := <-p.failed: // while closing
		if err == nil {
			err = late
		} else {
			p.log.Error("another partition failed too", "err", late)
		}
	default:
	}
	return err
}

// topicEvery is how often the topic is looked at while nothing is folded.
const topicEvery = 10 * time.Second

// look keeps Topic fresh until ctx ends.
func (p *Processor) look(ctx context.Context) {
	tick := time.NewTicker(topicEvery)
	defer tick.Stop()
	for {
		// What goes wrong here goes wrong for the tasks too, which say so.
		_, _ = p.topic.since(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Topic is the topic as it was last described, a short while ago; the zero
// value before that.
func (p *Processor) Topic() Topic { return p.topic.last() }

// Assign takes a partition that the group granted. It returns at once; a
// partition that is held already stays as it is.
func (p *Processor) Assign(partition int32) {
	<-p.started
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.tasks[partition] != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	r := &running{task: newTask(p, partition), cancel: cancel, done: make(chan struct{})}
	p.tasks[partition] = r
	go func() {
		defer close(r.done)
		defer cancel()
		if err := r.run(ctx); err != nil {
			select {
			case p.failed <- err:
			default: // another one ends the process already
			}
		}
	}()
}

// Revoke lets a partition go: what was folded is applied and published, and its
// store is closed on return.
func (p *Processor) Revoke(ctx context.Context, partition int32) {
	p.mu.Lock()
	r := p.tasks[partition]
	p.mu.Unlock()
	if r == nil {
		return
	}
	r.cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
		p.log.Warn("partition was revoked before its task could end", "partition", partition)
		<-r.done
	}
	p.mu.Lock()
	delete(p.tasks, partition)
	p.mu.Unlock()
}

// minShares is the least number of partitions that the memory for pending
// totals is divided by.
const minShares = 4

// pendingShare is how many bytes of totals one partition folds before an apply:
// while those are applied, as many may gather anew.
func (p *Processor) pendingShare() int {
	if p.options.PendingBytes == 0 {
		return math.MaxInt
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.options.PendingBytes / (2 * max(len(p.tasks), minShares))
}

// rankRoom says whether there is memory for the rankings of all partitions, with
// those that are being made: half of PendingBytes.
func (p *Processor) rankRoom() bool {
	if p.options.PendingBytes == 0 {
		return true
	}
	bytes := int64(0)
	for _, t := range p.held() {
		bytes += t.totals.ranksTake()
	}
	return bytes <= int64(p.options.PendingBytes)/2
}

// sessionCounts are kept for the life of the process.
func (p *Processor) sessionCounts(partition int32) *sessionCounts {
	s := p.sessions[partition]
	if s == nil {
		s = &sessionCounts{}
		p.sessions[partition] = s
	}
	return s
}

// find returns the task of a partition.
func (p *Processor) find(partition int32) (*task, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.tasks[partition]; r != nil {
		return r.task, nil
	}
	return nil, ErrNotOwned
}

// BadSamples lists the last few bad records of each reason that this process
// has seen, newest first.
func (p *Processor) BadSamples() []BadSample { return p.badLog.newest() }

// held are the tasks of this member's partitions, by number.
func (p *Processor) held() []*task {
	p.mu.Lock()
	tasks := make([]*task, 0, len(p.tasks))
	for _, r := range p.tasks {
		tasks = append(tasks, r.task)
	}
	p.mu.Unlock()
	slices.SortFunc(tasks, func(a, b *task) int { return int(a.partition) - int(b.partition) })
	return tasks
}

// Standings lists how this member's partitions stand, by number.
func (p *Processor) Standings() []Standing {
	tasks := p.held()
	standings := make([]Standing, len(tasks))
	for i, t := range tasks {
		standings[i] = t.stands()
	}
	return standings
}

// Status lists this member's partitions, by number. It asks the store of each
// for its size, which takes some microseconds.
func (p *Processor) Status() []PartitionStatus {
	tasks := p.held()
	status := make([]PartitionStatus, len(tasks))
	for i, t := range tasks {
		status[i] = t.status()
	}
	return status
}

// PublishSnapshots publishes what is new now of every partition of this member,
// and returns the newest snapshot of each that has one.
func (p *Processor) PublishSnapshots(ctx context.Context) ([]Snapshot, error) {
	tasks := p.held()
	newest, errs := make([]*Snapshot, len(tasks)), make([]error, len(tasks))
	var all sync.WaitGroup
	for i, t := range tasks {
		all.Go(func() { newest[i], errs[i] = t.publishNow(ctx) })
	}
	all.Wait()
	var list []Snapshot
	for _, s := range newest {
		if s != nil {
			list = append(list, *s)
		}
	}
	return list, errors.Join(errs...)
}

// Get reads one key from one partition: store and pending deltas together. It
// returns ErrNotOwned, or an error of the store; a partition that does not
// answer (yet) says so in the Reading.
func (p *Processor) Get(ctx context.Context, partition int32, key []byte) (Reading, error) {
	t, err := p.find(partition)
	if err != nil {
		return Reading{}, err
	}
	var r Reading
	r.State, r.Reason, r.Answers = t.standing()
	r.Parts, r.Position, err = t.totals.get(key)
	if errors.Is(err, ErrClosing) {
		r.Answers, err = false, nil
	}
	return r, err
}

// Scan reads the first limit keys >= from that begin with prefix, of which
// either may be empty. Errors are as with Get.
func (p *Processor) Scan(ctx context.Context, partition int32, from, prefix []byte, limit int) (Page, error) {
	t, err := p.find(partition)
	if err != nil {
		return Page{}, err
	}
	var page Page
	page.State, page.Reason, page.Answers = t.standing()
	page.Entries, page.More, page.Position, err = t.totals.scan(from, prefix, limit)
	if errors.Is(err, ErrClosing) {
		page.Answers, err = false, nil
	}
	return page, err
}

// First reads the first limit rows of an order. The first time it looks
// through all keys; from then on, as long as it is asked again within a
// minute, it knows them. Errors are as with Get, and ctx's.
func (p *Processor) First(ctx context.Context, partition int32, o Order, limit int) (Page, error) {
	t, err := p.find(partition)
	if err != nil {
		return Page{}, err
	}
	var page Page
	page.State, page.Reason, page.Answers = t.standing()
	rows, position, err := t.totals.first(ctx, o, limit, p.scans)
	if errors.Is(err, ErrClosing) {
		page.Answers, err = false, nil
	}
	page.Position = position
	for i := range rows {
		page.Entries = append(page.Entries, Entry{rows[i].Key, rows[i].Of})
	}
	return page, err
}

// Changed returns a channel that is closed after the next fold, or change of
// state, of the partition; nil where it is not held.
func (p *Processor) Changed(partition int32) <-chan struct{} {
	t, err := p.find(partition)
	if err != nil {
		return nil
	}
	return t.totals.watch()
}
