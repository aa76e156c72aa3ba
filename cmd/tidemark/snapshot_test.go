package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidemark/aggregator"
	"tidemark/config"
	"tidemark/snapshot"
	"tidemark/store"
)

const archiveQuery = "SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId"

// shop is a configuration with a store of snapshots, and states to publish.
type shop struct {
	t     *testing.T
	file  string // the configuration
	cfg   *config.Config
	store *snapshot.Store
}

// newShop configures a state directory and snapshots at rawURL; "" is the
// folder in the state directory.
func newShop(t *testing.T, rawURL, brokers string) *shop {
	t.Helper()
	s := newShopConfig(t, rawURL, brokers)
	target, err := snapshotURL(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.open(target)
	return s
}

func newShopConfig(t *testing.T, rawURL, brokers string) *shop {
	t.Helper()
	s := &shop{t: t}
	s.file = writeConfig(t, fmt.Sprintf("query: %s\nkafka:\n  bootstrap.servers: [%q]\n  group.id: g\nstate: {dir: %q, min_free: 1MiB}\nsnapshots: {url: %q, keep: 2}\n",
		archiveQuery, brokers, filepath.Join(t.TempDir(), "a state"), rawURL))
	cfg, err := config.Load(s.file, func(string) (string, bool) { return "", false }, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.cfg = cfg
	return s
}

func (s *shop) open(target string) {
	s.t.Helper()
	var err error
	s.store, err = snapshot.Open(s.t.Context(), target, snapshot.Options{
		Inspect: func(dir string) (snapshot.State, error) {
			state, err := store.Peek(dir)
			return snapshot.State(state), err
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.store.Close() })
}

func (s *shop) lineage(topicID string, partition int32) snapshot.Lineage {
	return snapshot.Lineage{Group: "g", Topic: "sales", TopicID: topicID, Partition: partition}
}

// publish makes a state of the partition and publishes it at each position.
func (s *shop) publish(topicID string, partition int32, positions ...int64) {
	s.t.Helper()
	s.publishAs(aggregator.Identity{
		Topic: "sales", TopicID: topicID, Partition: partition, Partitions: 3, Definition: s.cfg.Program.Definition(),
	}, positions...)
}

func (s *shop) publishAs(id aggregator.Identity, positions ...int64) {
	s.t.Helper()
	ctx := s.t.Context()
	made, err := store.Open(s.t.TempDir(), store.Options{Program: s.cfg.Program, MinFree: -1, Fatal: func(reason string) { s.t.Error(reason) }})
	if err != nil {
		s.t.Fatal(err)
	}
	defer made.Close()
	state, err := made.Create(id, aggregator.Progress{Seeded: true})
	if err != nil {
		s.t.Fatal(err)
	}
	owner, err := s.store.Claim(ctx, snapshot.Lineage{Group: "g", Topic: id.Topic, TopicID: id.TopicID, Partition: id.Partition}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, position := range positions {
		next := aggregator.Progress{Seeded: true, Position: position, Epoch: owner.Epoch()}
		next.Counts.Results[aggregator.Folded] = position
		one := func(yield func([]byte, []byte) bool) { // a key at each position
			yield(fmt.Append(nil, "user", position), s.cfg.Program.NewTotal().Append(nil))
		}
		err := state.Apply(ctx, one, next)
		if err == nil {
			_, err = owner.Publish(ctx, snapshot.State{Identity: id, Progress: next, Format: store.FormatVersion},
				state.(*store.Partition), made.Checkpoints(id.Partition))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// run runs a snapshot command with --json and reads what it prints into v.
func (s *shop) run(v any, args ...string) (status int, stderr string) {
	s.t.Helper()
	args = append([]string{"snapshot", args[0], "-c", s.file, "--json"}, args[1:]...)
	status, stdout, stderr := tidemark(s.t, nil, args...)
	if stdout != "" {
		if err := json.Unmarshal([]byte(stdout), v); err != nil {
			s.t.Fatalf("%v: %s", err, stdout)
		}
	}
	return status, stderr
}

// damage changes a byte of a table, or of a manifest, of the store's folder.
func damage(t *testing.T, root, pattern string) (path string) {
	t.Helper()
	return damageAt(t, root, pattern, func(b []byte) int { return len(b) / 2 })
}

// damageAt is damage of the byte that at says.
func damageAt(t *testing.T, root, pattern string, at func(b []byte) int) (path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("nothing is like %s: %v", pattern, err)
	}
	path = found[len(found)-1]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at(b)] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type listed struct {
	Snapshots  []kept
	Unreadable []string
}

func (l listed) names() (all []string) {
	for _, k := range l.Snapshots {
		all = append(all, fmt.Sprintf("%d/%d@%d", k.Partition, k.Seq, k.Position))
	}
	return all
}

// TestSnapshotURL: the default is a folder in the state directory, however its
// name is written.
func TestSnapshotURL(t *testing.T) {
	cfg := &config.Config{State: config.State{Dir: "/a dir/100%/ö?#"}}
	got, err := snapshotURL(cfg)
	if want := "file:///a%20dir/100%25/%C3%B6%3F%23/snapshots"; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	cfg.State.Dir = "data"
	if got, err := snapshotURL(cfg); err != nil || !strings.HasPrefix(got, "file:///") || !strings.HasSuffix(got, "/cmd/tidemark/data/snapshots") {
		t.Errorf("%s, %v", got, err)
	}
	cfg.Snapshots.URL = "s3://bucket"
	if got, err := snapshotURL(cfg); err != nil || got != "s3://bucket" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSnapshotList(t *testing.T) {
	s := newShop(t, "", "127.0.0.1:1")
	var none listed
	if status, stderr := s.run(&none, "list"); status != exitDone || none.Snapshots == nil || len(none.Snapshots) > 0 {
		t.Errorf("of nothing: status %d, %s, %+v", status, stderr, none)
	}
	if _, err := os.Stat(s.cfg.State.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("to list made the state directory: %v", err)
	}
	s.publish("ID", 1, 10, 20)
	s.publish("ID", 0, 5)
	var all listed
	if status, stderr := s.run(&all, "list"); status != exitDone || !slices.Equal(all.names(), []string{"0/0@5", "1/1@20", "1/0@10"}) {
		t.Fatalf("status %d, %s, %v", status, stderr, all.names())
	}
	k := all.Snapshots[0]
	if k.Topic != "sales" || k.TopicID != "ID" || k.Epoch != 1 || k.Bytes == 0 || k.Created.IsZero() || k.Writer == "" {
		t.Errorf("%+v", k)
	}
	status, stdout, _ := tidemark(t, nil, "snapshot", "list", "-c", s.file)
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); status != exitDone || len(lines) != 4 || !strings.HasPrefix(lines[0], "TOPIC") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	damage(t, filepath.Join(s.cfg.State.Dir, "snapshots"), "g/ID/1/m/*")
	var some listed
	status, stderr := s.run(&some, "list")
	if status != exitFailed || len(some.Unreadable) != 1 || !strings.Contains(some.Unreadable[0], "snapshot 1") ||
		!slices.Equal(some.names(), []string{"0/0@5", "1/0@10"}) || !strings.Contains(stderr, "1 of 3 cannot be read") {
		t.Errorf("status %d, %s, %+v", status, stderr, some)
	}
}

type verification struct{ Snapshots []verified }

func (v verification) results() map[string]bool {
	all := map[string]bool{}
	for _, s := range v.Snapshots {
		all[fmt.Sprintf("%d/%d", s.Partition, s.Seq)] = s.OK
	}
	return all
}

// TestSnapshotVerify: every damaged byte is found, in each snapshot that it is
// in, and the exit status says so.
func TestSnapshotVerify(t *testing.T) {
	root := t.TempDir()
	s := newShop(t, "file://"+root, "127.0.0.1:1")
	var v verification
	if status, stderr := s.run(&v, "verify"); status != exitFailed || !strings.Contains(stderr, "no snapshot") {
		t.Errorf("of nothing: status %d, %s", status, stderr)
	}
	s.publish("ID", 0, 5)
	s.publish("ID", 1, 10, 20)
	if status, stderr := s.run(&v, "verify"); status != exitDone || !maps.Equal(v.results(), map[string]bool{"0/0": true, "1/0": true, "1/1": true}) {
		t.Fatalf("status %d, %s, %v", status, stderr, v.results())
	}
	if status, stderr := s.run(&v, "verify", "--partition", "1", "--seq", "1"); status != exitDone || !maps.Equal(v.results(), map[string]bool{"1/1": true}) {
		t.Errorf("status %d, %s, %v", status, stderr, v.results())
	}
	if status, stderr := s.run(&v, "verify", "--partition", "1", "--seq", "7"); status != exitFailed || !strings.Contains(stderr, "snapshot 7 of partition 1") {
		t.Errorf("status %d, %s", status, stderr)
	}
	// What all snapshots of a partition share.
	all, err := s.store.List(t.Context(), s.lineage("ID", 1))
	if err != nil {
		t.Fatal(err)
	}
	var shared snapshot.File
	for _, f := range all.Manifests[0].Files {
		if f.Size > 0 && slices.Contains(all.Manifests[1].Files, f) {
			shared = f
		}
	}
	damage(t, root, "g/ID/1/sst/"+shared.Object)
	status, stderr := s.run(&v, "verify")
	if status != exitFailed || !maps.Equal(v.results(), map[string]bool{"0/0": true, "1/0": false, "1/1": false}) ||
		!strings.Contains(stderr, "2 of 3 are damaged: 1 of partition 1, 0 of partition 1") {
		t.Errorf("status %d, %s, %v", status, stderr, v.results())
	}
	for _, one := range v.Snapshots {
		if !one.OK && (len(one.Damage) != 1 || !strings.Contains(one.Damage[0], shared.Name) || !strings.Contains(one.Damage[0], fmt.Sprintf("snapshot %d ", one.Seq))) {
			t.Errorf("%+v", one)
		}
	}
	damage(t, root, "g/ID/0/m/*")
	if status, stderr := s.run(&v, "verify", "--partition", "0"); status != exitFailed || !maps.Equal(v.results(), map[string]bool{"0/0": false}) {
		t.Errorf("a damaged manifest: status %d, %s, %v", status, stderr, v.results())
	}
	if status, stdout, _ := tidemark(t, nil, "snapshot", "verify", "-c", s.file); status != exitFailed || strings.Count(stdout, "DAMAGED") != 3 {
		t.Errorf("status %d\n%s", status, stdout)
	}
}

// state says where the states in a directory are.
func (s *shop) positions(dir string) map[int32]int64 {
	s.t.Helper()
	in, err := store.Inspect(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[int32]int64{}
	for _, p := range in.Partitions {
		if p.Err != nil {
			s.t.Error(p.Err)
		}
		all[p.Identity.Partition] = p.Progress.Position
	}
	return all
}

// TestSnapshotRestore: the newest whole snapshot of every partition becomes the
// state, in an empty directory alone.
func TestSnapshotRestore(t *testing.T) {
	root := t.TempDir()
	s := newShop(t, "file://"+root, "127.0.0.1:1")
	var done struct {
		Path      string
		Snapshots []kept
	}
	if status, stderr := s.run(&done, "restore"); status != exitFailed || !strings.Contains(stderr, "no snapshot") {
		t.Errorf("of nothing: status %d, %s", status, stderr)
	}
	s.publish("ID", 0, 5)
	s.publish("ID", 1, 10, 20, 30)
	status, stderr := s.run(&done, "restore")
	if status != exitDone || !maps.Equal(s.positions(s.cfg.State.Dir), map[int32]int64{0: 5, 1: 30}) ||
		!slices.Equal(listed{Snapshots: done.Snapshots}.names(), []string{"0/0@5", "1/2@30"}) || done.Path != s.cfg.State.Dir {
		t.Errorf("status %d, %s, %+v", status, stderr, done)
	}
	if !strings.Contains(stderr, `"missing":"partition 2"`) {
		t.Errorf("it does not say that partition 2 has none: %s", stderr)
	}
	if status, stderr := s.run(&done, "restore"); status != exitFailed || !strings.Contains(stderr, "it has states, of partitions 0, 1") {
		t.Errorf("over states: status %d, %s", status, stderr)
	}

	one := filepath.Join(t.TempDir(), "one")
	status, stderr = s.run(&done, "restore", "--partition", "1", "--seq", "1", "--into", one)
	if status != exitDone || !maps.Equal(s.positions(one), map[int32]int64{1: 20}) {
		t.Errorf("one: status %d, %s", status, stderr)
	}
	none := filepath.Join(t.TempDir(), "none")
	for args, want := range map[string]string{
		"--partition 2":         "restore snapshots of partition 2",
		"--partition 1 --seq 9": "there is no snapshot 9 of partition 1, only 0, 1, 2",
		"--topic-id OTHER":      `with the id "OTHER"`,
	} {
		status, stderr := s.run(&done, append([]string{"restore", "--into", none}, strings.Fields(args)...)...)
		if status != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}

	held, err := store.Open(none, store.Options{Program: s.cfg.Program, MinFree: -1, Fatal: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if status, stderr := s.run(&done, "restore", "--into", none); status != exitFailed || !strings.Contains(stderr, "in use") {
		t.Errorf("in use: status %d, %s", status, stderr)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}

	// A damaged one is passed over, aloud.
	all, err := s.store.List(t.Context(), s.lineage("ID", 1))
	if err != nil {
		t.Fatal(err)
	}
	newest, before := all.Manifests[0], all.Manifests[1]
	i := slices.IndexFunc(newest.Files, func(f snapshot.File) bool { return f.Size > 0 && !slices.Contains(before.Files, f) })
	damage(t, root, "g/ID/1/sst/"+newest.Files[i].Object)
	status, stderr = s.run(&done, "restore", "--into", none)
	if status != exitDone || !maps.Equal(s.positions(none), map[int32]int64{0: 5, 1: 20}) || !strings.Contains(stderr, "cannot be restored") {
		t.Errorf("damaged: status %d, %s", status, stderr)
	}
}

// TestSnapshotRestoreOfWhatIsMissing: a number that there is not, or not any
// more, is no damage, also where another snapshot is damaged; that of the one
// that is asked for is named with its object.
func TestSnapshotRestoreOfWhatIsMissing(t *testing.T) {
	root := t.TempDir()
	s := newShop(t, "file://"+root, "127.0.0.1:1")
	s.publish("ID", 1, 10, 20, 30, 40, 50)
	if _, err := s.store.Reap(t.Context(), s.lineage("ID", 1), 3); err != nil {
		t.Fatal(err)
	}
	m, err := s.store.Numbered(t.Context(), s.lineage("ID", 1), 3)
	if err != nil {
		t.Fatal(err)
	}
	object := m.Files[slices.IndexFunc(m.Files, func(f snapshot.File) bool { return strings.HasPrefix(f.Name, "MANIFEST") })].Object
	damage(t, root, "g/ID/1/sst/"+object)
	// In the middle may be a quotation mark: without it that is no manifest at all.
	damageAt(t, root, "g/ID/1/m/*4", func(b []byte) int { return bytes.Index(b, []byte("MANIFEST")) })
	for _, c := range []struct{ seq, says, not string }{
		{"0", "there is no snapshot 0 of partition 1 any more, only 2, 3, 4", "damaged"},
		{"9", "there is no snapshot 9 of partition 1, only 2, 3, 4", "damaged"},
		{"3", object + ") does not have the bytes that were published", "there is no snapshot"},
		{"4", "its manifest (object g/ID/1/m/00000000000000000004) does not have the sum that is written in it", "there is no snapshot"},
	} {
		var done any
		status, stderr := s.run(&done, "restore", "--partition", "1", "--seq", c.seq, "--into", filepath.Join(t.TempDir(), "state"))
		if status != exitFailed || !strings.Contains(stderr, c.says) || strings.Contains(stderr, c.not) {
			t.Errorf("--seq %s: status %d, %s", c.seq, status, stderr)
		}
	}
}

// TestO12SnapshotRestoreGoesOn: nothing is a state before all are laid, and what
// is whole is not laid again.
func TestO12SnapshotRestoreGoesOn(t *testing.T) {
	root := t.TempDir()
	s := newShop(t, "file://"+root, "127.0.0.1:1")
	s.publish("ID", 0, 5)
	s.publish("ID", 1, 10)
	path := damage(t, root, "g/ID/1/m/*")
	var done any
	if status, stderr := s.run(&done, "restore"); status != exitFailed || !strings.Contains(stderr, "partition 1") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if in, err := store.Inspect(s.cfg.State.Dir); err != nil || len(in.Partitions) > 0 {
		t.Errorf("half of a restore is there: %+v, %v", in, err)
	}
	damage(t, root, "g/ID/1/m/*") // the same byte once more: whole again
	if err := os.RemoveAll(filepath.Join(root, "g", "ID", "0", "sst")); err != nil {
		t.Fatal(err)
	}
	status, stderr := s.run(&done, "restore")
	if status != exitDone || !maps.Equal(s.positions(s.cfg.State.Dir), map[int32]int64{0: 5, 1: 10}) {
		t.Errorf("%s: status %d, %s", path, status, stderr)
	}
}

// TestSnapshotRestoreRefusesAnotherDefinition, and names the clause.
func TestSnapshotRestoreRefusesAnotherDefinition(t *testing.T) {
	root := t.TempDir()
	s := newShop(t, "file://"+root, "127.0.0.1:1")
	s.publish("ID", 0, 5)
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	s.file = writeConfig(t, strings.Replace(string(text), "sum(revenue)", "max(revenue)", 1))
	var done any
	if status, stderr := s.run(&done, "restore"); status != exitFailed || !strings.Contains(stderr, "another definition") || !strings.Contains(stderr, "max") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// TestSnapshotUsage: arguments that cannot be meant are told before anything is
// opened.
func TestSnapshotUsage(t *testing.T) {
	s := newShop(t, "", "127.0.0.1:1")
	for args, want := range map[string]string{
		"bogus":                  `unknown command "bogus"`,
		"list extra":             "unknown command",
		"list -c nowhere.yaml":   "nowhere.yaml",
		"verify --partition -3":  "--partition is -3",
		"verify --seq x":         "invalid argument",
		"restore --seq 3":        "give --partition too",
		"prune --keep 0":         "--keep is 0",
		"prune --keep 2 --bogus": "unknown flag",
	} {
		all := append([]string{"snapshot"}, strings.Fields(args)...)
		if !strings.Contains(args, "-c ") && args != "bogus" {
			all = append(all, "-c", s.file)
		}
		status, stdout, stderr := tidemark(t, nil, all...)
		if status != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("tidemark %s: status %d, %s%s", strings.Join(all, " "), status, stdout, stderr)
		}
	}
	s.file = writeConfig(t, "query: "+archiveQuery+"\nkafka: {bootstrap.servers: [127.0.0.1:1], group.id: g}\nsnapshots: {url: \"file:///dev/null/x\"}\n")
	var done any
	if status, stderr := s.run(&done, "list"); status != exitFailed || !strings.Contains(stderr, "open the snapshot store file:///dev/null/x") {
		t.Errorf("no folder: status %d, %s", status, stderr)
	}
}

// TestO08CheckTriesTheSnapshots: the store is named without its parameters, the
// default too, and a check leaves nothing.
func TestO08CheckTriesTheSnapshots(t *testing.T) {
	at := t.TempDir()
	for rawURL, want := range map[string]checked{
		"":                     {"snapshots", "file://$STATE/snapshots", true, "for one member only"},
		"file://" + at + "/sn": {"snapshots", "file://" + at + "/sn", true, "created"},
		"file:///dev/null/x":   {"snapshots", "file:///dev/null/x", false, "not a directory"},
		"s3://bucket?endpoint=http://127.0.0.1:1&region=x&secret=hidden": {"snapshots", "s3://bucket", false, "s3://bucket"},
	} {
		s := newShopConfig(t, rawURL, "127.0.0.1:1")
		env := map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
		for name, value := range env {
			t.Setenv(name, value)
		}
		_, stdout, _ := tidemark(t, nil, "check", "--connect", "--json", "-c", s.file)
		var steps []checked
		if err := json.Unmarshal([]byte(stdout), &steps); err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		want.Object = strings.ReplaceAll(want.Object, "$STATE", s.cfg.State.Dir)
		i := slices.IndexFunc(steps, func(c checked) bool { return c.Step == "snapshots" })
		if i < 0 || steps[i].OK != want.OK || steps[i].Object != want.Object || !strings.Contains(steps[i].Detail, want.Detail) || strings.Contains(stdout, "hidden") {
			t.Errorf("%s: %s, want %+v", rawURL, stdout, want)
		}
		if _, err := os.Stat(s.cfg.State.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the check left the state directory: %v", rawURL, err)
		}
	}
	if left, err := os.ReadDir(at); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
