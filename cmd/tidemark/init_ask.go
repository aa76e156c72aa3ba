package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// asker asks a person.
type asker struct {
	in  *bufio.Scanner
	out io.Writer
}

// errNoAnswer is the end of the input, or of the program, in place of an answer.
var errNoAnswer = errors.New("no answer came")

// newAsker asks at in.
func newAsker(in io.Reader, out io.Writer) *asker { return &asker{bufio.NewScanner(in), out} }

// openTerminal opens the terminal that the program runs at. A read ends with
// ctx, where the system can end one. The caller closes it.
func openTerminal(ctx context.Context) (io.ReadCloser, error) {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return nil, fmt.Errorf("open the terminal to ask: %w; give --bootstrap-servers and --topic", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = tty.Close() }) // a read in hand fails
	return closing{tty, stop}, nil
}

// closing is a file that no context closes any more once it is closed.
type closing struct {
	*os.File
	stop func() bool
}

func (c closing) Close() error {
	if !c.stop() {
		return nil
	}
	return c.File.Close()
}

// one asks until ok takes the answer; an empty one is the default. Without a
// default an empty answer is asked for again where it is required.
func (a *asker) one(question, def string, ok func(string) error) (string, error) {
	if def != "" {
		question += " [" + def + "]"
	}
	for {
		if _, err := fmt.Fprintf(a.out, "%s: ", question); err != nil {
			return "", err
		}
		if !a.in.Scan() {
			return "", errNoAnswer
		}
		answer := strings.TrimSpace(a.in.Text())
		if answer == "" {
			answer = def
		}
		err := ok(answer)
		if err == nil {
			return answer, nil
		}
		if _, err := fmt.Fprintf(a.out, "  %v\n", err); err != nil {
			return "", err
		}
	}
}

// anyText takes every answer, some every one but an empty one.
func anyText(string) error { return nil }

func some(s string) error {
	if s == "" {
		return errors.New("an answer is wanted")
	}
	return nil
}

// source asks for what flags leave open of where events and history lie.
func (a *asker) source(w *wanted) error {
	ask := func(to *string, question, def string, ok func(string) error) (err error) {
		if *to == "" {
			*to, err = a.one(question, def, ok)
		}
		return err
	}
	brokers := strings.Join(w.brokers, ",")
	if err := ask(&brokers, "Kafka's brokers, as host:port", "localhost:9092", some); err != nil {
		return err
	}
	w.brokers = splitList(brokers)
	if err := ask(&w.topic, "topic", "", some); err != nil {
		return err
	}
	if err := ask(&w.group, "consumer group", "tidemark-"+w.topic, some); err != nil {
		return err
	}
	if w.historyFile == "" {
		search := strings.Join(w.search, ",")
		if err := ask(&search, "Elasticsearch or OpenSearch with the history, as a URL (empty: none)", "", anyText); err != nil {
			return err
		}
		w.search = splitList(search)
		if len(w.search) > 0 {
			if err := ask(&w.index, "index", "", some); err != nil {
				return err
			}
		}
	}
	return nil
}

// definition asks for the key, and with a history for the cut.
func (a *asker) definition(w *wanted, events *sample) error {
	if len(w.keys) == 0 {
		def := ""
		if f := guessKey(events); f != nil {
			def = f.name()
		}
		key, err := a.one("key of the totals, several with commas", def, func(answer string) error {
			_, err := events.keys(splitList(answer))
			return err
		})
		if err != nil {
			return err
		}
		w.keys = splitList(key)
	}
	if w.hasHistory() && w.cut == "" {
		fmt.Fprintln(a.out, "Where does the stream take over from the history?\n"+
			"  earliest   the history holds none of the events that are in the topic\n"+
			"  latest     it holds all of them\n"+
			"  guard      of each key it holds the events at or before a time in its document\n"+
			"  an instant such as 2015-07-29T00:00:00Z: it holds all before, the topic all from it on")
		var err error
		w.cut, err = a.one("cut", "", cutFits)
		return err
	}
	return nil
}

// splitList splits at commas.
func splitList(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
