//go:build integration

package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/internal/testkit/servers"
)

const soakSession = 6 * time.Second

// soak is a cluster of brokers and a group of members that share snapshots,
// under a load, with trouble.
type soak struct {
	t       *testing.T
	rnd     *rand.Rand
	cluster *servers.Cluster
	members []*service
	done    map[string]int // what was done, by kind

	mu    sync.Mutex
	lives map[string]map[string]float64 // metrics, by life of a member
	life  []int                         // of each member
}

// metrics that are summed up over all lives.
var soakMetrics = []string{"tidemark_restore_seconds_count", "tidemark_snapshot_seconds_count", "tidemark_fenced_total",
	"tidemark_rebalances_total", "tidemark_commits_total"}

// scrape notes the metrics of all members now and then: what a member counted
// after the last time goes with it.
func (s *soak) scrape(ctx context.Context) {
	tick := time.NewTicker(400 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Timeout: time.Second}
	for {
		for i, m := range s.members {
			s.mu.Lock()
			life := fmt.Sprint(i, "/", s.life[i])
			s.mu.Unlock()
			s.read(ctx, client, life, m.url)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *soak) read(ctx context.Context, client *http.Client, life, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return // it is down
	}
	defer resp.Body.Close()
	sums := map[string]float64{}
	for line := range metricLines(resp.Body) {
		if slices.Contains(soakMetrics, line.base) {
			sums[line.base] += line.value
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives[life] == nil {
		s.lives[life] = map[string]float64{}
	}
	for name, v := range sums {
		s.lives[life][name] = max(s.lives[life][name], v)
	}
}

// action is a kind of trouble for a member that is up; the member is up, or
// said to be down, when it returns.
type action struct {
	name string
	do   func(s *soak, i int)
}

var actions = []action{
	{"kill -9", func(s *soak, i int) { s.members[i].kill(); s.rest(0, 2000); s.up(i) }},
	{"kill -9, disk lost", func(s *soak, i int) { s.members[i].kill(); s.lose(i); s.rest(0, 2000); s.up(i) }},
	{"kill -9 while it starts", func(s *soak, i int) {
		s.members[i].kill()
		s.up(i)
		s.rest(0, 1500)
		s.members[i].kill()
		s.up(i)
	}},
	{"SIGTERM", func(s *soak, i int) { s.members[i].stop(); s.up(i) }},
	{"SIGTERM, disk lost", func(s *soak, i int) { s.members[i].stop(); s.lose(i); s.up(i) }},
	{"leaves for a while", func(s *soak, i int) { s.members[i].stop(); s.rest(2000, 5000); s.up(i) }},
	{"SIGSTOP, short", func(s *soak, i int) { s.stopped(i, time.Duration(300+s.rnd.IntN(3000))*time.Millisecond) }},
	{"SIGSTOP, beyond the session", func(s *soak, i int) { s.stopped(i, soakSession+time.Duration(1500+s.rnd.IntN(3000))*time.Millisecond) }},
	{"broker kill -9", func(s *soak, _ int) { s.breakOne() }},
}

func (s *soak) up(i int) {
	s.mu.Lock()
	s.life[i]++
	s.mu.Unlock()
	s.members[i].start()
}

func (s *soak) lose(i int) {
	if err := os.RemoveAll(s.members[i].dir); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) stopped(i int, d time.Duration) {
	s.members[i].signal(syscall.SIGSTOP)
	pause(s.t, d)
	s.members[i].signal(syscall.SIGCONT)
}

// breakOne kills a broker, and starts it again after a while; one at a time.
func (s *soak) breakOne() {
	i := s.rnd.IntN(len(s.cluster.Nodes))
	s.cluster.Nodes[i].Kill()
	s.rest(2000, 6000)
	if err := s.cluster.Nodes[i].Restart(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) rest(from, to int) {
	pause(s.t, time.Duration(from+s.rnd.IntN(to-from))*time.Millisecond)
}

// trouble makes trouble until the time is over: the kinds in a random order,
// all of them before one comes again.
func (s *soak) trouble(d time.Duration) {
	over := time.Now().Add(d)
	var deck []action
	for time.Now().Before(over) {
		if len(deck) == 0 {
			deck = slices.Clone(actions)
			s.rnd.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		a := deck[0]
		deck = deck[1:]
		i := s.rnd.IntN(len(s.members))
		s.living()
		if strings.Contains(a.name, "SIGTERM") || strings.Contains(a.name, "leaves") {
			s.members[i].alive() // from then on a signal has its meaning
		}
		s.t.Logf("%s  %s: member %d", time.Now().UTC().Format("15:04:05.000"), a.name, i)
		a.do(s, i)
		s.done[a.name]++
		s.rest(300, 3000)
	}
}

// living fails for members that ended by themselves.
func (s *soak) living() {
	s.t.Helper()
	for i, m := range s.members {
		if !m.running() {
			s.t.Errorf("member %d has ended by itself: %s\n%s", i, m.cmd.ProcessState, m.tail())
			s.up(i)
		}
	}
}

// settled waits until each partition is live at one member, at its end.
func (s *soak) settled(ends map[int32]int64) {
	s.t.Helper()
	eventually(s.t, 120*time.Second, "all members settled", func() error {
		s.living()
		at := map[int32]int64{}
		for _, m := range s.members {
			st, err := m.status()
			if err != nil {
				return err
			}
			for _, p := range st.Partitions {
				if _, twice := at[p.Partition]; twice || p.State != "live" {
					return fmt.Errorf("%s has partition %+v", m.url, p)
				}
				at[p.Partition] = p.Position
			}
			if code, body, err := m.get("/readyz"); err != nil || code != http.StatusOK {
				return fmt.Errorf("%s: %d %s %v", m.url, code, body, err) //nolint:errorlint // it may be nil
			}
		}
		for p, end := range ends {
			if at[p] != end {
				return fmt.Errorf("positions are %v, want %v", at, ends)
			}
		}
		return nil
	})
}

// handOvers reads the members' logs: how often a partition was claimed by
// another member than before, and by the same.
func (s *soak) handOvers() (handed, again int) {
	type claim struct {
		at        time.Time
		member    int
		partition int32
	}
	var claims []claim
	for i, m := range s.members {
		text, err := os.ReadFile(m.log)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var entry struct {
				Time      time.Time
				Msg       string
				Partition int32
			}
			if strings.Contains(line, "partition is claimed") && json.Unmarshal([]byte(line), &entry) == nil {
				claims = append(claims, claim{entry.Time, i, entry.Partition})
			}
		}
	}
	slices.SortFunc(claims, func(a, b claim) int { return a.at.Compare(b.at) })
	owner := map[int32]int{}
	for _, c := range claims {
		if was, ok := owner[c.partition]; ok && was == c.member {
			again++
		} else if ok {
			handed++
		}
		owner[c.partition] = c.member
	}
	return handed, again
}

func duration(t testing.TB, name string, fallback time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s is %q, want a duration such as 1h", name, text)
	}
	return d
}

// Three members share snapshots on three brokers, under a steady load with
// transactions, while members are killed, stopped, frozen, lose their disks,
// leave and join, and brokers are killed, one thing after the other by a seed.
// All the time rows, batches, listings and top lists are asked for through any
// member: none goes back, lacks a key that is there, or differs from what the
// topic says at its positions. At the end all is exact, through every member.
//
// `make soak` does so for an hour: SOAK_DURATION, SOAK_SEED, SOAK_RATE.
func TestSoak(t *testing.T) {
	length, seed, rate := duration(t, "SOAK_DURATION", 40*time.Second), uint64(fromEnv(t, "SOAK_SEED", 1)), fromEnv(t, "SOAK_RATE", 200)
	const users, partitions = 300, 6
	cluster := servers.NewCluster(t, 3)
	connect := func(opts ...kgo.Opt) *kgo.Client {
		return kafka(t, append(opts, smallBatches, kgo.SeedBrokers(strings.Split(cluster.Addresses(), ",")...))...)
	}
	topic := unique(t, "sales")
	createTopic(t, connect(), topic, partitions)

	o := newOracle(seed, users)
	home := t.TempDir()
	file := filepath.Join(home, "history.ndjson")
	if err := os.WriteFile(file, []byte(o.history(users)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, rnd: rand.New(rand.NewPCG(seed, 5)), cluster: cluster, done: map[string]int{}, lives: map[string]map[string]float64{}, life: make([]int, 3)}
	tr, l := newTruth(o), &ledger{}
	a := &asker{t: t, truth: tr, ledger: l, users: users, client: &http.Client{Timeout: 12 * time.Second}, floor: map[int]int64{}, answers: map[string]int{}}
	shared, group := sharedSnapshots(t, "700ms"), unique(t, "group")
	for range 3 {
		m := newService(t, settings{
			brokers: cluster.Addresses(), group: group, query: salesQuery(topic), rest: shared + "\n" + history(file),
			kafka: fmt.Sprintf("session.timeout.ms: %d", soakSession.Milliseconds()), state: "memory: 16MiB",
		})
		s.members = append(s.members, m)
		a.urls = append(a.urls, m.url)
		m.start()
	}
	for _, m := range s.members {
		m.ready()
	}
	for user, total := range o.totals { // from here on nobody may say that they are not there
		a.floor[user] = total.sales
	}

	ctx, cancel := context.WithCancel(t.Context())
	var reading, loading, asking sync.WaitGroup
	reader := connect(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer reading.Wait()
	defer cancel()
	reading.Go(func() { tr.read(ctx, t, reader) })
	reading.Go(func() { s.scrape(ctx) })
	loads, stopLoads := context.WithCancel(ctx)
	defer stopLoads()
	loading.Go(func() { l.produceSteadily(loads, t, connect(), newOracle(seed+1, users), topic, rate) })
	loading.Go(func() {
		l.produceInTransactions(loads, t, func() *kgo.Client {
			return connect(kgo.TransactionalID("soak-"+topic), kgo.TransactionTimeout(20*time.Second))
		}, newOracle(seed+2, users), topic)
	})
	asks, stopAsks := context.WithCancel(ctx)
	defer stopAsks()
	for i := range 3 {
		asking.Go(func() { a.run(asks, rand.New(rand.NewPCG(seed, uint64(10+i)))) })
	}
	asking.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for asks.Err() == nil {
			a.compare()
			select {
			case <-tick.C:
			case <-asks.Done():
			}
		}
	})

	began := time.Now()
	s.trouble(length)
	stopLoads()
	loading.Wait()
	ends := endsBy(t, connect(), topic)
	eventually(t, 60*time.Second, "the whole topic read", func() error {
		if tr.reached(ends) {
			return nil
		}
		return fmt.Errorf("not up to %v", ends)
	})
	s.settled(ends)
	stopAsks()
	asking.Wait()
	if n := a.compare(); n > 0 {
		a.differs("%d answers are at positions beyond the end of the topic, %v", n, ends)
	}
	for _, m := range s.members {
		o.checkRows(t, m)
	}
	o.checkCounts(t, s.members...)
	l.check(t, tr)
	took := time.Since(began)
	cancel()
	reading.Wait()
	s.report(took, seed, a, l, o)
	for _, m := range s.members {
		m.stop()
	}
}

// report prints what was done, and what came of it.
func (s *soak) report(took time.Duration, seed uint64, a *asker, l *ledger, o *oracle) {
	var out strings.Builder
	fmt.Fprintf(&out, "soak of %s, seed %d: %d records acknowledged, %d aborted, %d in doubt, %d folded\n",
		took.Round(time.Second), seed, len(l.there), len(l.aborted), l.unknown, o.folded)
	var kinds []string
	for kind := range s.done {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, cmp.Compare[string])
	for _, kind := range kinds {
		fmt.Fprintf(&out, "  %-28s %d\n", kind, s.done[kind])
	}
	for _, name := range soakMetrics {
		sum := 0.0
		for _, life := range s.lives {
			sum += life[name]
		}
		fmt.Fprintf(&out, "  %-28s %.0f\n", strings.TrimSuffix(strings.TrimPrefix(name, "tidemark_"), "_seconds_count"), sum)
	}
	handed, again := s.handOvers()
	fmt.Fprintf(&out, "  %-28s %d, taken again %d\n", "hand-overs", handed, again)
	fmt.Fprintf(&out, "  %-28s %d%s", "differences", a.differences, a.report())
	s.t.Log(out.String())
}
