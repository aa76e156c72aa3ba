package bench

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// measureSnapshots lays snapshots onto an empty disk, publishes what has not
// changed, and looks how long folding stands still while one is made.
func measureSnapshots(t *testing.T, b *bench, s *section) {
	for _, users := range []int{b.size.Users, b.size.Many} {
		b.restores(t, s, b.fillUp(t, users))
	}
	b.unchanged(t, s, b.fillUp(t, b.size.Users))
	b.standstill(t, s, b.fillUp(t, b.size.Users))
}

// restores compares a restore with a plain copy of the files that it lays, and
// times a member that starts on an empty disk.
func (b *bench) restores(t *testing.T, s *section, f *filled) {
	svc := b.newService(t, f.set)
	laid, copied := filepath.Join(b.dir, "laid"), filepath.Join(b.dir, "copied")
	var rates, plain, synced, ratio, durable, live []float64
	var bytes int64
	start := b.command(t, "version") // a command's own start is no part of a restore
	m := b.meter()
	for range b.size.Runs {
		removeAll(t, laid, copied)
		syscall.Sync()
		took := b.command(t, "snapshot", "restore", "-c", svc.file, "--into", laid) - start
		syscall.Sync()
		var err error
		began := time.Now()
		if bytes, err = copyTree(laid, copied, false); err != nil {
			t.Fatal(err)
		}
		bare := time.Since(began)
		removeAll(t, copied)
		syscall.Sync()
		began = time.Now()
		if _, err = copyTree(laid, copied, true); err != nil {
			t.Fatal(err)
		}
		safe := time.Since(began)
		mib := float64(bytes) / (1 << 20)
		rates, plain, synced = append(rates, mib/took.Seconds()), append(plain, mib/bare.Seconds()), append(synced, mib/safe.Seconds())
		ratio, durable = append(ratio, bare.Seconds()/took.Seconds()), append(durable, safe.Seconds()/took.Seconds())
		removeAll(t, laid, copied)

		set := f.set
		set.dir = filepath.Join(b.dir, b.name("empty"))
		heir := b.newService(t, set)
		heir.start(t)
		live = append(live, heir.ready(t, 5*time.Minute).Seconds())
		heir.stop(t)
		removeAll(t, set.dir)
		b.say("restore of %d users, %.0f MiB: %s; a plain copy %s, synced %s; serve is live after %.2f s", f.users, mib,
			took.Round(time.Millisecond), bare.Round(time.Millisecond), safe.Round(time.Millisecond), live[len(live)-1])
	}
	other := m.others(0)
	what := fmt.Sprintf("restore of %s users (%s MiB): ", grouped(strconv.Itoa(f.users)), number(float64(bytes)/(1<<20)))
	s.add(figure{What: what + "rate", Unit: "MiB/s", Values: rates, Other: -1,
		Note: fmt.Sprintf("verified and synced, tables shared with the store; without the %d ms that a command takes to start", start.Milliseconds())})
	s.add(figure{What: what + "a plain copy's rate", Unit: "MiB/s", Values: plain, Other: -1, Note: fmt.Sprintf("synced: %s", number(median(synced)))})
	s.add(figure{What: what + "against the plain copy", Unit: "ratio", Target: atLeast(0.5), Values: ratio, Other: -1, Note: "of rates; the copy is not synced"})
	s.add(figure{What: what + "against a plain copy that is synced", Unit: "ratio", Values: durable, Other: -1, Note: "of rates; both are durable at their end"})
	s.add(figure{What: what + "serve on an empty disk to live", Unit: "s", Values: live, Other: -1,
		Note: fmt.Sprintf("all runs of this restore took %s CPU-s, the program's own included", number(other))})
}

