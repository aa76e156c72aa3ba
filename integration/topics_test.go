//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"
)

// A topic of the same name is not the same topic: its partitions pause, and
// what was answered stays, also where the new end is higher than the position.
func TestK04TopicMadeAnewPauses(t *testing.T) {
	for _, while := range []string{"running", "stopped"} {
		t.Run(while, func(t *testing.T) {
			topic := newTopic(t, 1)
			s := serve(t, settings{query: fmt.Sprintf(revenueQuery, topic)})
			for range 5 {
				produce(t, topic, 0, sale("U-4", "1.00"))
			}
			s.caughtUp(topic)
			// What is not yet applied when the topic goes is not known to be of it.
			s.until(30*time.Second, "applied", func() error {
				if n := s.metric(t, "tidemark_apply_records_sum"); n != "5" {
					return fmt.Errorf("%s records applied", n)
				}
				return nil
			})
			if while == "stopped" {
				s.stop()
			}
			deleteTopic(t, topic)
			createTopic(t, kafka(t), topic, 1)
			for range 10 {
				produce(t, topic, 0, sale("U-4", "100.00"))
			}
			if while == "stopped" {
				s.start()
			}
			s.until(90*time.Second, "paused", func() error {
				st, err := s.status()
				if err != nil {
					return err
				}
				if len(st.Partitions) != 1 {
					return fmt.Errorf("%d partitions", len(st.Partitions))
				}
				// With what the state holds of the old topic, and no more.
				if p := st.Partitions[0]; p.State != "paused" || p.Reason == "" || p.Counts.Folded != 5 || p.Position != 5 {
					return fmt.Errorf("%+v, want paused with a reason, at 5", p)
				}
				return nil
			})
			if while == "running" {
				s.want("U-4", `{"revenue":5,"sales":5}`)
			}
		})
	}
}

// A partition that appears later begins at its beginning, with "latest" too.
func TestK05PartitionsAddedLaterAreReadFromTheirBeginning(t *testing.T) {
	topic := newTopic(t, 3)
	s := serve(t, settings{query: fmt.Sprintf(revenueQuery, topic), kafka: "auto.offset.reset: latest"})
	s.caughtUp(topic)
	addPartitions(t, topic, 4)
	// Before anybody can have noticed.
	var twenty []string
	for range 20 {
		twenty = append(twenty, sale("U-5", "1.00"))
	}
	eventually(t, 30*time.Second, "leader of the new partition", func() error {
		if n := len(ends(t, topic)); n != 4 {
			return fmt.Errorf("%d partitions", n)
		}
		return nil
	})
	produce(t, topic, 3, twenty...)
	s.until(45*time.Second, "twenty sales of the new partition", func() error {
		r, err := s.row("U-5")
		if err != nil {
			return err
		}
		if text(r.Row["sales"]) != "20" {
			return fmt.Errorf("row %v, want 20 sales", r.Row)
		}
		return nil
	})
	s.caughtUp(topic)
	s.want("U-5", `{"revenue":20,"sales":20}`)
}

// What retention removed before it was folded is a gap: nothing goes on
// unseen, and the number is said.
func TestK01RecordsRemovedBeforeTheyWereFolded(t *testing.T) {
	topic := newTopic(t, 1)
	set := settings{query: fmt.Sprintf(revenueQuery, topic)}
	s := serve(t, set)
	fill := func(n int) {
		var values []string
		for range n {
			values = append(values, sale("U-1", "1.00"))
		}
		produce(t, topic, 0, values...)
	}
	fill(50)
	s.caughtUp(topic)
	s.eventuallyWant("U-1", `{"sales":50}`)
	s.stop()
	fill(50)
	deleteRecords(t, topic, 0, 75)
	s.start()
	s.until(60*time.Second, "gap", func() error {
		st, err := s.status()
		if err != nil {
			return err
		}
		if len(st.Partitions) != 1 || st.Partitions[0].State != "gap" || st.Partitions[0].Reason == "" {
			return fmt.Errorf("%+v, want state gap with a reason", st.Partitions)
		}
		return nil
	})
	if code, body, err := s.get("/readyz"); err != nil || code != 503 {
		t.Errorf("GET /readyz with a gap: %d %s %v, want 503", code, body, err)
	}
	if got := s.metric(t, "tidemark_gap_records_total"); got != "25" {
		t.Errorf("tidemark_gap_records_total is %s, want 25", got)
	}
	s.stop()

	// Accepted, in the same state, it goes on with the number kept.
	set.dir, set.rest = s.dir, "on_gap: accept"
	again := serve(t, set)
	again.caughtUp(topic)
	again.want("U-1", `{"sales":75,"revenue":75}`)
}
