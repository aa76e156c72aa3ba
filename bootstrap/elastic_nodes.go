package bootstrap

import (
	"errors"
	"net/url"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
)

// shunned is how long a node is passed over that could not be reached.
const shunned = 10 * time.Second

// nodes gives the addresses in turn, and passes over those that could not be
// reached a moment ago unless all could not. It stands in for the transport's
// own pool, which starts a goroutine for each node that is away and waits a
// minute. The transport calls it from one goroutine at a time.
type nodes struct {
	all    []*elastictransport.Connection
	failed []time.Time
	turn   int
}

func newNodes(all []*elastictransport.Connection, _ elastictransport.Selector) elastictransport.ConnectionPool {
	return &nodes{all: all, failed: make([]time.Time, len(all))}
}

// Next is the node to ask.
func (n *nodes) Next() (*elastictransport.Connection, error) {
	if len(n.all) == 0 {
		return nil, errors.New("there are no addresses")
	}
	for range n.all {
		n.turn = (n.turn + 1) % len(n.all)
		if time.Since(n.failed[n.turn]) >= shunned {
			break
		}
	}
	return n.all[n.turn], nil
}

// OnSuccess is for a node that was reached.
func (n *nodes) OnSuccess(c *elastictransport.Connection) error {
	n.note(c, time.Time{})
	return nil
}

// OnFailure is for a node that could not be reached.
func (n *nodes) OnFailure(c *elastictransport.Connection) error {
	n.note(c, time.Now())
	return nil
}

func (n *nodes) note(c *elastictransport.Connection, failed time.Time) {
	for i, node := range n.all {
		if node == c {
			n.failed[i] = failed
		}
	}
}

// URLs are the addresses.
func (n *nodes) URLs() []*url.URL {
	urls := make([]*url.URL, len(n.all))
	for i, c := range n.all {
		urls[i] = c.URL
	}
	return urls
}
