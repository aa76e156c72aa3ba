package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidemark/internal/testkit"
	"tidemark/source/kafka"
)

// objects counts the files below a folder.
func objects(t *testing.T, root string) (n int) {
	t.Helper()
	err := filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSnapshotPrune: old snapshots go, and all of the topic as it was before it
// was created again, which Kafka says; a dry run only tells.
func TestSnapshotPrune(t *testing.T) {
	broker := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	root := t.TempDir()
	s := newShop(t, "file://"+root, broker.Addrs()[0])
	client, err := kafka.Open(kafkaConfig(s.cfg, slog.New(slog.DiscardHandler), ""))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic, err := client.Topic(t.Context())
	if err != nil || topic.ID == "" {
		t.Fatalf("%+v, %v", topic, err)
	}
	s.publish(topic.ID, 0, 1, 2, 3, 4)
	s.publish("OLD", 0, 1, 2)
	s.publish("OLD", 1, 1)
	var done struct {
		DryRun    bool `json:"dry_run"`
		Snapshots int
		Pruned    []pruned
	}
	before := objects(t, root)
	for _, c := range []struct {
		args      []string
		snapshots int
	}{
		{[]string{"--dry-run"}, 2 + 2 + 1}, // keep is 2
		{[]string{"--dry-run", "--keep", "1"}, 3 + 2 + 1},
		{[]string{"--dry-run", "--topic-id", "OLD"}, 4},
	} {
		status, stderr := s.run(&done, append([]string{"prune"}, c.args...)...)
		if status != exitDone || !done.DryRun || done.Snapshots != c.snapshots || len(done.Pruned) != 3 {
			t.Errorf("%v: status %d, %s, %+v", c.args, status, stderr, done)
		}
	}
	if status, stderr := s.run(&done, "prune", "--topic-id", "SLIP"); status != exitFailed || !strings.Contains(stderr, "all would go") {
		t.Errorf("an id that nobody has: status %d, %s", status, stderr)
	}
	if after := objects(t, root); after != before {
		t.Errorf("%d objects of %d are left by dry runs and refusals", after, before)
	}
	// A restore does not guess which of the two is meant.
	dir := filepath.Join(t.TempDir(), "state")
	var laid any
	if status, stderr := s.run(&laid, "restore", "--into", dir); status != exitDone || !maps.Equal(s.positions(dir), map[int32]int64{0: 4}) {
		t.Errorf("restore: status %d, %s", status, stderr)
	}

	status, stdout, stderr := tidemark(t, nil, "snapshot", "prune", "-c", s.file)
	if status != exitDone || strings.Count(stdout, "deleted") != 2 || strings.Count(stdout, "current") != 1 {
		t.Errorf("status %d, %s\n%s", status, stderr, stdout)
	}
	var all listed
	if status, stderr := s.run(&all, "list"); status != exitDone || !slices.Equal(all.names(), []string{"0/3@4", "0/2@3"}) {
		t.Errorf("status %d, %s, %v", status, stderr, all.names())
	}
}

// TestSnapshotPruneAsksKafka, and removes nothing where it does not answer.
func TestSnapshotPruneAsksKafka(t *testing.T) {
	broker := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "returns"})
	s := newShop(t, "", broker.Addrs()[0])
	s.publish("ID", 0, 1, 2, 3)
	var done any
	status, stderr := s.run(&done, "prune")
	if status != exitFailed || !strings.Contains(stderr, "topic sales") || !strings.Contains(stderr, "--topic-id") {
		t.Errorf("status %d, %s", status, stderr)
	}
	var all listed
	if s.run(&all, "list"); len(all.Snapshots) != 3 {
		t.Errorf("%v are left", all.names())
	}
}

// TestSnapshotsInMemory: the commands are of any store, not of folders.
func TestSnapshotsInMemory(t *testing.T) {
	s := newShop(t, "", "127.0.0.1:1")
	s.open("mem://some/folder")
	s.publish("ID", 0, 5)
	s.publish("ID", 1, 10, 20, 30)
	var out, errs bytes.Buffer
	log := newLogger(&errs, s.cfg.Log)
	a := &archive{program: &program{stdout: &out, stderr: &errs}, cfg: s.cfg, store: s.store, log: log, json: true}
	all := selection{-1, -1}
	ctx := t.Context()
	var l listed
	var v verification
	if err := errors.Join(a.list(ctx), json.Unmarshal(out.Bytes(), &l)); err != nil || len(l.Snapshots) != 4 {
		t.Errorf("list: %v, %v", err, l.names())
	}
	out.Reset()
	if err := errors.Join(a.verify(ctx, all), json.Unmarshal(out.Bytes(), &v)); err != nil || len(v.Snapshots) != 4 {
		t.Errorf("verify: %v, %+v", err, v)
	}
	if err := a.restore(ctx, all, s.cfg.State.Dir, ""); err != nil || !maps.Equal(s.positions(s.cfg.State.Dir), map[int32]int64{0: 5, 1: 30}) {
		t.Errorf("restore: %v", err)
	}
	if err := a.prune(ctx, 1, "ID", false); err != nil {
		t.Error(err)
	}
	out.Reset()
	if err := errors.Join(a.list(ctx), json.Unmarshal(out.Bytes(), &l)); err != nil || fmt.Sprint(l.names()) != "[0/0@5 1/2@30]" {
		t.Errorf("after a prune: %v, %v", err, l.names())
	}
}
