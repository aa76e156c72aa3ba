//go:build integration && stores

package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"tidemark/aggregator"
)

func init() { jobs["store"] = raceInStore }

// raced is what a process tells of one race.
type raced struct {
	Won    bool
	Fenced bool
	Seq    int64
	Epoch  int64
	Writer string
	Err    string
}

// raceInStore is one of two processes that race in the store at a URL, once
// for each line that it reads: what to do, for which partition, at which
// position.
func raceInStore(args []string) error {
	ctx := context.Background()
	s, err := Open(ctx, args[0], Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	late := newStore(s.bucket, args[0], Options{Clock: inTwoHours})
	dir, err := os.MkdirTemp("", "tidemark-race-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := json.NewEncoder(os.Stdout)
	var o *Owner
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var what string
		var partition int32
		var position int64
		if _, err := fmt.Sscan(in.Text(), &what, &partition, &position); err != nil {
			return err
		}
		var r raced
		var err error
		switch what {
		case "claim":
			if o, err = s.Claim(ctx, lineage(partition), 0); err == nil {
				r.Won, r.Epoch, r.Writer = true, o.Epoch(), o.writer
			}
		case "publish":
			var p Published
			p, err = o.Publish(ctx, state(partition, position), small(args[1]+strconv.FormatInt(position, 10)), filepath.Join(dir, "checkpoint"))
			if err == nil {
				r = raced{Won: true, Seq: p.Seq, Epoch: p.Epoch, Writer: p.Writer}
			}
		case "reap":
			_, err = late.Reap(ctx, lineage(partition), 2)
			r.Won = err == nil
		}
		if err != nil {
			r.Fenced, r.Err = errors.Is(err, aggregator.ErrFenced), err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// Two processes claim and publish at the same moment, over and over: each
// number is won by one of them, the other is fenced, and what is there in the
// end is whole, though both clean up at once. One race in two is for the first
// snapshot of a partition, for which both have the same epoch; in the others
// both go for the number of their claim.
func processesRace(t *testing.T, e *emulator) {
	races := 40
	if os.Getenv("STORES_SOAK") != "" {
		races = 600
	}
	url := e.newURL(t)
	racers := make([]*racer, 2)
	for i := range racers {
		racers[i] = newRacer(t, "store", url, fmt.Sprint("process ", i, " at "))
		defer racers[i].end(t)
	}
	both := func(what string, partition int32, position int64) (results [2]raced) {
		for _, r := range racers {
			if _, err := fmt.Fprintln(r.in, what, partition, position); err != nil {
				t.Fatal(err)
			}
		}
		for i, r := range racers {
			if err := r.out.Decode(&results[i]); err != nil {
				t.Fatal(err)
			}
		}
		return results
	}
	s := reach(t, url, Options{})
	won, behind := make([]int, 2), 0
	last := int64(-1)
	began := time.Now()
	for race := range races {
		partition, position := int32(3), int64(10+race)
		if race%2 == 1 {
			partition = int32(100 + race)
		}
		claims := both("claim", partition, position)
		for i, r := range claims {
			if !r.Won {
				t.Fatalf("race %d: process %d could not claim: %s", race, i, r.Err)
			}
		}
		if same := claims[0].Epoch == claims[1].Epoch; same != (race == 0 || race%2 == 1) {
			t.Errorf("race %d: epochs %d and %d", race, claims[0].Epoch, claims[1].Epoch)
		}
		results := both("publish", partition, position)
		winner := 0
		if !results[0].Won {
			winner = 1
		}
		if w, l := results[winner], results[1-winner]; !w.Won || l.Won || !l.Fenced {
			t.Fatalf("race %d: %+v and %+v; want one that wins and one that is fenced", race, results[0], results[1])
		}
		won[winner]++
		if claims[winner].Epoch < claims[1-winner].Epoch {
			t.Errorf("race %d: epoch %d won over %d", race, claims[winner].Epoch, claims[1-winner].Epoch)
		}
		seq := results[winner].Seq
		m, err := s.Newest(t.Context(), lineage(partition))
		if err != nil || m.Seq != seq || m.Writer != results[winner].Writer || m.Position() != position {
			t.Fatalf("race %d: process %d won %d, the newest is %+v, %v", race, winner, seq, m, err)
		}
		if partition != 3 {
			if seq != 0 {
				t.Errorf("race %d: the first snapshot has number %d", race, seq)
			}
			continue
		}
		if seq <= last {
			t.Errorf("race %d: number %d after %d", race, seq, last)
		}
		if last, behind = seq, behind+1; behind%5 == 0 {
			for i, r := range both("reap", 3, position) {
				if !r.Won {
					t.Errorf("race %d: process %d could not clean up: %s", race, i, r.Err)
				}
			}
			if err := verifyNewest(t, s, 3, position); err != nil {
				t.Error(err)
			}
		}
	}
	late := newStore(s.bucket, "late", Options{Clock: inTwoHours})
	if _, err := late.Reap(t.Context(), lineage(3), 2); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context(), lineage(3)); err != nil || len(all.Manifests) != 2 || len(all.Unreadable) > 0 {
		t.Errorf("kept: %v, %v, %v", seqs(all.Manifests), all.Unreadable, err)
	}
	t.Logf("%d races in %s, won by %v", races, time.Since(began).Round(time.Millisecond), won)
}

// racer is another process that does what the lines say that it is given.
type racer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	errs bytes.Buffer
}

func newRacer(t testing.TB, args ...string) *racer {
	t.Helper()
	r := &racer{cmd: command(t, args...)}
	in, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.in, r.out, r.cmd.Stderr = in, json.NewDecoder(out), &r.errs
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// end lets it end, and waits.
func (r *racer) end(t testing.TB) {
	if err := errors.Join(r.in.Close(), r.cmd.Wait()); err != nil {
		t.Errorf("a process that raced: %v\n%s", err, &r.errs)
	}
}
