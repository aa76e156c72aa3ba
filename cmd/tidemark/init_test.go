package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/config"
	"tidemark/internal/testkit"
	"tidemark/internal/testkit/search"
)

var update = flag.Bool("update", false, "write the golden files anew")

// salesTopic has events as a shop may send them, over three partitions.
func salesTopic(t *testing.T) *testkit.Broker {
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	b.CreateTopic("sales", 3)
	for i := range 24 {
		user := i % 7
		value := fmt.Sprintf(`{"saleId":%d,"userId":%d,"saleTimestamp":"2015-07-29T09:17:%02d.000Z","totalRevenue":%d.%02d,"totalPoints":%d,`+
			`"productList":[%d,512],"channel":"%s","shop":{"id":"s-%d","temperature":%d.5},"lines":[{"sku":1}],"gift":%v`,
			1000+i, user, i, i*3, i, i*2, 40+i%3, []string{"web", "app", "test"}[i%3], i%2, 18+i%4, i%5 == 0)
		if i%4 == 0 {
			value += `,"discount":"0.50"`
		}
		b.Produce("sales", int32(i%3), testkit.Text(fmt.Sprint(user), value+"}"))
	}
	b.Produce("sales", 0, testkit.Text("9", "broken {"))
	return b
}

// made is init with some flags and a file to write, which check accepts.
func made(t *testing.T, env map[string]string, args ...string) (text, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	status, said, stderr := tidemark(t, env, append([]string{"init", "-o", file}, args...)...)
	if status != exitDone {
		t.Fatalf("status %d: %s%s", status, said, stderr)
	}
	if status, _, stderr := tidemark(t, env, "check", "-c", file); status != exitDone {
		t.Errorf("check refuses it: %s\n%s", stderr, fileText(t, file))
	}
	if !strings.Contains(said, "tidemark check -c "+file+" --connect") {
		t.Errorf("it does not say what to do next:\n%s", said)
	}
	everyComment(t, env, fileText(t, file))
	return fileText(t, file), said
}

// everyComment takes the dashes away from each line of the query: what is
// proposed as a comment is accepted too.
func everyComment(t *testing.T, env map[string]string, text string) {
	t.Helper()
	getenv := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if strings.Contains(text, "\nhistory:") {
		return // what is off there is off because the documents lack it
	}
	if _, err := config.Parse("all.yaml", []byte(strings.ReplaceAll(text, "    -- ", "       ")), getenv, config.Options{}); err != nil {
		t.Errorf("with every comment: %v\n%s", err, text)
	}
}

// golden compares with a file of testdata, with addresses made the same.
func golden(t *testing.T, name, got string, addresses ...string) {
	t.Helper()
	for i, a := range addresses {
		got = strings.ReplaceAll(got, a, fmt.Sprintf("SERVER-%d", i))
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -update writes it anew. Got:\n%s", file, got)
	}
}

