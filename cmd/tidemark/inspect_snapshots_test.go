package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInspectSnapshots: a folder of snapshots tells what a state does, of each,
// and does not change.
func TestInspectSnapshots(t *testing.T) {
	root := t.TempDir()
	s := newShop(t, "file://"+root, "127.0.0.1:1")
	s.publish("ID", 0, 5)
	s.publish("ID", 1, 10, 20)
	s.publish("ID", 1) // a claim alone
	before := objects(t, root)
	var got struct {
		Path       string
		Snapshots  []inspectedSnapshot
		Unreadable []string
	}
	inspect := func() (int, string) {
		status, stdout, stderr := tidemark(t, nil, "inspect", "--json", root)
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		return status, stderr
	}
	if status, stderr := inspect(); status != exitDone || len(got.Snapshots) != 4 || len(got.Unreadable) > 0 {
		t.Fatalf("status %d, %s, %+v", status, stderr, got)
	}
	claim, newest := got.Snapshots[1], got.Snapshots[2]
	if newest.Group != "g" || newest.Topic != "sales" || newest.Partition != 1 || newest.Position != 20 || newest.Seq != 1 || newest.Keys != 2 ||
		newest.Counts["folded"] != 20 || newest.SQL != archiveQuery || newest.Format != 1 || newest.Bytes == 0 || newest.Epoch != 1 || newest.Files == 0 {
		t.Errorf("%+v", newest)
	}
	if claim.Seq != 2 || claim.Epoch != 2 || claim.Position != 20 || claim.Keys != 2 || claim.Bytes != newest.Bytes {
		t.Errorf("%+v", claim)
	}
	if after := objects(t, root); after != before {
		t.Errorf("%d files before, %d after", before, after)
	}
	status, stdout, _ := tidemark(t, nil, "inspect", root)
	if status != exitDone || strings.Count(stdout, "sales") < 4 || strings.Count(stdout, archiveQuery) != 1 {
		t.Errorf("status %d\n%s", status, stdout)
	}

	if err := os.RemoveAll(filepath.Join(root, "g", "ID", "0", "sst")); err != nil {
		t.Fatal(err)
	}
	damage(t, root, "g/ID/1/m/*")
	status, stderr := inspect()
	if status != exitFailed || len(got.Snapshots) != 3 || len(got.Unreadable) != 2 || got.Snapshots[0].Error == "" || got.Snapshots[1].Error != "" ||
		!strings.Contains(stderr, "2 snapshots cannot be read") {
		t.Errorf("status %d, %s, %+v", status, stderr, got)
	}
	if status, stdout, _ := tidemark(t, nil, "inspect", root); status != exitFailed || !strings.Contains(stdout, "?") {
		t.Errorf("status %d\n%s", status, stdout)
	}

	// A state directory with a store in it is a state directory.
	s = newShop(t, "", "127.0.0.1:1")
	s.publish("ID", 0, 5)
	var done any
	if status, stderr := s.run(&done, "restore"); status != exitDone {
		t.Fatal(stderr)
	}
	for dir, want := range map[string]string{
		s.cfg.State.Dir: `"partitions"`, filepath.Join(s.cfg.State.Dir, snapshotsName): `"snapshots"`, filepath.Join(s.cfg.State.Dir, "partitions", "0"): `"partitions"`,
	} {
		if status, stdout, stderr := tidemark(t, nil, "inspect", "--json", dir); status != exitDone || !strings.Contains(stdout, want) {
			t.Errorf("inspect %s: status %d, %s\n%s", dir, status, stderr, stdout)
		}
	}
}
