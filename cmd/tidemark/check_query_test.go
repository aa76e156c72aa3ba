package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/internal/testkit"
)

// checkSteps runs check and returns its steps of some kinds.
func checkSteps(t *testing.T, kinds string, args ...string) (status int, steps []checked) {
	t.Helper()
	status, stdout, stderr := tidemark(t, nil, append([]string{"check", "--json"}, args...)...)
	var all []checked
	if err := json.Unmarshal([]byte(stdout), &all); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	for _, s := range all {
		if strings.Contains(kinds, s.Step) {
			steps = append(steps, s)
		}
	}
	return status, steps
}

// TestCheckWarnsOfOtherHabits: a text in double quotes, the topic's name before
// a field, and a name that no event has, are read as they stand and warned of;
// events show which of them are meant.
func TestCheckWarnsOfOtherHabits(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales"})
	b.Produce("sales", 0,
		testkit.Text("", `{"userId":1,"revenue":1,"channel":"web","app":"x"}`),
		testkit.Text("", `{`), testkit.Text("k", ""),
		testkit.Text("", `{"userId":1,"revenue":1,"sales":{"revenue":2}}`))
	configure := func(where, sum string) string {
		return writeConfig(t, "query: |\n  SELECT userId, sum("+sum+") AS revenue FROM sales\n  WHERE "+where+" GROUP BY userId\n"+
			"kafka: {bootstrap.servers: ['"+b.Addrs()[0]+"'], group.id: g}\nstate: {dir: '"+t.TempDir()+"/state'}\nhttp: {listen: '127.0.0.1:0'}\n")
	}
	for _, c := range []struct {
		where, sum       string
		offline, sampled []string
	}{
		{"channel = 'web'", "revenue", nil, nil},
		{`channel = "web"`, "revenue", []string{`query:2:17: found "web" as a value`}, []string{`query:2:17: found "web" as a value`}},
		{`channel = "web"`, "revenue", []string{`a text is written 'web'`}, []string{"(none of the newest 2 events has that field)"}},
		{`channel = "app"`, "revenue", []string{`found "app" as a value`}, nil},
		{"sales.channel = 'web'", "revenue", []string{"query:2:7: found sales.channel"}, []string{"write channel (none of the newest 2 events"}},
		{"channel = 'web'", "sales.revenue", []string{"write revenue"}, nil},
		{"Channel = 'web'", "revenue", nil, []string{"none of the newest 2 events has the field Channel"}},
		{"channel = 'web'", "COALESCE(sales.points, 0)", []string{"write points"}, []string{"found sales.points"}},
	} {
		file := configure(c.where, c.sum)
		for _, how := range []struct {
			args []string
			want []string
		}{{[]string{"-c", file}, c.offline}, {[]string{"-c", file, "--connect"}, c.sampled}} {
			status, steps := checkSteps(t, "warning", how.args...)
			want := make([]string, len(how.want))
			for i, text := range how.want {
				want[i] = "warning true " + text
			}
			wantSteps(t, steps, want...)
			if status != exitDone {
				t.Errorf("check %v of %s: status %d", how.args, c.where, status)
			}
		}
	}
}

// TestO04CheckComparesTheDefinition: a query that serve would refuse, since the
// states or the snapshots there are of another one, is refused by check, with
// the clause; a state in use is left alone.
func TestO04CheckComparesTheDefinition(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	b.Produce("sales", 0, testkit.Text("", `{"userId":"1","revenue":2,"points":3}`))
	home := newHome(t, b, "SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId")
	_, steps := checkSteps(t, "definition", "-c", home.file)
	wantSteps(t, steps) // there is no state yet
	s := home.serve()
	s.caughtUp()
	_, steps = checkSteps(t, "definition", "-c", home.file)
	wantSteps(t, steps, "definition true is not compared: state directory is in use")
	s.stop()
	_, steps = checkSteps(t, "definition", "-c", home.file, "--connect")
	wantSteps(t, steps, "definition true the states there are of this query", "definition true the newest snapshots there are of this query")

	// Written otherwise, it is the same query.
	home.query(`select userId as userId, SUM(revenue) revenue from "sales" group by userId;`)
	if status, steps := checkSteps(t, "definition", "-c", home.file); status != exitDone {
		t.Errorf("status %d: %+v", status, steps)
	}

	home.query("SELECT userId, sum(points) AS revenue FROM sales GROUP BY userId")
	const clause = "another definition: SELECT revenue: was sum(revenue), is sum(points); choose another state.dir and group.id"
	status, steps := checkSteps(t, "definition", "-c", home.file)
	wantSteps(t, steps, "definition false the state of partition 0 is of "+clause)
	if status != exitFailed {
		t.Errorf("status %d", status)
	}
	if said := home.serve().ends(exitFailed); !strings.Contains(said, clause) {
		t.Errorf("serve says %s", said)
	}
	// Without the state it is the store of snapshots that says so.
	if err := os.RemoveAll(filepath.Join(home.dir, "partitions")); err != nil {
		t.Fatal(err)
	}
	status, steps = checkSteps(t, "definition", "-c", home.file, "--connect")
	wantSteps(t, steps, "definition false the newest snapshot of partition 0 is of "+clause)
	if status != exitFailed {
		t.Errorf("status %d", status)
	}
}