// TestInit: the key that the producers place by, sums, a set, the latest time;
// measured values get min and max, optional ones COALESCE.
func TestInit(t *testing.T) {
	b := salesTopic(t)
	text, said := made(t, nil, "--bootstrap-servers", b.Addrs()[0], "--topic", "sales")
	golden(t, "init.yaml", text, b.Addrs()[0])
	said, _, _ = strings.Cut(said, "\n\n/") // what is said after it names the file
	golden(t, "init.txt", said+"\n", b.Addrs()[0])

	status, printed, table := tidemark(t, nil, "init", "--bootstrap-servers", b.Addrs()[0], "--topic", "sales", "--print")
	if status != exitDone || printed != text || !strings.Contains(table, "FIELD") {
		t.Errorf("--print: status %d, %s%s", status, printed, table)
	}
	text, _ = made(t, nil, "--bootstrap-servers", b.Addrs()[0], "--topic", "sales", "--key", "shop.id", "--key", "channel", "--group", "other")
	for _, want := range []string{"SELECT shop.id,\n         channel,\n", "GROUP BY shop.id, channel", `group.id: "other"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestInitOverwritesNothing, whatever is there.
func TestInitOverwritesNothing(t *testing.T) {
	file := writeConfig(t, "mine")
	status, _, stderr := tidemark(t, nil, "init", "-o", file, "--bootstrap-servers", "127.0.0.1:1", "--topic", "sales")
	if status != exitUsage || !strings.Contains(stderr, file+" is there already") || fileText(t, file) != "mine" {
		t.Errorf("status %d: %s", status, stderr)
	}
	if err := writeNew(file, "other"); err == nil || !strings.Contains(err.Error(), file) || fileText(t, file) != "mine" {
		t.Errorf("it appeared meanwhile: %v, %s", err, fileText(t, file))
	}
	if err := writeNew(filepath.Join(file, "below"), "other"); err == nil {
		t.Error("a file below a file was written")
	}
}

// TestInitNamesWhatIsMissing where there is no terminal, and what does not go
// together.
func TestInitNamesWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all":          {nil, "--bootstrap-servers, --topic is not given"},
		"cut":          {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--history-file", "h.ndjson"}, "--cut is not given"},
		"index":        {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--elasticsearch", "http://x", "--cut", "latest"}, "--index is not given"},
		"two":          {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--elasticsearch", "http://x", "--index", "i", "--history-file", "h", "--cut", "latest"}, "both given"},
		"no history":   {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--cut", "latest"}, "give --elasticsearch or --history-file"},
		"lone index":   {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--index", "i"}, "without --elasticsearch"},
		"bad cut":      {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--history-file", "h", "--cut", "now"}, `the cut "now"`},
		"plain secret": {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--sasl-password", "hunter2"}, "given as ${NAME} or file:PATH"},
		"unset secret": {[]string{"--bootstrap-servers", "x:1", "--topic", "s", "--security-protocol", "SASL_SSL", "--sasl-mechanism", "PLAIN", "--sasl-username", "u", "--sasl-password", "${NOT_SET}"}, "NOT_SET"},
		"topic":        {[]string{"--bootstrap-servers", "x:1", "--topic", "a/b"}, "topic"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := tidemark(t, nil, append([]string{"init", "-o", filepath.Join(t.TempDir(), "x.yaml")}, c.args...)...)
			if status != exitUsage || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "hunter2") {
				t.Errorf("status %d: %s", status, stderr)
			}
		})
	}
}

// TestInitSaysWhyATopicWillNotDo: D01, D03, D09, D14 as they are seen before a
// service runs.
func TestInitSaysWhyATopicWillNotDo(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	for topic, c := range map[string]struct {
		messages []testkit.Message
		want     string
	}{
		"empty":    {nil, "has no records yet"},
		"avro":     {[]testkit.Message{testkit.Text("1", "\x00\x00\x00\x00\x07\x02a")}, "begin with a zero byte, as Avro"},
		"binary":   {[]testkit.Message{testkit.Text("1", "\x1f\x8b\xff\xfe")}, "are binary"},
		"text":     {[]testkit.Message{testkit.Text("1", "hello"), testkit.Text("1", "[1]"), testkit.Text("1", "null")}, "text that is no JSON object"},
		"keysonly": {[]testkit.Message{{Key: []byte("1")}, {Key: []byte("2")}}, "keys and without values"},
		"keyless":  {[]testkit.Message{testkit.Text("", `{"n":1,"amount":2.5}`)}, "no field looks like the key of the totals: name one with --key; there are n, amount\n"},
		"keyed":    {[]testkit.Message{testkit.Text("device-1", `{"n":1,"amount":2.5}`)}, `the records' own keys, such as "device-1", are not read: it must be a field of the value`},
	} {
		b.CreateTopic(topic, 2)
		if len(c.messages) > 0 {
			b.Produce(topic, 1, c.messages...)
		}
		file := filepath.Join(t.TempDir(), "x.yaml")
		_, _, stderr := tidemark(t, nil, "init", "-o", file, "--bootstrap-servers", b.Addrs()[0], "--topic", topic)
		if !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %s", topic, stderr)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s: a file is written", topic)
		}
	}
	status, _, stderr := tidemark(t, nil, "init", "--print", "--bootstrap-servers", b.Addrs()[0], "--topic", "nowhere")
	if status != exitFailed || !strings.Contains(stderr, "topic nowhere does not exist") {
		t.Errorf("a topic that is not there: status %d: %s", status, stderr)
	}
	status, _, stderr = tidemark(t, nil, "init", "--print", "--bootstrap-servers", "127.0.0.1:1", "--topic", "sales")
	if status != exitFailed || !strings.Contains(stderr, "nothing listens there") {
		t.Errorf("no broker: status %d: %s", status, stderr)
	}
}

