package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// target is what a figure is to be; the zero value says nothing.
type target struct {
	Sign  string // "≤" or "≥"
	Value float64
}

func atMost(v float64) target  { return target{"≤", v} }
func atLeast(v float64) target { return target{"≥", v} }

func (t target) met(v float64) bool {
	if t.Sign == "≤" {
		return v <= t.Value
	}
	return v >= t.Value
}

// figure is a line of the table.
type figure struct {
	What   string
	Unit   string
	Target target
	Values []float64 // one a run; the median is what is compared
	Other  float64   // CPU seconds of others, the most of a run; -1 where they were not counted
	Note   string
}

// section is what one measurement gave; it is kept in a file of its own, so
// that measurements can be made anew one by one.
type section struct {
	Name, Machine, Broker, Sizes string
	Full                         bool // made with the default sizes
	When                         time.Time
	Figures                      []figure
	Chart                        string // text to show beneath the table
	Failed                       bool
}

func (s *section) add(f figure) { s.Figures = append(s.Figures, f) }

// number shows a figure with three digits, or all before the point.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "none"
	case math.Abs(v) >= 1000:
		return grouped(fmt.Sprintf("%.0f", v))
	case math.Abs(v) >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case math.Abs(v) >= 0.1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// grouped puts a comma before each three digits.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// line is the figure as a row of the table.
func (f figure) line() string {
	m := median(f.Values)
	want, verdict := "", ""
	if f.Target.Sign != "" {
		want = f.Target.Sign + " " + number(f.Target.Value)
		verdict = "**no**"
		if f.Target.met(m) {
			verdict = "yes"
		}
	}
	spread, other := "", ""
	if len(f.Values) > 1 {
		spread = number(slices.Min(f.Values)) + "…" + number(slices.Max(f.Values))
	}
	if f.Other >= 0 {
		other = number(f.Other)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |", f.What, f.Unit, want, number(m), spread, verdict, other, f.Note)
}

const tableHead = `| what | unit | target | measured | min…max | met | other load | notes |
|---|---|---|---|---|---|---|---|`

// table shows sections as one table, what they were made on above it.
func table(sections []section) string {
	var b strings.Builder
	var heads []string
	for _, s := range sections {
		head := fmt.Sprintf("%s. Broker: %s.", s.Machine, s.Broker)
		if !s.Full {
			head += " **Not the default sizes, do not quote:** " + s.Sizes + "."
		}
		if !slices.Contains(heads, head) {
			heads = append(heads, head)
		}
	}
	for _, h := range heads {
		fmt.Fprintf(&b, "- %s\n", h)
	}
	fmt.Fprintf(&b, "\n%s\n", tableHead)
	for _, s := range sections {
		fmt.Fprintf(&b, "| **%s** |  |  |  |  |  |  | %s |\n", s.Name, s.When.UTC().Format("2006-01-02 15:04 UTC"))
		for _, f := range s.Figures {
			fmt.Fprintln(&b, f.line())
		}
		if s.Failed {
			fmt.Fprintf(&b, "| %s: **failed**, see the log of the run |  |  |  |  |  |  |  |\n", s.Name)
		}
	}
	if text := against(sections); text != "" {
		fmt.Fprintf(&b, "\n%s", text)
	}
	for _, s := range sections {
		if s.Chart != "" {
			fmt.Fprintf(&b, "\n%s", s.Chart)
		}
	}
	return b.String()
}

const (
	beginMark = "<!-- measured: written by make bench -->"
	endMark   = "<!-- end of measured -->"
)

// between puts text between the marks of a page.
func between(page, text string) (string, error) {
	before, rest, ok := strings.Cut(page, beginMark)
	_, after, found := strings.Cut(rest, endMark)
	if !ok || !found {
		return "", fmt.Errorf("the page lacks %s or %s", beginMark, endMark)
	}
	return before + beginMark + "\n\n" + text + "\n" + endMark + after, nil
}

// keep writes a section to its file in dir.
func (s section) keep(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.Name+".json"), text, 0o644)
}

// kept reads the sections in dir, in the order of the measurements; missing
// says that one is not there.
func kept(dir string) (sections []section, missing bool, err error) {
	for _, m := range measurements {
		text, err := os.ReadFile(filepath.Join(dir, m.name+".json"))
		if errors.Is(err, os.ErrNotExist) {
			missing = true
			continue
		}
		var s section
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the results of %s: %w", m.name, err)
		}
		sections = append(sections, s)
	}
	return sections, missing, nil
}

func TestReport(t *testing.T) {
	s := section{Name: "drain", Machine: "2 cores", Broker: "Kafka", Full: true, When: time.Unix(0, 0),
		Figures: []figure{
			{What: "CPU", Unit: "CPU-s/M", Target: atMost(0.55), Values: []float64{0.6, 0.5, 0.52}, Other: 1.25},
			{What: "rate", Unit: "events/s", Target: atLeast(2e6), Values: []float64{1234567}, Other: -1, Note: "slow"},
		}, Chart: "chart\n"}
	page, err := between("# Speed\n"+beginMark+"\nold\n"+endMark+"\nprose\n", table([]section{s}))
	if err != nil {
		t.Fatal(err)
	}
	want := "# Speed\n" + beginMark + "\n\n- 2 cores. Broker: Kafka.\n\n" + tableHead + `
| **drain** |  |  |  |  |  |  | 1970-01-01 00:00 UTC |
| CPU | CPU-s/M | ≤ 0.55 | 0.52 | 0.50…0.60 | yes | 1.25 |  |
| rate | events/s | ≥ 2,000,000 | 1,234,567 |  | **no** |  | slow |

chart

` + endMark + "\nprose\n"
	if page != want {
		t.Errorf("the page is\n%s\nwant\n%s", page, want)
	}
	if _, err := between("# Speed\n"+endMark+beginMark, ""); err == nil {
		t.Error("a page with its marks the wrong way round was written to")
	}
	dir := t.TempDir()
	if err := s.keep(dir); err != nil {
		t.Fatal(err)
	}
	sections, missing, err := kept(dir)
	if err != nil || len(sections) != 1 || !missing || table(sections) != table([]section{s}) {
		t.Errorf("kept: %v %v %v", sections, missing, err)
	}
}
