package bench

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// measureStart starts the program on states that are there, with nothing new in
// the topic: from the start of the process to ready.
func measureStart(t *testing.T, b *bench, s *section) {
	for _, users := range []int{b.size.Users, b.size.Many} {
		f := b.fillUp(t, users)
		var took, used []float64
		other := 0.0
		for range b.size.Runs {
			svc := b.newService(t, f.set)
			m := b.meter()
			svc.start(t)
			d := svc.ready(t, time.Minute)
			at := svc.cpu()
			svc.stop(t)
			took, used = append(took, d.Seconds()), append(used, at)
			other = max(other, m.others(svc.cpu()))
			b.say("start on %d users: %s, %.2f CPU-s", users, d.Round(time.Millisecond), at)
		}
		s.add(figure{What: fmt.Sprintf("start on %s users: live", grouped(strconv.Itoa(users))), Unit: "s", Target: atMost(2), Values: took, Other: other,
			Note: fmt.Sprintf("%.2f CPU-s, joining the group included", median(used))})
	}
}
