package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"
)

// Watch gives a row now, and again whenever its results change, until ctx ends
// or the caller stops; a row that is absent is one that is not Found. Where the
// connection breaks, or the member ends, it is taken up again with any member,
// for as long as it takes, and a row that did not change meanwhile is not given
// twice; Patience does not count. The last pair has an error: that of ctx, or
// one that no repetition mends.
func (c *Client) Watch(ctx context.Context, key Key, read Read) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		query, err := read.values(false)
		if err != nil {
			yield(nil, err)
			return
		}
		w := &watch{c: c, request: request{method: http.MethodGet, path: key.path() + "/watch", query: query}, yield: yield}
		for at := c.next.Load(); ; at++ {
			address := c.addresses[at%uint32(len(c.addresses))]
			wait := time.Duration(0)
			err := w.follow(ctx, address)
			switch {
			case w.stopped:
				return
			case ctx.Err() != nil:
				yield(nil, ctx.Err())
				return
			case err != nil && !passes(err):
				yield(nil, err)
				return
			case err != nil && (at+1-c.next.Load())%uint32(len(c.addresses)) == 0:
				wait = shortestWait // all were asked
			}
			if e := (*Error)(nil); errors.As(err, &e) && len(c.addresses) == 1 {
				wait = max(wait, e.RetryAfter)
			}
			if wait > 0 && pause(ctx, wait) != nil {
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// watch is one watch over several connections.
type watch struct {
	c       *Client
	request request
	yield   func(*Row, error) bool
	last    []byte // the results that were given last, nil before the first
	stopped bool   // by the caller
}

// follow reads one connection to its end. Its error is nil where the member
// ended it, and passes where the connection broke.
func (w *watch) follow(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(w.c.silence, cancel) // a connection that died without a word
	defer silent.Stop()
	resp, err := w.c.send(ctx, address, w.request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return unreachable(address, err)
		}
		silent.Reset(w.c.silence)
		data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if !ok {
			continue // the event's name, a comment, or the empty line behind an event
		}
		row := &Row{}
		if err := json.Unmarshal(data, row); err != nil {
			return fmt.Errorf("read an event of %s: %w", address, err)
		}
		shown := fmt.Appendf(nil, "%s %q", row.Results, row.Capped)
		if bytes.Equal(shown, w.last) {
			continue
		}
		w.last = shown
		if !w.yield(row, nil) {
			w.stopped = true
			return nil
		}
	}
}
