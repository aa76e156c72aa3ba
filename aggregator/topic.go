package aggregator

import (
	"context"
	"sync"
)

// topicWatch describes the topic for all tasks, sharing the requests: an
// answer serves everyone who asked before its request went out.
type topicWatch struct {
	log Log

	turn  chan struct{} // holds one token: the right to ask
	mu    sync.Mutex
	asked uint64 // requests that went out
	topic Topic
	err   error
}

func newTopicWatch(log Log) *topicWatch {
	w := &topicWatch{log: log, turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w
}

// last is the newest description.
func (w *topicWatch) last() Topic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.topic
}

// since describes the topic as it is at some moment after the call began.
func (w *topicWatch) since(ctx context.Context) (Topic, error) {
	w.mu.Lock()
	before := w.asked
	w.mu.Unlock()
	select {
	case <-ctx.Done():
		return Topic{}, ctx.Err()
	case <-w.turn:
	}
	defer func() { w.turn <- struct{}{} }()

	w.mu.Lock()
	if w.asked > before { // somebody asked after this call began
		defer w.mu.Unlock()
		return w.topic, w.err
	}
	w.asked++
	w.mu.Unlock()
	topic, err := w.log.Topic(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	if err == nil {
		w.topic = topic
	}
	return w.topic, err
}
