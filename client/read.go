package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read says how rows are read. The zero value reads whole rows, from all
// members, as they are now.
type Read struct {
	// Partial takes what could be reached, also from partitions that are still
	// catching up; Complete says whether something is missing.
	Partial bool
	// Local is Partial from the one member that is asked.
	Local bool
	// MinOffset waits until the row holds everything before these offsets: the
	// one after a record that was written makes it visible. Get and Batch only.
	MinOffset Positions
	// Timeout bounds the wait for MinOffset, to 10 s at most; 0 is 2 s. Then the
	// error is ErrTimeout.
	Timeout time.Duration
}

// values are the parameters of a query; wait says whether MinOffset is one.
func (r Read) values(wait bool) (url.Values, error) {
	v := url.Values{}
	if r.Partial {
		v.Set("partial", "ok")
	}
	if r.Local {
		v.Set("local", "true")
	}
	if !wait && (len(r.MinOffset) > 0 || r.Timeout != 0) {
		return nil, fmt.Errorf("MinOffset and Timeout are for Get and Batch: %w", ErrBadRequest)
	}
	if len(r.MinOffset) > 0 {
		parts := make([]string, 0, len(r.MinOffset))
		for _, p := range slices.Sorted(maps.Keys(r.MinOffset)) {
			parts = append(parts, fmt.Sprintf("%d:%d", p, r.MinOffset[p]))
		}
		v.Set("min_offset", strings.Join(parts, ","))
	}
	if r.Timeout != 0 {
		v.Set("timeout", r.Timeout.String())
	}
	return v, nil
}

const rowsPath = "/v1/aggregates"

// path is that of one row. The last text of a key is escaped whole, so that no
// text is taken for a route below.
func (k Key) path() string {
	texts := make([]string, len(k))
	for i, t := range k {
		texts[i] = url.PathEscape(t)
		if t == "." || t == ".." || t == "watch" {
			texts[i] = fmt.Sprintf("%%%02X%s", t[0], t[1:]) // the text, and not a step or a route
		}
	}
	return rowsPath + "/" + strings.Join(texts, "/")
}

// Get reads one row. ErrNotFound where the key is surely absent.
func (c *Client) Get(ctx context.Context, key Key, read Read) (*Row, error) {
	query, err := read.values(true)
	if err != nil {
		return nil, err
	}
	row := &Row{}
	if err := c.ask(ctx, request{method: http.MethodGet, path: key.path(), query: query}, row); err != nil {
		return nil, err
	}
	return row, nil
}

// Page is some rows.
type Page struct {
	Rows       []*Row `json:"rows"`     // nil in a batch where the key is absent
	Complete   bool   `json:"complete"` // nothing is missing; always so without Partial
	NextCursor string `json:"next_cursor"`
}

// Limits of one request for several keys.
const (
	mostKeys     = 1000
	mostKeyBytes = 900 << 10 // of the JSON; a body may have 1 MiB
)

// Batch reads the rows of some keys, in their order, nil for absent ones. More
// than a thousand keys take several requests: each row is whole, but they are
// not of one moment.
func (c *Client) Batch(ctx context.Context, keys []Key, read Read) (*Page, error) {
	query, err := read.values(true)
	if err != nil {
		return nil, err
	}
	all := &Page{Rows: make([]*Row, 0, len(keys)), Complete: true}
	for len(keys) > 0 {
		body := []byte(`{"keys":[`)
		n := 0
		for n < len(keys) && n < mostKeys {
			text, err := json.Marshal(keys[n])
			if err != nil {
				return nil, fmt.Errorf("write the key %q: %w", keys[n], err)
			}
			if n > 0 && len(body)+len(text) > mostKeyBytes {
				break
			}
			if n > 0 {
				body = append(body, ',')
			}
			body = append(body, text...)
			n++
		}
		var page Page
		r := request{method: http.MethodPost, path: rowsPath + ":batchGet", query: query, body: append(body, "]}"...)}
		if err := c.ask(ctx, r, &page); err != nil {
			return nil, err
		}
		if len(page.Rows) != n {
			return nil, fmt.Errorf("read a batch: %d rows came for %d keys", len(page.Rows), n)
		}
		all.Rows = append(all.Rows, page.Rows...)
		all.Complete = all.Complete && page.Complete
		keys = keys[n:]
	}
	return all, nil
}

// Listing says which rows are listed.
type Listing struct {
	Prefix   string // of the key, "" for all
	PageSize int    // rows asked for at once, 1 to 1000; 0 is 100
	Read
}

// List reads the rows in byte order of the key, each key once, page after page
// as they are wanted. After an error there is no further row.
func (c *Client) List(ctx context.Context, l Listing) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		query, err := l.values(false)
		if err != nil {
			yield(nil, err)
			return
		}
		if l.Prefix != "" {
			query.Set("prefix", l.Prefix)
		}
		if l.PageSize != 0 {
			query.Set("limit", strconv.Itoa(l.PageSize))
		}
		for {
			var page Page
			if err := c.ask(ctx, request{method: http.MethodGet, path: rowsPath, query: query}, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, row := range page.Rows {
				if !yield(row, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			query.Set("cursor", page.NextCursor)
		}
	}
}

// Top reads the first rows by one result, over all partitions and members:
// "totalRevenue" for ascending order, "-totalRevenue" for descending. limit is
// 1 to 1000, 0 is 100.
func (c *Client) Top(ctx context.Context, order string, limit int, read Read) (*Page, error) {
	query, err := read.values(false)
	if err != nil {
		return nil, err
	}
	query.Set("order", order)
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	page := &Page{}
	if err := c.ask(ctx, request{method: http.MethodGet, path: rowsPath, query: query}, page); err != nil {
		return nil, err
	}
	return page, nil
}
