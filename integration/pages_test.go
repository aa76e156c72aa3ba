//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var updatePages = flag.Bool("update", false, "write the answers of docs/tutorial.md and docs/api.md anew")

// walk runs the commands of a page, as its reader would: those behind "$ " in
// blocks of console, in order, in one folder. What stands below a command is
// what it prints.
//
// Of JSON the values are compared, but for those in volatile; of other text, a
// line "…" stands for any number of lines. A command that serves runs until the
// page ends, or the page stops it.
type walk struct {
	t       *testing.T
	file    string
	dir     string
	env     []string
	replace []string // in commands: of the page's addresses, those of the test, in pairs
	shown   []string // in what is printed: of the test's names, those of the page, in pairs
	base    string   // of the service, for when it serves
	served  *exec.Cmd
	exited  chan error
}

// volatile are fields whose values differ from run to run, by their names.
var volatile = []string{
	"member", "address", "version", "fingerprint", "generation", "age_seconds", "state_bytes", "bytes", "created", "seq", "keys", "took", "epoch", "seen", "restore",
	"log_start", "snapshot", "next_cursor",
}

// pageLine is one command of a page and what it prints.
type pageLine struct {
	line    int
	command string
	prints  string
}

// steps are the commands of a page.
func steps(text string) (all []pageLine) {
	inside, here := false, ""
	for i, line := range strings.Split(text, "\n") {
		last := len(all) - 1
		switch {
		case strings.HasPrefix(line, "```"):
			inside, here = line == "```console", ""
		case !inside:
		case here != "": // the rest of a text that a command is given
			all[last].command += "\n" + line
			if line == here {
				here = ""
			}
		case strings.HasPrefix(line, "$ "):
			all = append(all, pageLine{line: i + 1, command: strings.TrimPrefix(line, "$ ")})
			if _, end, ok := strings.Cut(line, "<<'"); ok {
				here, _, _ = strings.Cut(end, "'")
			}
		case last >= 0 && strings.HasSuffix(all[last].command, "\\") && all[last].prints == "":
			all[last].command += "\n" + line
		default:
			all[last].prints += line + "\n"
		}
	}
	return all
}

// run runs the page.
func (w *walk) run() {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	if err != nil {
		w.t.Fatal(err)
	}
	there := strings.NewReplacer(w.replace...)
	back := w.shown
	for i := 0; i < len(w.replace); i += 2 {
		back = append(back, w.replace[i+1], w.replace[i])
	}
	here := strings.NewReplacer(back...)
	all := steps(string(text))
	if len(all) == 0 {
		w.t.Fatalf("%s has no commands", w.file)
	}
	page := string(text)
	for _, s := range all {
		printed := blanks.ReplaceAllString(here.Replace(w.step(there.Replace(s.command))), "\n")
		if *updatePages {
			if s.prints != "" && !strings.Contains(s.prints, "…\n") {
				page = strings.Replace(page, s.command+"\n"+s.prints, s.command+"\n"+folded(printed), 1)
			}
			continue
		}
		if why := differs(s.prints, printed); why != "" {
			w.t.Errorf("%s:%d: %s\n%s\nprints\n%s\nThe page says\n%s", w.file, s.line, why, s.command, printed, s.prints)
		}
	}
	if *updatePages {
		if err := os.WriteFile(w.file, []byte(page), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// step runs one command to its end, or until the service that it begins is
// ready, and returns what it prints.
func (w *walk) step(command string) string {
	w.t.Helper()
	if strings.Contains(command, "tidemark serve ") {
		w.serve(command)
		return ""
	}
	if command == "kill -9 $(pgrep tidemark)" || command == "kill $(pgrep tidemark)" {
		w.end(map[bool]syscall.Signal{true: syscall.SIGKILL, false: syscall.SIGTERM}[strings.Contains(command, "-9")])
		return ""
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != curlTimedOut {
		w.t.Errorf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// curlTimedOut is curl's status where --max-time ended a stream.
const curlTimedOut = 28

// serve begins the service and waits until it is ready.
func (w *walk) serve(command string) {
	w.t.Helper()
	log, err := os.OpenFile(filepath.Join(w.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	w.served = exec.Command("bash", "-c", command)
	w.served.Dir, w.served.Env, w.served.Stdout, w.served.Stderr = w.dir, w.env, log, log
	if err := w.served.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.exited = make(chan error, 1)
	served, exited := w.served, w.exited
	go func() { exited <- served.Wait() }()
	eventually(w.t, time.Minute, command, func() error {
		resp, err := http.Get(w.base + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it is not ready: %s", resp.Status)
		}
		return nil
	})
}

// end ends the service, where it runs.
func (w *walk) end(signal syscall.Signal) {
	if w.served == nil {
		return
	}
	if err := w.served.Process.Signal(signal); err != nil {
		w.t.Error(err)
	}
	<-w.exited
	w.served = nil
}

// differs says in what a command's output is not what a page says, "" where it
// is.
func differs(says, prints string) string {
	if strings.TrimSpace(says) == "" {
		return ""
	}
	var want, got any
	if json.Unmarshal([]byte(says), &want) == nil {
		if err := json.Unmarshal([]byte(prints), &got); err != nil {
			return "this is no JSON: " + err.Error()
		}
		if !reflect.DeepEqual(steady(want), steady(got)) {
			return "the answer is another"
		}
		return ""
	}
	rest := squeezed(prints)
	for i, part := range strings.Split(squeezed(says), "…\n") {
		at := strings.Index(rest, part)
		if at < 0 || i == 0 && at > 0 {
			return "the output has no " + part
		}
		rest = rest[at+len(part):]
	}
	if !strings.HasSuffix(squeezed(says), "…\n") && rest != "" {
		return "the output goes on: " + rest
	}
	return ""
}

// squeezed is text without what columns and ends of lines add.
func squeezed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// steady is a value without what differs from run to run.
func steady(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range volatile {
			if _, ok := v[name]; ok {
				v[name] = nil
			}
		}
		for name := range v {
			v[name] = steady(v[name])
		}
	case []any:
		for i := range v {
			v[i] = steady(v[i])
		}
	}
	return v
}

// folded is output for a page: long JSON over several lines.
func folded(text string) string {
	const wide = 140
	if len(text) <= wide || !json.Valid([]byte(text)) {
		return strings.TrimRight(text, "\n") + "\n"
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(strings.TrimSpace(text)), "", " "); err != nil {
		return text
	}
	text = b.String()
	for _, inner := range []*regexp.Regexp{leaves, branches} {
		text = inner.ReplaceAllStringFunc(text, func(value string) string {
			line := breaks.ReplaceAllString(value, " ")
			line = strings.NewReplacer("{ ", "{", "[ ", "[", " }", "}", " ]", "]").Replace(line)
			if len(line) > wide {
				return value
			}
			return line
		})
	}
	return text + "\n"
}

// leaves are values without others in them, branches those with leaves alone.
var (
	leaves   = regexp.MustCompile(`[\[{][^\[\]{}]*[\]}]`)
	branches = regexp.MustCompile(`\{[^\[\]{}]*([\[{][^\[\]{}]*[\]}][^\[\]{}]*)+\}`)
	blanks   = regexp.MustCompile(`[ \t]+\n`)
	breaks   = regexp.MustCompile(`\n\s*`)
)
