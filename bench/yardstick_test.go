package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// yardstickVariable names, in the environment of a child, the yardstick that
// it is: it runs in a process of its own, so that its CPU and memory can be
// told from the harness's.
const yardstickVariable = "BENCH_YARDSTICK"

// yardsticks are what the program is compared with.
var yardsticks = map[string]func(args []string) error{
	"floor":     runFloor,
	"documents": runDocuments,
	"answers":   runAnswers,
}

// yardstickCommand is the harness again, to be run as a yardstick.
func yardstickCommand(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), yardstickVariable+"="+name)
	return cmd
}

// yardstick runs one to its end.
func (b *bench) yardstick(t *testing.T, name string, args ...string) (cpuSeconds, peakMiB float64) {
	t.Helper()
	cmd := yardstickCommand(t, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("the yardstick %s: %v\n%s", name, err, out.Bytes())
	}
	// A yardstick says last how much memory it has had: the kernel's figure for
	// the parent would count the parent's own.
	fields := bytes.Fields(out.Bytes())
	if len(fields) == 0 {
		t.Fatalf("the yardstick %s said nothing", name)
	}
	peakMiB, err := strconv.ParseFloat(string(fields[len(fields)-1]), 64)
	if err != nil {
		t.Fatalf("the yardstick %s said %q", name, out.Bytes())
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), peakMiB
}

// floor is what folding the n events of a topic costs at least, in CPU-seconds
// a million: no state, no answers, one known shape of event.
func (b *bench) floor(t *testing.T, topic string, n int) float64 {
	t.Helper()
	used, _ := b.yardstick(t, "floor", b.broker.address, topic, strconv.Itoa(n))
	return used / float64(n) * 1e6
}

// runFloor fetches, scans what it knows to be there, and adds in a map.
func runFloor(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("floor wants a broker, a topic and a number of events, not %q", args)
	}
	want, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	at := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		at[p] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(args[0]), kgo.DisableClientMetrics(), kgo.FetchMaxPartitionBytes(4<<20),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{args[1]: at}))
	if err != nil {
		return err
	}
	defer client.Close()
	var totals [partitions]map[int64]*total
	for p := range totals {
		totals[p] = map[int64]*total{}
	}
	for n := 0; n < want; {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			add(totals[r.Partition], r.Value)
		})
	}
	fmt.Println(peak(os.Getpid()))
	return nil
}

// add scans one event of the generator's shape.
func add(totals map[int64]*total, b []byte) {
	user, rest := digits(b[len(`{"userId":`):])
	at := rest[len(`,"saleTimestamp":"`):]
	month, _ := digits(at[5:])
	day, _ := digits(at[8:])
	hour, _ := digits(at[11:])
	minute, _ := digits(at[14:])
	second, _ := digits(at[17:])
	milli, rest := digits(at[20:])
	units, rest := digits(rest[len(`Z","totalRevenue":`):])
	cents, rest := digits(rest[1:])
	points, _ := digits(rest[len(`,"totalPoints":`):])
	t := totals[user]
	if t == nil {
		t = new(total)
		totals[user] = t
	}
	t.sales++
	t.cents += units*100 + cents
	t.points += points
	t.latest = max(t.latest, ((((month*31+day)*24+hour)*60+minute)*60+second)*1000+milli)
}

// digits reads a number; a sign is passed over, since the floor's totals are
// not looked at.
func digits(b []byte) (n int64, rest []byte) {
	if b[0] == '-' {
		b = b[1:]
	}
	for len(b) > 0 && b[0]-'0' <= 9 {
		n = n*10 + int64(b[0]-'0')
		b = b[1:]
	}
	return n, b
}