// TestK04CheckKnowsTheTopicAgain: states of a topic that was deleted and created
// again are refused by check, as serve pauses their partitions.
func TestK04CheckKnowsTheTopicAgain(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{Topic: "sales", Partitions: 2})
	home := newHome(t, b, "SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId")
	s := home.serve()
	s.caughtUp()
	s.stop()
	status, steps := checkSteps(t, "topic", "-c", home.file, "--connect")
	wantSteps(t, steps)
	if status != exitDone {
		t.Errorf("status %d", status)
	}
	b.DeleteTopic("sales")
	b.CreateTopic("sales", 2)
	status, steps = checkSteps(t, "topic", "-c", home.file, "--connect")
	if len(steps) != 1 || status != exitFailed {
		t.Fatalf("status %d: %+v", status, steps)
	}
	if said := fmt.Sprint(steps[0]); !strings.Contains(said, `topic "sales" was deleted and created again`) {
		t.Errorf("it says %s", said)
	}
}

// TestO05AllowUnsetAnywhere: with --allow-unset a variable may stand for any
// value, the query and its file too; without it, it is named.
func TestO05AllowUnsetAnywhere(t *testing.T) {
	const query, kafka = "query: SELECT userId, sum(revenue) AS revenue FROM sales GROUP BY userId\n", "kafka: {bootstrap.servers: [127.0.0.1:9], group.id: g}\n"
	for _, text := range []string{
		"query: ${X}\n" + kafka, "query_file: ${X}\n" + kafka, "query_file: '${X}/sales.sql'\n" + kafka,
		"query: SELECT userId, sum(revenue) AS revenue FROM ${X} GROUP BY userId\n" + kafka,
		"query: |\n  SELECT userId, sum(${X}) AS revenue FROM sales\n  WHERE channel = '${X}' GROUP BY userId\n" + kafka,
		query + "kafka: {bootstrap.servers: ['${X}'], group.id: g}\n", query + "kafka: {bootstrap.servers: '${X}', group.id: '${X}'}\n",
		query + "kafka: {bootstrap.servers: [127.0.0.1:9], group.id: g, session.timeout.ms: '${X}', security.protocol: '${X}', sasl.password: '${X}'}\n",
		query + kafka + "history: {file: '${X}', key: '${X}', cut: {mode: '${X}'}}\n",
		query + kafka + "history: {elasticsearch: {addresses: ['${X}'], index: '${X}', query: '${X}', username: '${X}', password: '${X}'}, cut: {mode: earliest}}\n",
		query + kafka + "state: {dir: '${X}', memory: '${X}', min_free: '${X}', apply_interval: '${X}'}\n",
		query + kafka + "snapshots: {url: '${X}', interval: '${X}', keep: '${X}'}\n",
		query + kafka + "http: {listen: '${X}', advertise: '${X}', tokens: ['${X}'], cors_origins: ['${X}'], tls: {cert_file: '${X}', key_file: '${X}'}}\n",
		query + kafka + "events: {timestamp_zone: '${X}', max_bytes: '${X}', dead_letter: {topic: '${X}'}}\nlog: {level: '${X}'}\n",
	} {
		file := writeConfig(t, text)
		if status, _, stderr := tidemark(t, nil, "check", "--allow-unset", "-c", file); status != exitDone {
			t.Errorf("%s\n--allow-unset: status %d, %s", text, status, stderr)
		}
		if status, _, stderr := tidemark(t, nil, "check", "-c", file); status != exitUsage || !strings.Contains(stderr, "the environment variable X is not set") {
			t.Errorf("%s\nstatus %d, %s", text, status, stderr)
		}
	}
}
