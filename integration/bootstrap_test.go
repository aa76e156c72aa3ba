//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
	source "tidemark/source/kafka"
)

// cuts are the partitions of which the group has a commit.
func (s *service) cuts(topic string) (cuts []int32) {
	s.t.Helper()
	client, err := source.Open(source.Config{Brokers: []string{s.brokers}, Topic: topic, GroupID: s.group, SecurityProtocol: "PLAINTEXT"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	commits, err := client.Committed(within(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(commits))
}

// bootstrap runs the verb on the service's configuration.
func (s *service) bootstrap() (code int, stdout, stderr string) {
	return command(s.t, "bootstrap", "--json", "-c", s.file)
}

// bootstrapped runs the verb, which must succeed with the number of documents.
func (s *service) bootstrapped(documents int) {
	s.t.Helper()
	code, out, errs := s.bootstrap()
	var done struct{ Seeded int }
	if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil || done.Seeded != documents {
		s.t.Fatalf("bootstrap: exit %d, %v, want %d documents\n%s%s", code, err, documents, out, errs)
	}
}

// historyFile writes documents to a file of the test's own.
func historyFile(t *testing.T, documents []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(path, []byte(strings.Join(documents, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fromFile is the section of a history in a file.
func fromFile(path, cut string) string {
	return fmt.Sprintf("history:\n  file: '%s'\n  cut: %s\n", path, cut)
}

// allCaughtUp waits until the members have, between them, folded all that is
// readable now, and are ready.
func allCaughtUp(t *testing.T, topic string, members ...*service) {
	t.Helper()
	ends := ends(t, topic)
	eventually(t, 2*time.Minute, "all caught up", func() error {
		at := map[int32]partition{}
		for _, s := range members {
			st, err := s.status()
			if err != nil {
				return err
			}
			if len(st.Members) != len(members) {
				return fmt.Errorf("%d members, want %d", len(st.Members), len(members))
			}
			owned := 0
			for _, m := range st.Members {
				owned += len(m.Partitions)
			}
			if owned != len(ends) {
				return fmt.Errorf("%d partitions have an owner, %d there are", owned, len(ends))
			}
			for _, p := range st.Partitions {
				at[p.Partition] = p
			}
		}
		for i, end := range ends {
			if p, ok := at[i]; !ok || p.State != "live" || p.Position < end {
				return fmt.Errorf("partition %d: %+v, want live at %d", i, p, end)
			}
		}
		return nil
	})
	for _, s := range members {
		s.ready()
	}
}

// inFolder keeps snapshots in a folder that members share.
func inFolder(t *testing.T) string {
	return fmt.Sprintf("snapshots: {url: 'file://%s', interval: 1s}\n", t.TempDir())
}

// later produces n sales of 0.01 to each of some partitions.
func later(t *testing.T, topic string, partitions []int32, n int) {
	t.Helper()
	for _, p := range partitions {
		values := make([]string, n)
		for user := range values {
			values[user] = fmt.Sprintf(`{"userId":%d,"totalRevenue":0.01,"totalPoints":1}`, user)
		}
		produce(t, topic, p, values...)
	}
}

var two, three, four = []int32{0, 1}, []int32{0, 1, 2}, []int32{0, 1, 2, 3}

// What bootstrap has published is what two members begin with that have never
// seen the history; another bootstrap changes nothing.
func TestBootstrapThenTwoMembers(t *testing.T) {
	const n = 20_000
	documents, cents := manyDocuments(0, n)
	file := historyFile(t, documents)
	topic := newTopic(t, 4)
	later(t, topic, four, 100) // before the cut: in the history already
	set := settings{group: unique(t, "group"), query: fmt.Sprintf(totalsQuery, topic), rest: fromFile(file, "{mode: latest}") + inFolder(t)}
	a, b := newService(t, set), newService(t, set)
	a.bootstrapped(n)
	if code, _, errs := b.bootstrap(); code != 1 || !strings.Contains(errs, "there are snapshots already of partitions 0 to 3") {
		t.Errorf("a second bootstrap: exit %d\n%s", code, errs)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	later(t, topic, four, 75)
	a.start()
	b.start()
	allCaughtUp(t, topic, a, b)
	wantSum(t, a, n, cents+300)
	wantSum(t, b, n, cents+300)
	if code, _, errs := a.bootstrap(); code != 1 || !strings.Contains(errs, "is held by process") {
		t.Errorf("a bootstrap on the state directory of one that runs: exit %d\n%s", code, errs)
	}
	a.kill()
	later(t, topic, four, 50)
	allCaughtUp(t, topic, b)
	wantSum(t, b, n, cents+500)
	b.stop()
}

// While the group has members the command refuses, and serve has loaded it.
func TestBootstrapBesideMembers(t *testing.T) {
	documents, cents := manyDocuments(0, 500)
	topic := newTopic(t, 2)
	set := settings{group: unique(t, "group"), query: fmt.Sprintf(totalsQuery, topic), rest: fromFile(historyFile(t, documents), "{mode: latest}")}
	s := serve(t, set)
	beside := newService(t, set) // with a state directory, and snapshots, of its own
	code, _, errs := beside.bootstrap()
	if code != 1 || !strings.Contains(errs, "names snapshot") && !strings.Contains(errs, "has members") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	wantSum(t, s, 500, cents)
	s.stop()
}

// kill -9 at random moments of the command and of serve's own load: the cuts
// stand, and each document is counted once. SOAK_SEED sets the moments.
func TestB12KillNineWhileTheHistoryLoads(t *testing.T) {
	const n = 10_000
	seed := uint64(fromEnv(t, "SOAK_SEED", 1))
	documents, cents := manyDocuments(0, n)
	file := historyFile(t, documents)
	for name, by := range map[string]func(s *service, rnd *rand.Rand) (kills int){
		"bootstrap": func(s *service, rnd *rand.Rand) (kills int) {
			for {
				var errs bytes.Buffer
				cmd := exec.Command(binary, "bootstrap", "-c", s.file)
				cmd.Stderr = &errs
				if err := cmd.Start(); err != nil {
					s.t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				select {
				case err := <-ended:
					// The one before may have been killed after all was done.
					if done := "there are snapshots already of partitions 0 to 3"; err != nil && (kills == 0 || !strings.Contains(errs.String(), done)) {
						s.t.Fatalf("bootstrap: %v\n%s", err, errs.String())
					}
					return kills
				case <-time.After(time.Duration(200+rnd.IntN(1500+1000*kills)) * time.Millisecond):
					cmd.Process.Kill()
					<-ended
					kills++
				}
			}
		},
		"serve": func(s *service, rnd *rand.Rand) (kills int) {
			for ; kills < 4; kills++ {
				s.start()
				pause(s.t, time.Duration(200+rnd.IntN(2500))*time.Millisecond)
				s.kill()
			}
			return kills
		},
		"both": func(s *service, rnd *rand.Rand) (kills int) {
			for ; kills < 3; kills++ {
				cmd := exec.Command(binary, "bootstrap", "-c", s.file)
				if err := cmd.Start(); err != nil {
					s.t.Fatal(err)
				}
				pause(s.t, time.Duration(500+rnd.IntN(1500))*time.Millisecond)
				cmd.Process.Kill()
				cmd.Wait()
			}
			return kills
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, uint64(len(name))))
			topic := newTopic(t, 4)
			later(t, topic, four, 25)
			s := newService(t, settings{
				query: fmt.Sprintf(totalsQuery, topic), rest: fromFile(file, "{mode: latest}"),
				kafka: "group.instance.id: " + unique(t, "member"),
			})
			// The cut is made at some moment of these runs, and not again.
			kills := by(s, rnd)
			cut := s.cuts(topic)
			later(t, topic, cut, 50)
			extra := int64(50 * len(cut))
			t.Logf("%d kills, the group has the cuts of %v", kills, cut)
			s.start()
			s.ready()
			s.caughtUp(topic)
			wantSum(t, s, n, cents+extra)
			st, err := s.status()
			if err != nil || st.History == nil || st.History.Documents != n || !st.History.Complete {
				t.Errorf("history in /v1/status: %+v %v", st.History, err)
			}
			if _, err := os.Stat(filepath.Join(s.dir, "seeds")); !os.IsNotExist(err) {
				t.Errorf("the seeds are still there: %v", err)
			}
			s.kill()
			s.start()
			s.ready()
			s.caughtUp(topic)
			wantSum(t, s, n, cents+extra)
			s.stop()
		})
	}
}

// A search server is read once: after the bootstrap it may be gone.
func bootstrapThenTheServerIsGone(t *testing.T, node *servers.Search) {
	const n = 3000
	index := indexName(t)
	documents, cents := manyDocuments(0, n)
	fill(t, node, index, twoShards, documents)
	target, err := url.Parse(node.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	defer proxy.Close()
	topic := newTopic(t, 3)
	set := settings{
		group: unique(t, "group"), query: fmt.Sprintf(totalsQuery, topic),
		rest: fromIndex(&servers.Search{URL: proxy.URL}, index, "", "{mode: latest}") + inFolder(t),
	}
	a, b := newService(t, set), newService(t, set)
	before := openContexts(t, node)
	code, out, errs := command(t, "bootstrap", "--dry-run", "--json", "-c", a.file)
	var found struct {
		Documents, Keys int
		Row             map[string]any
	}
	if err := decode([]byte(out), &found); code != 0 || err != nil || found.Documents != n || found.Keys != n {
		t.Fatalf("dry run: exit %d, %v\n%s%s", code, err, out, errs)
	}
	if got, want := text(found.Row["totalRevenue"]), trimmed(cents); got != want {
		t.Errorf("the dry run's revenue is %s, want %s", got, want)
	}
	if _, err := os.Stat(a.dir); !os.IsNotExist(err) {
		t.Errorf("the dry run made a state directory: %v", err)
	}
	a.bootstrapped(n)
	if open := openContexts(t, node); open > before {
		t.Errorf("%d snapshots are open on the server, %d were before", open, before)
	}
	proxy.Close()
	later(t, topic, three, 20)
	a.start()
	b.start()
	allCaughtUp(t, topic, a, b)
	wantSum(t, b, n, cents+60)
	a.stop()
	b.stop()
}

// trimmed writes hundredths as an answer does.
func trimmed(cents int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%02d", cents/100, cents%100), "0"), ".")
}

// killNineInBootstrap kills the command in the middle of reading an index; the
// next run loads all of it, with the cut of the first.
func killNineInBootstrap(t *testing.T, node *servers.Search) {
	const n = 2000
	index := indexName(t)
	documents, cents := manyDocuments(0, n)
	fill(t, node, index, twoShards, documents)
	topic := newTopic(t, 2)
	s := newService(t, settings{query: fmt.Sprintf(totalsQuery, topic), rest: fromIndex(node, index, slowly, "{mode: latest}")})
	cmd := exec.Command(binary, "bootstrap", "-c", s.file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	before := searches(t, node)
	eventually(t, time.Minute, "the command reads", func() error {
		if now := searches(t, node); now < before+50 {
			return fmt.Errorf("%d searches", now-before)
		}
		return nil
	})
	cmd.Process.Kill()
	if err := cmd.Wait(); err == nil {
		t.Fatal("it had ended")
	}
	if len(s.cuts(topic)) != 2 {
		t.Fatal("it reads, and the group has no cut")
	}
	later(t, topic, two, 5) // behind the cut
	s.bootstrapped(n)
	s.start()
	s.ready()
	s.caughtUp(topic)
	wantSum(t, s, n, cents+10)
	s.stop()
}

// searches are the queries, fetches and scrolls that the node has answered.
func searches(t *testing.T, node *servers.Search) (n int) {
	t.Helper()
	var stats struct {
		Nodes map[string]struct {
			Indices struct {
				Search struct {
					Query  int `json:"query_total"`
					Scroll int `json:"scroll_total"`
				}
			}
		}
	}
	if err := json.Unmarshal(call(t, http.MethodGet, node.URL+"/_nodes/stats/indices/search", "application/json", ""), &stats); err != nil {
		t.Fatal(err)
	}
	for _, node := range stats.Nodes {
		n += node.Indices.Search.Query + node.Indices.Search.Scroll
	}
	return n
}
