package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/internal/testkit"
)

// TestK14IdsThatLookRandom: a warning where the name will be another one after
// a restart, and none for names that stay.
func TestK14IdsThatLookRandom(t *testing.T) {
	for id, random := range map[string]bool{
		"agg-7c9f8d5b6-x2x4z":                  true, // a Deployment's pod
		"tidemark-sales-6d4cf56db6-9hk2p":      true,
		"agg-bcdfghjklm-bcdfg":                 true,
		"agg-x2x4z":                            true, // a DaemonSet's pod
		"2f1c9a0e-7a53-4c58-9d5e-0b5c8a9f6c11": true, // a UUID
		"agg_2F1C9A0E7A534C58":                 true,
		"3fa9c1d20b7e":                         true, // a container's id
		"agg.0e1f2a3b4c5d":                     true,
		"":                                     false,
		"agg-0":                                false, // a StatefulSet's pod
		"tidemark-sales-12":                    false,
		"agg-north":                            false,
		"agg-zone2":                            false,
		"agg-rack-b41":                         false,
		"agg-20260102":                         false,
		"feedface":                             false,
		"sales-aggregator-eu-west-1b":          false,
		"ip-10-0-1-2":                          false,
		"host17.example.net":                   false,
		"totals-prd24":                         false,
	} {
		got := Config{GroupInstanceID: id}.Warnings()
		if (len(got) > 0) != random {
			t.Errorf("%q: %q, want a warning: %t", id, got, random)
		}
		if random && (!strings.Contains(got[0], id) || !strings.Contains(got[0], DefaultSessionTimeout.String())) {
			t.Errorf("%q: %q names neither the id nor how long it takes", id, got)
		}
	}
}

// TestK14LeaveOnShutdown: whether the partitions of a member that ends go to
// the others at once is chosen, for static members and for dynamic ones.
func TestK14LeaveOnShutdown(t *testing.T) {
	for _, c := range []struct {
		name, leave, id string
		leaves          bool
	}{
		{"a static member that leaves", LeaveTrue, "agg-7c9", true},
		{"a static member by default", "", "agg-7c9", false},
		{"a dynamic member that stays", LeaveFalse, "", false},
		{"a dynamic member by default", LeaveAuto, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, cfg := groupBroker(t, 4)
			cfg.SessionTimeout = time.Minute // who waits for it is seen
			l := newLedger(t)
			other := joinGroup(t, cfg, l, "other")
			testkit.Eventually(t, settle, func() bool { return len(other.owns()) == 4 }, "the other has all")
			cfg.LeaveOnShutdown, cfg.GroupInstanceID = c.leave, c.id
			ending := joinGroup(t, cfg, l, "ending")
			testkit.Eventually(t, settle, func() bool {
				return len(ending.owns()) == 2 && len(other.owns()) == 2 && ending.group.Status().Generation == other.group.Status().Generation
			}, "two each, in one generation")
			generation := other.group.Status().Generation
			if err := ending.stop(); err != nil {
				t.Fatal(err)
			}
			var members []Member
			testkit.Eventually(t, settle, func() (known bool) { // not while it rebalances
				var err error
				members, err = other.group.client.members(t.Context())
				return err == nil
			}, "the group says who is in it")
			in := slices.ContainsFunc(members, func(m Member) bool { return m.Address == "http://ending" })
			if in == c.leaves {
				t.Errorf("the group's members are %+v after its end", members)
			}
			if !c.leaves {
				if got := other.group.Status().Generation; got != generation {
					t.Errorf("generation %d became %d though it stays", generation, got)
				}
				return
			}
			testkit.Eventually(t, settle, func() bool { return len(other.owns()) == 4 }, "the other has all again")
		})
	}
}
