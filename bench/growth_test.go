package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// growthPoints are the points of the curve: each is the mean of as many batches.
const growthPoints = 8

// sale is what the model folds: an event that needs no decoding.
type sale struct {
	user                  int32
	cents, points, latest int64
}

// union is a small model of history = union(history, batch).reduceByKey, as the
// jobs do it that Tidemark replaces. It is generous: no decoding, no shuffle
// over a network, no disk; what a reduce costs is a pass over what it reads.
type union struct {
	batches [][]sale // the lineage
	totals  map[int32]total
}

// recompute is a batch where nothing is kept but the lineage: the whole of it
// is reduced again.
func (u *union) recompute() int {
	totals := map[int32]total{}
	for _, b := range u.batches {
		reduce(totals, b)
	}
	return len(totals)
}

// cached is a batch where the totals before it are kept in memory: union and
// reduce make new ones of all users, since the old ones are immutable. A few
// batches of a point are measured; the others go in by the short way.
func (u *union) cached(batch []sale) {
	next := make(map[int32]total, len(u.totals))
	for user, t := range u.totals {
		next[user] = t
	}
	reduce(next, batch)
	u.totals = next
}

func reduce(totals map[int32]total, batch []sale) {
	for _, s := range batch {
		t := totals[s.user]
		t.sales++
		t.cents += s.cents
		t.points += s.points
		t.latest = max(t.latest, s.latest)
		totals[s.user] = t
	}
}

// measureGrowth folds an hour's worth of batches, a point of the curve in as long
// as a flush takes to come round, and has the model do the same.
func measureGrowth(t *testing.T, b *bench, s *section) {
	topic, g := b.name("growth"), newSales(b.size.Users, uniform, 4)
	b.broker.createTopic(t, topic, partitions)
	svc := b.newService(t, settings{topic: topic, group: topic})
	m := b.meter()
	svc.start(t)
	svc.ready(t, time.Minute)

	size := b.size.Batches / growthPoints
	var ours, recomputed, cached []float64 // milliseconds a batch
	model := &union{totals: map[int32]total{}}
	rnd := rand.New(rand.NewPCG(5, 7))
	for point := range growthPoints {
		began, at := time.Now(), svc.cpu()
		for batch := range size {
			<-time.After(time.Until(began.Add(time.Duration(batch) * b.pace() / time.Duration(size))))
			b.fill(t, topic, g, b.size.Batch)
			svc.folds(t, time.Minute, 20*time.Millisecond, int64((point*size+batch+1)*b.size.Batch))
		}
		<-time.After(time.Until(began.Add(b.pace())))
		ours = append(ours, (svc.cpu()-at)/float64(size)*1000)

		const measured = 3
		mine := own()
		for i := range size {
			if i == max(0, size-measured) {
				mine = own()
			}
			batch := make([]sale, b.size.Batch)
			for j := range batch {
				batch[j] = sale{int32(rnd.IntN(b.size.Users)), int64(j), int64(j), int64(j)}
			}
			model.batches = append(model.batches, batch)
			if i < size-measured {
				reduce(model.totals, batch)
				continue
			}
			model.cached(batch)
		}
		cached = append(cached, (own()-mine)/float64(min(size, measured))*1000)
		mine = own()
		if got := model.recompute(); got != len(model.totals) {
			t.Fatalf("the two models have %d and %d users", got, len(model.totals))
		}
		recomputed = append(recomputed, (own()-mine)*1000)
		b.say("growth: after %d batches %.1f ms a batch; union and reduce: %.0f ms cached, %.0f ms recomputed",
			(point+1)*size, ours[point], cached[point], recomputed[point])
	}
	svc.stop(t)
	other := m.others(svc.cpu())
	b.broker.deleteTopic(t, topic)

	last := growthPoints - 1
	s.add(figure{What: fmt.Sprintf("a batch of %s events, over %d batches (an hour of one each %s)", grouped(strconv.Itoa(b.size.Batch)), size*growthPoints, time.Hour/time.Duration(size*growthPoints)), Unit: "CPU-ms", Values: ours, Other: other,
		Note: "each value is the mean of an eighth of the batches"})
	s.add(figure{What: "the last eighth against the second", Unit: "ratio", Target: atMost(1.25), Values: []float64{ours[last] / ours[1]}, Other: -1, Note: "flat is 1; the first holds the start"})
	s.add(figure{What: "the same of union and reduce, cached", Unit: "ratio", Values: []float64{cached[last] / cached[0]}, Other: -1, Note: "a model in memory without decoding"})
	s.add(figure{What: "the same of union and reduce, recomputed", Unit: "ratio", Values: []float64{recomputed[last] / recomputed[0]}, Other: -1, Note: "the same, nothing kept but the lineage"})
	s.Chart = chart("CPU-milliseconds of a batch, by how many batches came before", size, []curve{
		{"tidemark", ours}, {"union and reduce, the totals cached", cached}, {"union and reduce, recomputed", recomputed},
	})
}

// curve is a line of the chart.
type curve struct {
	name   string
	values []float64
}

// chart draws curves as bars on one logarithmic scale.
func chart(title string, step int, curves []curve) string {
	const width = 40
	least, most := math.Inf(1), 0.0
	for _, c := range curves {
		for _, v := range c.values {
			if v > 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s (logarithmic):\n\n```\n", title)
	for _, c := range curves {
		fmt.Fprintf(&out, "%s\n", c.name)
		for i, v := range c.values {
			n := 1
			if v > 0 && most > least {
				n += int(math.Log(v/least) / math.Log(most/least) * width)
			}
			fmt.Fprintf(&out, "  %6d %10s %s\n", (i+1)*step, number(v), strings.Repeat("#", n))
		}
	}
	out.WriteString("```\n")
	return out.String()
}
