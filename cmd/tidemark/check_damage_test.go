package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// TestO04CheckForeseesWhatServeDoesAboutDamage: of a state that is damaged serve
// puts the newest snapshot in its place, of which check warns, and ends where
// there is none, or one of another query, which fails the check.
func TestO04CheckForeseesWhatServeDoesAboutDamage(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 1})
	b.Produce("sales", 0, testkit.Text("", `{"userId":"1","revenue":2,"points":3}`))
	home := newHome(t, b, "SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId")
	s := home.serve()
	s.caughtUp()
	s.stop()
	spoil := func() {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(home.dir, "partitions", "0", "MANIFEST-*"))
		if err != nil || len(found) == 0 {
			t.Fatal(found, err)
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(want string, status int, args ...string) {
		t.Helper()
		is, steps := checkSteps(t, "state warning", append(args, "-c", home.file)...)
		var of []checked
		for _, step := range steps {
			if step.Object == home.dir && !strings.Contains(step.Detail, "can be written") {
				of = append(of, step)
			}
		}
		wantSteps(t, of, want)
		if is != status {
			t.Errorf("check %v: status %d, want %d: %+v", args, is, status, steps)
		}
	}
	const looks = "check --connect looks"

	spoil()
	check("warning true the state of partition 0 is damaged; serve puts the newest snapshot in its place, and ends where there is none: "+looks, exitDone)
	check("warning true the state of partition 0 is damaged; serve puts snapshot 0, at position 1, in its place", exitDone, "--connect")
	s = home.serve()
	s.caughtUp()
	s.expect("1", `{"userId":"1","revenue":2}`)
	if said := s.stop(); !strings.Contains(said, "the state is damaged; the newest snapshot takes its place") {
		t.Errorf("serve says %s", said)
	}

	// Of another query.
	spoil()
	sql := home.sql
	home.query(strings.Replace(sql, "revenue", "points", 1))
	check("state false the state of partition 0 is damaged, and the newest snapshot cannot take its place", exitFailed, "--connect")
	if said := home.serve().ends(exitFailed); !strings.Contains(said, "another definition") {
		t.Errorf("serve says %s", said)
	}
	home.query(sql)

	// None is there.
	if err := os.RemoveAll(filepath.Join(home.dir, snapshotsName)); err != nil {
		t.Fatal(err)
	}
	check("warning true the state of partition 0 is damaged; serve puts the newest snapshot in its place, and ends where there is none: "+looks, exitDone)
	check("state false the state of partition 0 is damaged, and there is nothing to put in its place", exitFailed, "--connect")
	if said := home.serve().ends(exitFailed); !strings.Contains(said, "state is damaged") {
		t.Errorf("serve says %s", said)
	}
}
