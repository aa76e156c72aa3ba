package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/aggregator"
	"tidemark/source/kafka"
)

const bootQuery = "query: SELECT userId, sum(totalRevenue) AS totalRevenue, count(*) AS sales, max(totalRevenue) AS best, collect_set(product) AS products FROM sales GROUP BY userId\n"

// bootConfig writes a configuration with a history of the documents, and more
// sections; it returns the file and the port that it listens at.
func bootConfig(t *testing.T, brokers string, documents []string, more string) (file, url string) {
	t.Helper()
	dir := t.TempDir()
	history := filepath.Join(dir, "history.ndjson")
	if err := os.WriteFile(history, []byte(strings.Join(documents, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file = writeConfig(t, bootQuery+fmt.Sprintf("kafka:\n  bootstrap.servers: [%q]\n  group.id: g\nhistory:\n  file: %q\n  cut: {mode: latest}\n%s", brokers, history, more)+
		fmt.Sprintf("state: {dir: %q, min_free: 1MiB, apply_interval: 50ms}\nhttp: {listen: %q}\nlog: {format: json}\n", filepath.Join(dir, "state"), l.Addr()))
	return file, "http://" + l.Addr().String()
}

// users are documents of n users, with a revenue of 0.10 each.
func users(n int) (documents []string) {
	for i := range n {
		documents = append(documents, fmt.Sprintf(`{"userId":%d,"totalRevenue":0.10,"sales":2,"best":0.%02d,"products":[%d]}`, i, i%10, i%3))
	}
	return documents
}

// TestBootstrapThenServe: serve begins with what bootstrap has published, and
// folds what came after the cut; the history is not read again.
func TestBootstrapThenServe(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "sales"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	brokers := broker.ListenAddrs()[0]
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("sales"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	sell := func(user int, revenue string) {
		value := fmt.Sprintf(`{"userId":%d,"totalRevenue":%s,"product":9}`, user, revenue)
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Key: []byte(fmt.Sprint(user)), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	sell(7, "1000") // before the cut
	file, url := bootConfig(t, brokers, users(40), "")
	status, stdout, stderr := tidemark(t, nil, "bootstrap", "-c", file, "--json")
	var done struct {
		Topic, Group      string
		Documents, Seeded int64
		Partitions        []loadedPart
	}
	if err := json.Unmarshal([]byte(stdout), &done); status != exitDone || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if done.Topic != "sales" || done.Group != "g" || done.Documents != 40 || done.Seeded != 40 || len(done.Partitions) != 3 {
		t.Errorf("it says %s", stdout)
	}
	status, stdout, stderr = tidemark(t, nil, "bootstrap", "-c", file)
	if status != exitFailed || stdout != "" || !strings.Contains(stderr, "there are snapshots already of partitions 0 to 2 of topic sales") {
		t.Errorf("a second time: status %d: %s%s", status, stdout, stderr)
	}
	if err := os.Remove(historyOf(t, file)); err != nil { // it is never read again
		t.Fatal(err)
	}
	sell(7, "0.01") // after the cut

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := newOutput(), newOutput()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"serve", "-c", file}, os.LookupEnv, out, errs) }()
	if err := within(t, 30*time.Second, func() error { return awaitReady(ctx, url) }); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	code, body := get(t, url+"/v1/aggregates/7")
	if want := `{"userId":7,"totalRevenue":0.11,"sales":3,"best":0.07,"products":[1,9]}`; code != http.StatusOK || !strings.Contains(body, want) {
		t.Errorf("user 7: %d %s, want %s", code, body, want)
	}
	if code, body := get(t, url+"/v1/status"); code != http.StatusOK || !strings.Contains(body, `"history":{"mode":"latest","documents":40,"complete":true}`) {
		t.Errorf("status: %d %s", code, body)
	}
	// While it has members the group takes nothing from outside.
	other, _ := bootConfig(t, brokers, users(40), "")
	if status, _, stderr := tidemark(t, nil, "bootstrap", "-c", other); status != exitFailed || !strings.Contains(stderr, "group.id") && !strings.Contains(stderr, "members") {
		t.Errorf("a bootstrap beside it: status %d, %s", status, stderr)
	}
	cancel()
	if status := <-ended; status != exitDone {
		t.Errorf("serve ended with %d: %s", status, errs)
	}
}

// within is what f returns, unless it takes longer.
func within(t *testing.T, limit time.Duration, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("not within %s", limit)
	}
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// historyOf is the history's file in a configuration of bootConfig.
func historyOf(t *testing.T, file string) string {
	t.Helper()
	_, rest, _ := strings.Cut(fileText(t, file), "file: \"")
	path, _, _ := strings.Cut(rest, "\"")
	return path
}

// TestBootstrapRefuses: one sentence that says what to do, and the status of
// its kind.
func TestBootstrapRefuses(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "sales"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	brokers := broker.ListenAddrs()[0]
	file, _ := bootConfig(t, brokers, users(5), "")
	missing, _ := bootConfig(t, brokers, users(5), "")
	if err := os.Remove(historyOf(t, missing)); err != nil {
		t.Fatal(err)
	}
	twice, _ := bootConfig(t, brokers, append(users(5), users(1)...), "")
	for name, c := range map[string]struct {
		file   string
		status int
		want   string
	}{
		"no history":               {writeConfig(t, bootQuery+"kafka: {bootstrap.servers: ['127.0.0.1:1'], group.id: g}\n"), exitUsage, "history.file"},
		"no topic":                 {writeConfig(t, strings.Replace(fileText(t, file), "FROM sales", "FROM nowhere", 1)), exitFailed, `topic "nowhere" does not exist`},
		"no file":                  {missing, exitFailed, "open the history"},
		"one key in two documents": {twice, exitFailed, `the key "0" is in two documents`},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := tidemark(t, nil, "bootstrap", "-c", c.file)
			last := stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]
			if status != c.status || stdout != "" || !strings.HasPrefix(last, "tidemark: ") || !strings.Contains(last, c.want) {
				t.Errorf("status %d: %s%s", status, stdout, stderr)
			}
		})
	}
	// Offsets of another program.
	client, err := kafka.Open(kafka.Config{Brokers: broker.ListenAddrs(), Topic: "sales", GroupID: "foreign", SecurityProtocol: "PLAINTEXT"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	refused, err := client.Commit(t.Context(), kafka.NoGeneration, "", map[int32]aggregator.Commit{1: {Offset: 5}})
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	foreign := writeConfig(t, strings.Replace(fileText(t, file), "group.id: g", "group.id: foreign", 1))
	status, _, stderr := tidemark(t, nil, "bootstrap", "-c", foreign)
	if status != exitFailed || !strings.Contains(stderr, "the group has committed offset 5, which Tidemark did not write") {
		t.Errorf("offsets of another program: status %d, %s", status, stderr)
	}
}

// TestServeMissesItsHistory: a file that is not there, or no history, is told
// before the group is joined.
func TestServeMissesItsHistory(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "sales"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	var joined atomic.Bool
	broker.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		joined.Store(true)
		return nil, nil, false
	})
	file, _ := bootConfig(t, broker.ListenAddrs()[0], users(5), "")
	path := historyOf(t, file)
	for want, make := range map[string]func() error{
		"no such file or directory": func() error { return nil },
		"it is a folder":            func() error { return os.Mkdir(path, 0o700) },
		"is a JSON array":           func() error { return os.WriteFile(path, []byte("[{}]"), 0o600) },
	} {
		if err := errors.Join(os.RemoveAll(path), make()); err != nil {
			t.Fatal(err)
		}
		status, _, stderr := tidemark(t, nil, "serve", "-c", file)
		if status != exitFailed || !strings.Contains(stderr, "tidemark: load the history: ") || !strings.Contains(stderr, want) {
			t.Errorf("status %d: %s, want %s", status, stderr, want)
		}
	}
	if joined.Load() {
		t.Error("the group was joined")
	}
}

