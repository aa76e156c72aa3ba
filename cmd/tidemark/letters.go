package main

import (
	"context"
	"errors"
	"fmt"

	"tidemark/aggregator"
	"tidemark/config"
	"tidemark/deadletter"
	"tidemark/source/kafka"
)

// letters are the places where bad records go: none, a topic, a file, or both.
type letters struct {
	places []aggregator.DeadLetter
	closes []func() error
}

// openLetters opens the places that the configuration names.
func openLetters(cfg *config.Config, client *kafka.Client) (*letters, error) {
	l := &letters{}
	if topic := cfg.Events.DeadLetter.Topic; topic != "" {
		place, err := kafka.NewDeadLetter(client, topic)
		if err != nil {
			return nil, fmt.Errorf("open the dead letter topic %s: %w", topic, err)
		}
		l.places = append(l.places, place)
		l.closes = append(l.closes, func() error { place.Close(); return nil })
	}
	if path := cfg.Events.DeadLetter.File; path != "" {
		place, err := deadletter.Open(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the dead letter file %s: %w", path, err), l.Close())
		}
		l.places = append(l.places, place)
		l.closes = append(l.closes, place.Close)
	}
	return l, nil
}

// deadLetter is where the tasks send bad records, nil where they go nowhere.
func (l *letters) deadLetter() aggregator.DeadLetter {
	if len(l.places) == 0 {
		return nil
	}
	return l
}

// Send implements aggregator.DeadLetter.
func (l *letters) Send(ctx context.Context, bad aggregator.BadRecord) error {
	for _, place := range l.places {
		if err := place.Send(ctx, bad); err != nil {
			return err
		}
	}
	return nil
}

// Flush implements aggregator.DeadLetter.
func (l *letters) Flush(ctx context.Context) error {
	for _, place := range l.places {
		if err := place.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close stores what was sent and closes all places.
func (l *letters) Close() error {
	var errs []error
	for _, c := range l.closes {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