// unchanged publishes twice with nothing new in between.
func (b *bench) unchanged(t *testing.T, s *section, f *filled) {
	svc := b.newService(t, f.set)
	svc.start(t)
	svc.ready(t, time.Minute)
	svc.publish(t)
	before, err := objects(f.set.snapshots)
	if err != nil {
		t.Fatal(err)
	}
	took := svc.publish(t)
	after, err := objects(f.set.snapshots)
	if err != nil {
		t.Fatal(err)
	}
	svc.stop(t)
	written := 0
	for name := range after {
		if _, ok := before[name]; !ok {
			written++
		}
	}
	if len(before) == 0 {
		t.Error("the snapshot store is empty")
	}
	s.add(figure{What: "publish of unchanged partitions: objects written", Unit: "objects", Target: atMost(0), Values: []float64{float64(written)}, Other: -1,
		Note: fmt.Sprintf("%d partitions in %s ms, %d objects in the store", partitions, number(milliseconds(took)), len(before))})
}

// standstill looks at the positions every two milliseconds while events come
// in: the longest that one of them stood still, first with no snapshot, then
// with one made after another.
func (b *bench) standstill(t *testing.T, s *section, f *filled) {
	svc := b.newService(t, f.set)
	svc.start(t)
	svc.ready(t, time.Minute)
	load := b.offer(t, f.set.topic, partitions, f.sales, b.size.Offered)
	b.stands(t, svc, b.span()/5, nil)
	quiet := b.stands(t, svc, b.span(), nil)
	m, at, made := b.meter(), svc.cpu(), 0
	busy := b.stands(t, svc, 2*b.span(), func() error {
		made++
		return publishAt(svc.url)
	})
	other := m.others(svc.cpu() - at)
	rate := load.stop(t)
	svc.stop(t)
	s.add(figure{What: "longest stop of a partition without snapshots", Unit: "ms", Values: []float64{milliseconds(quiet)}, Other: -1, Note: foldingAt(rate) + "; the events' own gaps are in it"})
	s.add(figure{What: "longest stop of a partition while snapshots are made", Unit: "ms", Target: atMost(100), Values: []float64{milliseconds(busy)}, Other: other,
		Note: fmt.Sprintf("%d snapshots of %d partitions", made, partitions)})
	b.say("longest stop of folding: %.0f ms without, %.0f ms with %d snapshots", milliseconds(quiet), milliseconds(busy), made)
}

// stands is the longest that any partition's position stood still within span.
// Where act is given it is called again and again meanwhile.
func (b *bench) stands(t *testing.T, svc *service, span time.Duration, act func() error) time.Duration {
	t.Helper()
	end := time.Now().Add(span)
	acted := make(chan error, 1)
	go func() {
		var err error
		for act != nil && err == nil && time.Now().Before(end) {
			err = act()
		}
		acted <- err
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	type seen struct {
		position int64
		since    time.Time
	}
	last := map[int32]seen{}
	var longest time.Duration
	for time.Now().Before(end) {
		<-tick.C
		st, err := svc.status()
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		for _, p := range st.Partitions {
			was, ok := last[p.Partition]
			if ok {
				longest = max(longest, now.Sub(was.since))
			}
			if !ok || p.Position != was.position {
				last[p.Partition] = seen{p.Position, now}
			}
		}
	}
	if err := <-acted; err != nil {
		t.Fatal(err)
	}
	return longest
}

// objects are the names of what lies in a folder.
func objects(dir string) (map[string]bool, error) {
	names := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names[path] = true
		}
		return err
	})
	return names, err
}

// ballast is the file that holds room for closing on a full disk.
const ballast = "ballast"

// copyTree copies the files below one folder into another and returns their
// bytes. With sync each is durable when it returns.
func copyTree(from, to string, sync bool) (total int64, err error) {
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.Name() == ballast {
			return nil // it is made where a state is opened, and no part of a snapshot
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		n, err := copyFile(path, filepath.Join(to, rel), sync)
		total += n
		return err
	})
	return total, err
}

func copyFile(from, to string, sync bool) (n int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	// A plain copy reads and writes; the kernel is not asked to do it alone.
	buf := make([]byte, 1<<20)
	if n, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, buf); err != nil || !sync {
		return n, err
	}
	return n, out.Sync()
}

func removeAll(t testing.TB, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
