package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tidemark/aggregator"
)

// small is a state of few files, for many rounds.
type small string

func (c small) Checkpoint(dir string) error {
	return copies{"MANIFEST-1": string(c), "000001.sst": "table"}.Checkpoint(dir)
}

// Two owners of one epoch publish at the same moment: one wins, the other is
// fenced by it.
func TestTwoPublishersRace(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		rounds := int32(200)
		if _, ok := open().(*folder); ok {
			rounds = 60 // each syncs some thirty times
		}
		one, two := openStore(t, open(), Options{}), openStore(t, open(), Options{})
		dir := t.TempDir()
		for round := range rounds {
			owners := []*Owner{claim(t, one, round), claim(t, two, round)}
			results := make([]Published, 2)
			errs := make([]error, 2)
			var g sync.WaitGroup
			for i, o := range owners {
				g.Go(func() {
					results[i], errs[i] = o.Publish(t.Context(), state(round, int64(10+i)), small(fmt.Sprint(i)), filepath.Join(dir, fmt.Sprint(i)))
				})
			}
			g.Wait()
			winner := 0
			if errs[0] != nil {
				winner = 1
			}
			if errs[winner] != nil || !errors.Is(errs[1-winner], aggregator.ErrFenced) {
				t.Fatalf("round %d: %v and %v", round, errs[0], errs[1])
			}
			m, err := one.Newest(t.Context(), lineage(round))
			if err != nil || m.Seq != 0 || m.Position() != results[winner].Position() || m.Writer != owners[winner].writer {
				t.Fatalf("round %d: %d won, the newest is %+v, %v", round, winner, m, err)
			}
		}
	})
}

// Many claim at the same moment: one of them is the owner in the end, and the
// others are fenced.
func TestClaimsRace(t *testing.T) {
	eachBucket(t, func(t *testing.T, open func() bucket) {
		publish(t, claim(t, openStore(t, open(), Options{}), 3), 10)
		owners := make([]*Owner, 5)
		var g sync.WaitGroup
		for i := range owners {
			s := openStore(t, open(), Options{})
			g.Go(func() {
				var err error
				if owners[i], err = s.Claim(t.Context(), lineage(3), 0); err != nil && !errors.Is(err, aggregator.ErrFenced) {
					t.Error(err)
				}
			})
		}
		g.Wait()
		epochs, published := make(map[int64]bool), 0
		for i, o := range owners {
			if o == nil {
				continue
			}
			if epochs[o.Epoch()] {
				t.Errorf("two have epoch %d", o.Epoch())
			}
			epochs[o.Epoch()] = true
			switch _, err := try(t, o, int64(11+i)); {
			case err == nil:
				published++
			case !errors.Is(err, aggregator.ErrFenced):
				t.Error(err)
			}
		}
		if published != 1 {
			t.Errorf("%d of them are owners", published)
		}
	})
}

// jobs are what other processes do.
var jobs = map[string]func(args []string) error{"race": raceForNumbers, "life": liveOneLife}

// childMain is the test binary as another process.
func childMain() int {
	if len(os.Args) < 2 {
		return 2
	}
	if err := jobs[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// command is the test binary as another process with a job.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), child+"=1")
	return cmd
}

// spawn starts such a process.
func spawn(t testing.TB, out *bytes.Buffer, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

const numbersToRaceFor = 500

// raceForNumbers creates manifests in a folder, one number after another, and
// says which it got.
func raceForNumbers(args []string) error {
	f, err := openFolder(args[0])
	if err != nil {
		return err
	}
	s := newStore(f, args[0], Options{})
	for seq := range int64(numbersToRaceFor) {
		err := s.create(context.Background(), lineage(3).manifest(seq), []byte(args[1]))
		var taken *takenError
		switch {
		case err == nil:
			fmt.Println("won", seq)
		case !errors.As(err, &taken):
			return err
		}
	}
	return nil
}

// The lock of gocloud.dev's folders holds within a process alone; here two
// processes cannot both create a manifest.
func TestProcessesRaceInOneFolder(t *testing.T) {
	root := t.TempDir()
	outs := make([]bytes.Buffer, 3)
	var cmds []*exec.Cmd
	for i := range outs {
		cmds = append(cmds, spawn(t, &outs[i], "race", root, fmt.Sprint("process ", i)))
	}
	winners := make(map[string]int)
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("process %d: %v\n%s", i, err, &outs[i])
		}
		for line := range strings.Lines(outs[i].String()) {
			if number, ok := strings.CutPrefix(strings.TrimSpace(line), "won "); ok {
				if other, twice := winners[number]; twice {
					t.Errorf("processes %d and %d both created %s", other, i, number)
				}
				winners[number] = i
			}
		}
	}
	if len(winners) != numbersToRaceFor {
		t.Errorf("%d of %d numbers were won", len(winners), numbersToRaceFor)
	}
	f, err := openFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, f, Options{})
	for number, i := range winners {
		var seq int64
		fmt.Sscan(number, &seq)
		if body, err := s.readOnce(t.Context(), lineage(3).manifest(seq)); err != nil || string(body) != fmt.Sprint("process ", i) {
			t.Errorf("manifest %s of process %d has %q, %v", number, i, body, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(root, tempFolder)); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}
