package bench

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

const topPath = "/v1/aggregates?order=-totalRevenue&limit=10"

// measureTop asks for the first rows by one result over all users: the first
// time after a start, and again and again while events come in.
func measureTop(t *testing.T, b *bench, s *section) {
	f := b.fillUp(t, b.size.Users)
	var cold, quiet, foldingMedian, foldingP99 []float64
	var other float64
	for run := range b.size.Runs {
		svc := b.newService(t, f.set)
		m := b.meter()
		svc.start(t)
		svc.ready(t, time.Minute)
		cold = append(cold, milliseconds(askOnce(t, svc.address, askTop)))
		again := press(t, svc.address, 1, 20*time.Millisecond, b.span()/5, askTop)
		quiet = append(quiet, quantile(again, 0.5))
		other = max(other, m.others(svc.cpu()))
		if run < b.size.Runs-1 {
			svc.stop(t)
			continue
		}
		load := b.offer(t, f.set.topic, partitions, f.sales, b.size.Load)
		press(t, svc.address, 1, 100*time.Millisecond, b.span()/5, askTop) // the load takes its stride
		m = b.meter()
		at := svc.cpu()
		for range b.size.Runs {
			folding := press(t, svc.address, 1, 50*time.Millisecond, b.span(), askTop)
			foldingMedian, foldingP99 = append(foldingMedian, quantile(folding, 0.5)), append(foldingP99, quantile(folding, 0.99))
		}
		busy := m.others(svc.cpu() - at)
		rate := load.stop(t)
		svc.stop(t)
		what := fmt.Sprintf("first 10 of %s users: ", grouped(strconv.Itoa(b.size.Users)))
		s.add(figure{What: what + "cold", Unit: "ms", Target: atMost(300), Values: cold, Other: other, Note: "the first request after a start"})
		s.add(figure{What: what + "asked again", Unit: "ms", Values: quiet, Other: other, Note: "median, nothing new"})
		s.add(figure{What: what + "asked again while folding, median", Unit: "ms", Target: atMost(10), Values: foldingMedian, Other: busy, Note: foldingAt(rate)})
		s.add(figure{What: what + "asked again while folding, p99", Unit: "ms", Values: foldingP99, Other: busy, Note: foldingAt(rate)})
		b.say("top: cold %.0f ms, again %.2f ms, while folding %.2f ms, p99 %.2f ms", median(cold), median(quiet), median(foldingMedian), median(foldingP99))
	}
}

func askTop(c *conn, _, _ int) error {
	_, err := c.get(topPath)
	return err
}

func foldingAt(rate float64) string {
	return fmt.Sprintf("while folding %s events/s", grouped(strconv.FormatFloat(rate, 'f', 0, 64)))
}
