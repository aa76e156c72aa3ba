package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"tidemark/aggregator"
	"tidemark/bootstrap"
	"tidemark/config"
	"tidemark/source/kafka"
	"tidemark/store"
)

// newSource is where the history comes from.
func newSource(cfg *config.Config, logger *slog.Logger, observer bootstrap.Observer) (bootstrap.Source, error) {
	if len(cfg.History.Elasticsearch.Addresses) == 0 {
		return bootstrap.NewFile(cfg.History.File), nil
	}
	return newElastic(cfg.History.Elasticsearch, logger, observer)
}

// historyName is the history in messages.
func historyName(cfg *config.Config) string {
	if len(cfg.History.Elasticsearch.Addresses) == 0 {
		return cfg.History.File
	}
	return strings.Join(cfg.History.Elasticsearch.Index, ",")
}

func newElastic(es config.Elasticsearch, logger *slog.Logger, observer bootstrap.Observer) (*bootstrap.Elastic, error) {
	source, err := bootstrap.NewElastic(bootstrap.ElasticOptions{
		Addresses: es.Addresses, Index: es.Index, Query: es.Query,
		Username: es.Username, Password: es.Password.Reveal(), APIKey: es.APIKey.Reveal(), CAFile: es.CAFile,
		Slices: es.Slices, PageSize: es.PageSize, Logger: logger, Observer: observer,
	})
	if err != nil {
		return nil, fmt.Errorf("history.elasticsearch: %w", err)
	}
	return source, nil
}

// ensureHistory tells of a history file that can never be read before the group
// is joined, where it is going to be read: as long as the first partition, which
// is published last, has neither a snapshot nor a state here. A store of
// snapshots, or Kafka, that is away is waited for, since it decides.
func (s *service) ensureHistory(ctx context.Context, client *kafka.Client, states *store.Dir, snapshots *published) error {
	if s.cfg.History.File == "" {
		return nil
	}
	unread := bootstrap.NewFile(s.cfg.History.File).Probe(ctx)
	if !errors.Is(unread, aggregator.ErrHopeless) {
		return nil // it is there; or it may yet come
	}
	local, err := states.Partitions()
	if err != nil || slices.Contains(local, 0) {
		return err
	}
	ask := func() (bool, error) {
		topic, err := client.Topic(ctx)
		if err != nil {
			return false, err
		}
		_, err = snapshots.Newest(ctx, topic, 0)
		if errors.Is(err, aggregator.ErrNoSnapshot) {
			return true, nil
		}
		if errors.Is(err, aggregator.ErrNewer) { // there is one
			return false, nil
		}
		return false, err
	}
	wanted, err := backoff.Retry(ctx, ask, backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, next time.Duration) {
		s.log.Warn("the history cannot be read, and whether it is loaded already is not known yet", "history", unread, "err", err, "again_in", next.Round(time.Millisecond))
	}))
	switch {
	case err != nil:
		return nil //nolint:nilerr // the service is ending
	case wanted:
		return fmt.Errorf("load the history: %w; see history.file", unread)
	}
	s.log.Info("the history cannot be read, and need not be: it is loaded", "history", unread)
	return nil
}

const (
	// sampled is how many documents a check looks at, and shown how many of
	// them it shows.
	sampled = 100
	shown   = 3
)

// tryHistory tries the source of the history, and shows its first documents as
// the rows that they make.
func tryHistory(ctx context.Context, cfg *config.Config) ([]checked, error) {
	var steps []checked
	var docs []*bootstrap.Document
	var name string
	if es := cfg.History.Elasticsearch; len(es.Addresses) > 0 {
		source, err := newElastic(es, nil, nil)
		if err != nil {
			return nil, usageError{err}
		}
		name = source.Name()
		for _, s := range source.Check(ctx) {
			steps = append(steps, outcome(s.Name, s.Object, s.Detail, s.Err))
		}
		if slices.ContainsFunc(steps, func(s checked) bool { return !s.OK && s.Object == name }) || !steps[len(steps)-1].OK {
			return steps, nil
		}
		if docs, err = source.Sample(ctx, sampled); err != nil {
			return append(steps, outcome("documents", name, "", err)), nil
		}
	} else {
		source := bootstrap.NewFile(cfg.History.File)
		name = source.Name()
		var err error
		docs, err = sampleFile(ctx, source)
		readable := outcome("history", name, "can be read", err)
		if steps = append(steps, readable); !readable.OK {
			return steps, nil
		}
	}
	rows, err := bootstrap.Preview(cfg.Program, cfg.Mapping(), name, docs)
	if err != nil {
		return nil, usageError{err}
	}
	return append(steps, judge(name, rows)...), nil
}

// sampleFile reads the first documents of a file.
func sampleFile(ctx context.Context, source *bootstrap.File) (docs []*bootstrap.Document, err error) {
	enough := errors.New("enough")
	err = source.Read(ctx, func(d *bootstrap.Document) error {
		own := *d
		own.Source, own.ID = slices.Clone(d.Source), slices.Clone(d.ID)
		if docs = append(docs, &own); len(docs) == sampled {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return docs, err
}

// judge says what sampled documents come to: a step for all of them, which
// fails where none is as it is wanted, and one for each of the first.
func judge(name string, rows []bootstrap.Row) []checked {
	if len(rows) == 0 {
		return []checked{outcome("documents", name, "there are none: the totals start at zero", nil)}
	}
	lacks := map[string]int{}
	for _, r := range rows {
		if r.Fault != "" {
			lacks["skipped, "+r.Fault]++
		}
		for _, field := range r.Missing {
			lacks[field+" is missing or null"]++
		}
	}
	all := outcome("documents", name, fmt.Sprintf("the first %d have all that is wanted", len(rows)), nil)
	if len(lacks) > 0 {
		texts := make([]string, 0, len(lacks))
		for text, n := range lacks {
			texts = append(texts, fmt.Sprintf("%s in %d", text, n))
			all.OK = all.OK && n < len(rows)
		}
		slices.Sort(texts)
		all.Detail = fmt.Sprintf("of the first %d: %s", len(rows), strings.Join(texts, "; "))
	}
	steps := []checked{all}
	for _, r := range rows[:min(shown, len(rows))] {
		detail := r.Row
		if r.Fault != "" {
			detail = "is skipped: " + r.Fault
		}
		if len(r.Missing) > 0 {
			detail += ", without " + strings.Join(r.Missing, ", ")
		}
		steps = append(steps, outcome("document", r.Place, detail, nil))
	}
	return steps
}