// TestInitWithAHistory: results take the names of the documents' fields, and
// what no document has is left out.
func TestInitWithAHistory(t *testing.T) {
	b := salesTopic(t)
	server := search.New(t, search.Elasticsearch)
	server.Add("salesaggregation", 1,
		`{"user_id":1,"latestSaleTimestamp":"2015-07-22T10:03:00Z","totals":{"totalRevenue":12.05},"totalPoints":91,"productList":[47],"temperatureHigh":3}`,
		`{"user_id":2,"latestSaleTimestamp":"2015-07-22T10:03:00Z","totals":{"totalRevenue":7.05},"totalPoints":41,"productList":47,"temperatureHigh":3}`)
	text, said := made(t, nil, "--bootstrap-servers", b.Addrs()[0], "--topic", "sales", "--elasticsearch", server.URL, "--index", "salesaggregation", "--cut", "guard")
	if !strings.Contains(said, "Documents: the first 2 have all that is wanted.") {
		t.Errorf("it says\n%s", said)
	}
	golden(t, "init-history.yaml", text, b.Addrs()[0], server.URL)

	history := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(history, []byte(`{"account":1,"totalPoints":91}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"init", "--print", "--bootstrap-servers", b.Addrs()[0], "--topic", "sales", "--history-file", history}
	for want, more := range map[string][]string{
		"no field of the documents looks like the key userId; they have account, totalPoints": {"--cut", "latest"},
		"no field of every document looks like the time of its last event":                    {"--cut", "guard", "--history-key", "account"},
		"no document has that field": {"--cut", "latest", "--history-key", "user"},
		"names 2 fields":             {"--cut", "latest", "--history-key", "account,totalPoints"},
	} {
		if status, _, stderr := tidemark(t, nil, append(flags, more...)...); status == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d: %s", more, status, stderr)
		}
	}
	for _, cut := range []string{"earliest", "latest", "2015-07-25T00:00:00Z"} {
		text, _ = made(t, nil, "--bootstrap-servers", b.Addrs()[0], "--topic", "sales", "--history-file", history, "--history-key", "account", "--cut", cut)
		if !strings.Contains(text, `key: ["account"]`) || !strings.Contains(text, "-- sum(totalRevenue)") {
			t.Errorf("cut %s:\n%s", cut, text)
		}
	}
}

// TestInitAsks: what is asked for is what flags leave open, again where the
// answer will not do.
func TestInitAsks(t *testing.T) {
	b := salesTopic(t)
	history := filepath.Join(t.TempDir(), "history.ndjson")
	if err := os.WriteFile(history, []byte(`{"userId":1,"totalRevenue":12.05,"latestSaleTimestamp":"2015-07-22T10:03:00Z"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{getenv: func(string) (string, bool) { return "", false }}
	for name, c := range map[string]struct {
		w       wanted
		answers string
		want    []string
	}{
		"all":       {wanted{}, b.Addrs()[0] + "\n\nsales\n\n\n\n", []string{`group.id: "tidemark-sales"`, "GROUP BY userId", "# history"}},
		"other key": {wanted{brokers: b.Addrs(), topic: "sales"}, "mine\n\nnone\nlines\nchannel\n", []string{`group.id: "mine"`, "GROUP BY channel"}},
		"history":   {wanted{brokers: b.Addrs(), topic: "sales", historyFile: history}, "\nuserId\nnever\nguard\n", []string{"mode: guard", `guard_field: "latestSaleTimestamp"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c.w.output = "tidemark.yaml"
			text, err := p.compose(t.Context(), &c.w, newAsker(strings.NewReader(c.answers), &out), &out)
			if err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s%s", want, &out, text)
				}
			}
		})
	}
	var out bytes.Buffer
	if _, err := p.compose(context.Background(), &wanted{output: "x"}, newAsker(strings.NewReader("localhost:1\n"), &out), &out); err == nil || !strings.Contains(err.Error(), "no answer came") {
		t.Errorf("the input ends: %v", err)
	}
}

// TestInitQuotesWhatIsOdd: names of any kind make a query that is accepted.
func TestInitQuotesWhatIsOdd(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	b.CreateTopic("odd.topic-1", 1)
	b.Produce("odd.topic-1", 0, testkit.Text("k", `{"select":"k","a b":{"c.d":1.5},"x`+"`"+`y":2,"${HOME}":3,"":4,"q\"":5,"\u0000":6,"-- x":7,"a":{"n":1},"b":{"n":2},"events":8,"empty":{},"nil":null,"deep":[[1]]}`))
	text, _ := made(t, nil, "--bootstrap-servers", b.Addrs()[0], "--topic", "odd.topic-1", "--key", "`select`")
	golden(t, "init-odd.yaml", text, b.Addrs()[0])
}

// TestInitKnowsTimesByTheirNames: a name with a unit is a time where its
// numbers are instants, and no sum; a length of time is none.
func TestInitKnowsTimesByTheirNames(t *testing.T) {
	b := testkit.NewBroker(t, testkit.BrokerOptions{})
	b.CreateTopic("times", 1)
	for i := range 3 {
		b.Produce("times", 0, testkit.Text("7", fmt.Sprintf(`{"userId":7,"ts_ms":%d,"eventTimeMillis":%d,"epoch":%d,"responseTimeMs":%d,"duration_ms":%d}`,
			1438161432000+i, 1438161432000+i, 1438161432+i, 120+i, 1438161432000+i)))
	}
	text, _ := made(t, nil, "--bootstrap-servers", b.Addrs()[0], "--topic", "times")
	for _, name := range []string{"ts_ms", "eventTimeMillis", "epoch"} {
		if !strings.Contains(text, "CAST(max("+name+") AS timestamp)") || strings.Contains(text, "sum("+name+")") {
			t.Errorf("%s is taken for no time:\n%s", name, text)
		}
	}
	for _, name := range []string{"responseTimeMs", "duration_ms"} {
		if !strings.Contains(text, "sum("+name+")") {
			t.Errorf("%s is taken for a time:\n%s", name, text)
		}
	}
}
