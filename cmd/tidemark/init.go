package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tidemark/aggregator"
	"tidemark/bootstrap"
	"tidemark/config"
	"tidemark/query"
	"tidemark/source/kafka"
)

func (p *program) init() *cobra.Command {
	var w wanted
	var print bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration from what a topic holds",
		Long: "Looks at the newest records of a topic, and at the first documents of a history, shows the fields that it finds, and writes a\n" +
			"configuration with a query that fits them: a key, sums, sets and the latest time. It joins no group and overwrites nothing.\n" +
			"On a terminal it asks for what the flags leave open. Secrets are given as ${NAME} or file:PATH, and written as such.",
		Example: "  tidemark init\n  tidemark init --bootstrap-servers localhost:9092 --topic sales --print",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			say := p.stdout
			if print {
				say = p.stderr
			} else if err := refuseExisting(w.output); err != nil {
				return usageError{err}
			}
			var person *asker
			if (len(w.brokers) == 0 || w.topic == "") && isTerminal(cmd.InOrStdin()) {
				tty, err := openTerminal(cmd.Context())
				if err != nil {
					return err
				}
				defer tty.Close()
				person = newAsker(tty, p.stderr)
			}
			text, err := p.compose(cmd.Context(), &w, person, say)
			if err != nil {
				return err
			}
			if print {
				_, err = io.WriteString(p.stdout, text)
				return err
			}
			if err := writeNew(w.output, text); err != nil {
				return err
			}
			_, err = fmt.Fprintf(say, "\n%s is written. Read it, then:\n\n  tidemark check -c %[1]s --connect\n  tidemark serve -c %[1]s\n", w.output)
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&w.brokers, "bootstrap-servers", nil, "Kafka's brokers, as host:port")
	f.StringVar(&w.topic, "topic", "", "the topic with the events")
	f.StringVar(&w.group, "group", "", "the consumer group; tidemark-TOPIC without it")
	f.StringVar(&w.protocol, "security-protocol", "", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
	f.StringVar(&w.mechanism, "sasl-mechanism", "", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
	f.StringVar(&w.username, "sasl-username", "", "the user who logs in to Kafka")
	f.StringVar(&w.password, "sasl-password", "", "the password, as ${NAME} or file:PATH")
	f.StringVar(&w.ca, "ssl-ca-location", "", "PEM file with the authorities of the brokers")
	f.StringVar(&w.certificate, "ssl-certificate-location", "", "PEM file with this client's certificate")
	f.StringVar(&w.key, "ssl-key-location", "", "PEM file with the key of that certificate")
	f.StringSliceVar(&w.search, "elasticsearch", nil, "URL of an Elasticsearch or OpenSearch with the history")
	f.StringVar(&w.index, "index", "", "its index")
	f.StringVar(&w.searchUser, "elasticsearch-username", "", "the user who logs in to it")
	f.StringVar(&w.searchPassword, "elasticsearch-password", "", "the password, as ${NAME} or file:PATH")
	f.StringVar(&w.searchAPIKey, "elasticsearch-api-key", "", "an API key in place of both, as ${NAME} or file:PATH")
	f.StringVar(&w.searchCA, "elasticsearch-ca-file", "", "PEM file with its authorities")
	f.StringVar(&w.historyFile, "history-file", "", "a file with the history, in place of a search server")
	f.StringSliceVar(&w.historyKeys, "history-key", nil, "the documents' field with the key, where it does not look like the events'")
	f.StringVar(&w.cut, "cut", "", "where the stream takes over from a history: earliest, latest, guard or an instant")
	f.StringSliceVar(&w.keys, "key", nil, "the field with the key, where another is proposed; several make a key of several columns")
	f.StringVarP(&w.output, "output", "o", "tidemark.yaml", "the file to write")
	f.BoolVar(&print, "print", false, "print the configuration and write no file")
	return cmd
}

// reference is how a secret is given.
var reference = regexp.MustCompile(`^(\$\{[A-Za-z_][A-Za-z0-9_]*(:[^}]*)?\}|file:.+)$`)

// complete says what is missing where nobody can be asked, all of it at once.
func (w *wanted) complete() error {
	var missing []string
	need := func(flag string, is bool) {
		if !is {
			missing = append(missing, flag)
		}
	}
	need("--bootstrap-servers", len(w.brokers) > 0)
	need("--topic", w.topic != "")
	need("--index", len(w.search) == 0 || w.index != "")
	need("--cut", !w.hasHistory() || w.cut != "")
	if len(missing) > 0 {
		return fmt.Errorf("%s is not given, and there is no terminal to ask at", strings.Join(missing, ", "))
	}
	return nil
}

// fits says what is wrong with what was given.
func (w *wanted) fits() error {
	var errs []error
	for flag, secret := range map[string]string{
		"--sasl-password": w.password, "--elasticsearch-password": w.searchPassword, "--elasticsearch-api-key": w.searchAPIKey,
	} {
		if secret != "" && !reference.MatchString(secret) {
			errs = append(errs, fmt.Errorf("%s is given as ${NAME} or file:PATH, so that the secret stands neither in the file nor in a list of processes", flag))
		}
	}
	switch {
	case len(w.search) > 0 && w.historyFile != "":
		errs = append(errs, errors.New("--elasticsearch and --history-file are both given: there is one history"))
	case w.index != "" && len(w.search) == 0:
		errs = append(errs, errors.New("--index is given without --elasticsearch"))
	case !w.hasHistory() && (w.cut != "" || len(w.historyKeys) > 0):
		errs = append(errs, errors.New("--cut and --history-key say how a history is read: give --elasticsearch or --history-file too"))
	}
	if w.cut != "" {
		errs = append(errs, cutFits(w.cut))
	}
	return errors.Join(errs...)
}

// cutFits says what is wrong with a cut.
func cutFits(cut string) error {
	switch cut {
	case "earliest", "latest", "guard":
		return nil
	}
	if _, err := time.Parse(time.RFC3339, cut); err != nil {
		return fmt.Errorf("the cut %q is none of earliest, latest, guard and an instant such as 2015-07-29T00:00:00Z", cut)
	}
	return nil
}

// compose makes the text of a configuration: it asks person, who may be nil,
// looks at events and history, and says to out what it finds. What it returns
// is what check accepts.
func (p *program) compose(ctx context.Context, w *wanted, person *asker, out io.Writer) (string, error) {
	if person != nil {
		if err := person.source(w); err != nil {
			return "", err
		}
	} else if err := w.complete(); err != nil {
		return "", usageError{err}
	}
	if w.group == "" {
		w.group = "tidemark-" + w.topic
	}
	if err := w.fits(); err != nil {
		return "", usageError{err}
	}
	// A query and a cut that fit any topic make the configuration whole, so
	// that its servers can be asked.
	probe := *w
	probe.cut = "earliest"
	cfg, err := p.parse(w, probe.file("", "SELECT k, count(*) AS n FROM "+query.QuoteName(w.topic)+" GROUP BY k\n", historyFit{}, nil))
	if err != nil {
		return "", err
	}
	client, err := kafka.Open(kafkaConfig(cfg, slog.New(slog.DiscardHandler), ""))
	if err != nil {
		return "", usageError{fmt.Errorf("the settings of kafka: %w", err)}
	}
	defer client.Close()
	for _, s := range client.Check(ctx) {
		if s.Err != nil {
			return "", fmt.Errorf("look at topic %s: %s: %s: %w", w.topic, strings.TrimSpace(s.Name+" "+s.Broker), s.Detail, s.Err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, eventsWait)
	defer cancel()
	topic, err := client.Topic(ctx)
	if err != nil {
		return "", fmt.Errorf("look at topic %s: %w", w.topic, err)
	}
	records, err := newestRecords(ctx, client, topic)
	if err != nil {
		return "", fmt.Errorf("look at topic %s: %w", w.topic, err)
	}
	events, seen, err := sampleEvents(w.topic, records)
	if err != nil {
		return "", err
	}
	about := fmt.Sprintf("the newest %s of topic %s, which has %s", counted(seen, "record"), w.topic, counted(int(topic.Partitions), "partition"))
	if err := printFields(out, events, about); err != nil {
		return "", err
	}
	var docs *sample
	var documents []*bootstrap.Document
	if w.hasHistory() {
		if docs, documents, err = sampleDocuments(ctx, cfg); err != nil {
			return "", err
		}
		if err := printFields(out, docs, fmt.Sprintf("the first %s of the history %s", counted(docs.objects, "document"), historyName(cfg))); err != nil {
			return "", err
		}
	}
	if person != nil {
		if err := person.definition(w, events); err != nil {
			return "", err
		}
	}
	keys, err := events.keys(w.keys)
	if err != nil {
		return "", usageError{err}
	}
	made := propose(w.topic, events, keys)
	var fit historyFit
	if docs != nil {
		if fit, err = made.fit(docs, w.historyKeys); err != nil {
			return "", err
		}
		if err := made.checkCut(w.cut, fit); err != nil {
			return "", err
		}
	}
	text := w.file("Made by tidemark init from "+about+".", made.sql(), fit, made)
	if cfg, err = p.parse(w, text); err != nil {
		return "", fmt.Errorf("the configuration that was made is refused: %w", err)
	}
	decoded, err := decodeSamples(cfg, topic, records)
	if err != nil {
		return "", err
	}
	found := fmt.Sprintf("\nThe query makes %s.\n%sEvents: %s.\n", made.summary(), made.leftOut(), judgeEvents(w.topic, decoded)[0].Detail)
	if docs != nil {
		rows, err := bootstrap.Preview(cfg.Program, cfg.Mapping(), historyName(cfg), documents)
		if err != nil {
			return "", err
		}
		found += fmt.Sprintf("Documents: %s.\n", judge(historyName(cfg), rows)[0].Detail)
	}
	_, err = io.WriteString(out, found)
	return text, err
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// parse reads a text as check would. What is wrong with it is said without its
// lines: there is no file yet.
func (p *program) parse(w *wanted, text string) (*config.Config, error) {
	cfg, err := config.Parse(w.output, []byte(text), p.getenv, config.Options{})
	if problems := (config.Problems{}); errors.As(err, &problems) {
		texts := make([]string, len(problems))
		for i, problem := range problems {
			texts[i] = problem.Text
		}
		return nil, usageError{errors.New(strings.Join(texts, "; "))}
	}
	if err != nil {
		return nil, usageError{err}
	}
	if err := kafkaConfig(cfg, nil, "").Validate(); err != nil {
		return nil, usageError{fmt.Errorf("the settings of kafka: %w", err)}
	}
	return cfg, nil
}

// sampleEvents takes the records that are JSON objects, and says what the
// others are where none is. seen is how many records there are.
func sampleEvents(topic string, records [][]aggregator.Record) (events *sample, seen int, err error) {
	events = newSample()
	var empty, framed, binary, text int
	for _, partition := range records {
		for _, r := range partition {
			seen++
			switch {
			case len(r.Value) == 0:
				empty++
			case events.add(r.Key, r.Value):
			case r.Value[0] == 0:
				framed++
			case utf8.Valid(r.Value):
				text++
			default:
				binary++
			}
		}
	}
	if events.objects > 0 {
		return events, seen, nil
	}
	what := "has no records yet: write a few events to it"
	switch max(empty, framed, binary, text) {
	case 0:
	case framed:
		what = "holds records that begin with a zero byte, as Avro, Protobuf and JSON from a schema registry do. Tidemark reads plain JSON: have the producer, or a converter, write that"
	case binary:
		what = "holds records that are binary, or compressed by the producer itself. Tidemark reads JSON objects"
	case text:
		what = "holds text that is no JSON object. Tidemark reads records such as {\"userId\": 23, \"totalRevenue\": 12.05}"
	case empty:
		what = "holds records with keys and without values: these are tombstones, and change no totals"
	}
	if seen > 0 {
		what += fmt.Sprintf("; looked at: the newest %d", seen)
	}
	return nil, seen, fmt.Errorf("topic %s %s", topic, what)
}

// keys are the fields of some paths, or without paths the one that looks most
// like the key.
func (s *sample) keys(paths []string) (keys []*field, err error) {
	if len(paths) == 0 {
		f := guessKey(s)
		if f == nil {
			hint := ""
			if s.recordKey != "" {
				hint = fmt.Sprintf("; the records' own keys, such as %q, are not read: it must be a field of the value", s.recordKey)
			}
			return nil, fmt.Errorf("no field looks like the key of the totals: name one with --key; there are %s%s", s.names(), hint)
		}
		return []*field{f}, nil
	}
	for _, path := range paths {
		f := s.named(path)
		switch {
		case f == nil:
			return nil, fmt.Errorf("the key %s: no event has that field; they have %s", path, s.names())
		case !f.only(isInteger, isDecimal, isText, isNumberText, isDecimalText, isTimeText):
			return nil, fmt.Errorf("the key %s: a key is a text or a number, and this is %s", path, f.looks())
		}
		keys = append(keys, f)
	}
	return keys, nil
}
