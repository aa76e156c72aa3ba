package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files anew")

const pageFile = "../docs/configuration.md"

// TestPage keeps docs/configuration.md as the table has it.
func TestPage(t *testing.T) {
	want := page()
	if *update {
		if err := os.WriteFile(pageFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what the table of keys gives: run make generate", pageFile)
	}
}

// TestPageExample keeps the example at the top of the page a file that passes.
func TestPageExample(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	if err := os.WriteFile(file, []byte(pageExample), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(file, environment(nil), Options{})
	if err != nil {
		t.Fatalf("the example does not pass:\n%v", err)
	}
	if cfg.History.Cut.Mode != "latest" || cfg.Definition == nil || cfg.Program == nil {
		t.Errorf("the example is read as %+v", cfg)
	}
}

const pageExample = `query: |
  SELECT userId,
         CAST(max(saleTimestamp) AS timestamp) AS latestSaleTimestamp,
         sum(totalRevenue)                     AS totalRevenue,
         sum(totalPoints)                      AS totalPoints,
         collect_set(productList)              AS productList,
         count(*)                              AS sales
  FROM sales
  GROUP BY userId
kafka:
  bootstrap.servers: [localhost:9092]
  group.id: tidemark-sales
history:                      # leave it out, and the totals start at zero
  file: history.ndjson
  cut: {mode: latest}
state:
  dir: ./tidemark-data
http:
  listen: 127.0.0.1:8080
`

const pageHead = `# Configuration

<!-- Generated from the table in config/keys.go by make generate. -->

` + "`tidemark serve -c tidemark.yaml`" + ` reads one YAML file. ` + "`tidemark check -c tidemark.yaml`" + ` gives the same verdict on it
without connecting to anything. A file to copy:

` + "```yaml\n" + pageExample + "```" + `

## Rules

- **Names.** Kafka's settings have Kafka's names, dots included: ` + "`group.id`" + ` under ` + "`kafka`" + ` is one name. Below, a dot
  otherwise stands for a step inward: ` + "`history.cut.mode`" + ` is ` + "`history: {cut: {mode: …}}`" + `.
- **Strict.** An unknown key, a key given twice, a value of the wrong form and a setting that would have no effect are
  errors. All of them are reported at once, each as ` + "`FILE:LINE: …`" + ` with what would be accepted, and the exit status is 2.
  Errors of a query read ` + "`FILE:LINE: query:LINE:COLUMN: …`" + `, the second place being the one within its text.
- **Empty means unset.** A key with an empty text, list or mapping has its default, as if it were not there.
- **Environment.** ` + "`${NAME}`" + ` in a value becomes the environment variable, ` + "`${NAME:default}`" + ` has a default (all up to the
  next ` + "`}`" + `, which may be nothing), ` + "`$${`" + ` is a plain ` + "`${`" + `. Keys and comments are left alone. A variable that is set to
  nothing gives nothing. Variables that are not set and have no default are reported, all at once; ` + "`check --allow-unset`" + `
  puts something that fits in their place. What a variable brings in is never printed.
- **Paths.** A relative path is relative to the folder of the configuration file.
- **Secrets.** A secret may be given as ` + "`file:PATH`" + `: the file's content, without the line's end. No secret is ever printed.
- **Lists.** Where a list is wanted, one text alone will do; addresses, indices and origins may then stand with commas
  between them.
- **Durations** carry their unit: ` + "`500ms`, `30s`, `5m`, `24h`, `7d`" + `. **Bytes** are plain numbers or carry one:
  ` + "`64MB`" + ` is 64 · 1000², ` + "`64MiB`" + ` is 64 · 1024². **Times** are RFC 3339. **Shares** go from 0 to 1. Words are taken in any
  case.
- **Document paths** are names with dots, ` + "`user.id`" + `; a name that holds a dot stands in backquotes.

## Settings together

- ` + "`query` or `query_file`, `kafka.bootstrap.servers` and `kafka.group.id`" + ` are required.
- ` + "`sasl.*`" + ` go with ` + "`security.protocol` `SASL_PLAINTEXT` or `SASL_SSL`" + `, and ` + "`ssl.*` with `SSL` or `SASL_SSL`" + `.
- A history is ` + "`history.file` or `history.elasticsearch`" + `, and then ` + "`history.cut`" + ` is required: where the stream takes over has
  no default. Of the cut's settings only those of its mode may be given.
- The other members ask this one at ` + "`http.advertise`" + `. With a loopback address there, or in ` + "`http.listen`" + `, and brokers that are
  elsewhere, ` + "`serve`" + ` does not start.

## What events and documents may look like

One whole JSON object in UTF-8, a byte order mark before it allowed; the same rules read events and history documents. What does not fit is a
[bad record](errors.md#bad-records), which spoils itself alone.

- **Names** match exactly, never by case. A name that the query reads may not be there twice. Fields that it does not read may hold anything
  that is JSON, up to 10000 arrays and objects deep.
- **Numbers**: JSON's, with exponents, or the same as a text. At most 38 digits before and after the point, zeros at the ends not counted.
- **Timestamps**: RFC 3339 with ` + "`T`" + ` or a blank between date and time, with or without seconds, with up to nine digits behind them, and ` + "`Z`, `+02:00`,\n  `+0200`" + ` or no zone, which is ` + "`events.timestamp_zone`" + ` then. Or a number, also as a text, of seconds since 1970 from 10⁸ on, milliseconds from 10¹¹,
  microseconds from 10¹⁴ or nanoseconds from 10¹⁷. A date without a time is none.
- **Null**: for a sum, a minimum, a maximum, an average or a key a bad record, unless the query says what it is, as ` + "`COALESCE(x, 0)`" + ` does; absent for
  ` + "`count`, `first`, `last` and `collect_set`" + `.
`

// page is docs/configuration.md.
func page() string {
	var sections []string
	for _, k := range keys {
		if at := parent(k.path); !slices.Contains(sections, at) {
			sections = append(sections, at)
		}
	}
	var b strings.Builder
	b.WriteString(pageHead)
	for _, section := range sections {
		title := "Top level"
		if section != "" {
			title = "`" + shown(section) + "`"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | default | unit | meaning |\n|---|---|---|---|---|\n", title)
		for _, k := range keys {
			if parent(k.path) != section {
				continue
			}
			def := ""
			if k.def != "" {
				def = "`" + k.def + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", last(k.path), k.kind.name, def, k.unit, k.meaning)
		}
	}
	return b.String()
}