// TestDryRun prints what the history comes to, needs no Kafka, and leaves
// nothing behind; it fails as the load itself would.
func TestDryRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	documents := append(users(2000), `{"userId":5000,"totalRevenue":"-0.05","best":7,"products":["x",[1]]}`, `{"userId":5001,"best":1,"products":[]}`)
	file, _ := bootConfig(t, "127.0.0.1:1", documents, "")
	status, stdout, stderr := tidemark(t, nil, "bootstrap", "--dry-run", "-c", file, "--json")
	var found struct {
		Documents, Keys int64
		Row             json.RawMessage
		Missing         map[string]int64
		Skipped         []skippedDocuments
	}
	if err := json.Unmarshal([]byte(stdout), &found); status != exitDone || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	row := new(bytes.Buffer)
	if err := json.Compact(row, found.Row); err != nil {
		t.Fatal(err)
	}
	if want := `{"totalRevenue":200,"sales":4000,"best":1,"products":[0,1,2]}`; found.Documents != 2002 || found.Keys != 2001 || row.String() != want {
		t.Errorf("%d documents, %d keys, %s, want 2002, 2001, %s", found.Documents, found.Keys, row, want)
	}
	if found.Missing["totalRevenue"] != 1 || len(found.Skipped) != 1 || found.Skipped[0].Reason != "wrong_type" || found.Skipped[0].Field != "products" {
		t.Errorf("missing %v, skipped %v", found.Missing, found.Skipped)
	}
	status, stdout, _ = tidemark(t, nil, "bootstrap", "--dry-run", "-c", file)
	for _, want := range []string{"documents  2002", "keys       2001", "skipped    1", "totalRevenue  200 ", "1 documents are skipped: wrong_type of products"} {
		if status != exitDone || !strings.Contains(stdout, want) {
			t.Errorf("status %d, and it does not print %q:\n%s", status, want, stdout)
		}
	}
	// Too much is missing: it says what there is, and fails.
	poor, _ := bootConfig(t, "127.0.0.1:1", append(users(10), documents[2001]), "")
	status, stdout, stderr = tidemark(t, nil, "bootstrap", "--dry-run", "-c", poor)
	if status != exitFailed || !strings.Contains(stdout, "documents  11") || !strings.Contains(stderr, "totalRevenue is missing or null in 1 of 11 documents") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	twice, _ := bootConfig(t, "127.0.0.1:1", append(users(10), users(1)...), "")
	if status, _, stderr := tidemark(t, nil, "bootstrap", "--dry-run", "-c", twice); status != exitFailed || !strings.Contains(stderr, "in two documents") {
		t.Errorf("status %d: %s", status, stderr)
	}
	for _, dir := range []string{os.Getenv("TMPDIR"), filepath.Join(filepath.Dir(historyOf(t, file)), "state")} {
		if left, err := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s holds %v (%v)", dir, left, err)
		}
	}
}
