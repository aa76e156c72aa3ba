package client

import (
	"context"
	"net/http"
	"time"
)

// Status is what one member says of itself, its partitions, and the group.
type Status struct {
	Member     string `json:"member"`
	Group      string `json:"group"`
	Generation int32  `json:"generation"`
	Version    string `json:"version"`
	Definition struct {
		SQL         string   `json:"sql"`
		Fingerprint string   `json:"fingerprint"`
		Keys        []string `json:"keys"`    // names of the key's columns, in the order of a Key
		Columns     []Column `json:"columns"` // of a row, in its order
	} `json:"definition"`
	Topic struct {
		Name       string `json:"name"`
		Partitions int32  `json:"partitions"` // 0 until it is known
	} `json:"topic"`
	Partitions []Partition `json:"partitions"` // of this member
	Members    []Member    `json:"members"`    // of the group, idle ones too
	History    *History    `json:"history"`    // nil without one
}

// Column is one of a row.
type Column struct {
	Name       string `json:"name"`
	Expression string `json:"expression"` // canonical SQL
}

// Partition is how a partition stands.
type Partition struct {
	Topic         string            `json:"topic"`
	Partition     int32             `json:"partition"`
	State         string            `json:"state"`  // restoring, bootstrapping, catching_up, live, gap, paused
	Reason        string            `json:"reason"` // of a gap or a pause
	Position      int64             `json:"position"`
	HighWatermark int64             `json:"high_watermark"`
	LogStart      int64             `json:"log_start"`
	Lag           int64             `json:"lag"`
	Epoch         int64             `json:"epoch"`
	Counts        Counts            `json:"counts"`
	BadReasons    map[string]int64  `json:"bad_reasons"`
	GapRecords    int64             `json:"gap_records"`
	Keys          int64             `json:"keys"`        // an estimate
	StateBytes    int64             `json:"state_bytes"` // on disk
	Snapshot      *PartitionCopy    `json:"snapshot"`    // nil before the first
	Restore       *PartitionRestore `json:"restore"`     // nil but while restoring
}

// Counts are what became of a partition's records; they add up to those that
// were consumed.
type Counts struct {
	Folded    int64 `json:"folded"`
	Filtered  int64 `json:"filtered"`
	Bad       int64 `json:"bad"`
	Tombstone int64 `json:"tombstone"`
	BeforeCut int64 `json:"before_cut"`
}

// PartitionCopy is the newest snapshot of a partition.
type PartitionCopy struct {
	Seq        int64   `json:"seq"`
	Position   int64   `json:"position"`
	AgeSeconds float64 `json:"age_seconds"`
}

// PartitionRestore is how far a restore is.
type PartitionRestore struct {
	Have             int64   `json:"have"`
	Need             int64   `json:"need"`
	RemainingSeconds float64 `json:"remaining_seconds"`
}

// Member is one of the group.
type Member struct {
	Member     string  `json:"member"`
	Address    string  `json:"address"`
	Partitions []int32 `json:"partitions"`
}

// History is what the totals began with.
type History struct {
	Mode      string `json:"mode"` // of the cut
	Documents int64  `json:"documents"`
	Complete  bool   `json:"complete"`
}

// Status asks a member, whichever answers first.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	s := &Status{}
	if err := c.ask(ctx, request{method: http.MethodGet, path: "/v1/status"}, s); err != nil {
		return nil, err
	}
	return s, nil
}

// BadRecord is a record that was not folded. What it holds is in the dead letter
// alone.
type BadRecord struct {
	Reason    string    `json:"reason"`
	Field     string    `json:"field"` // "" where the whole record is bad
	Error     string    `json:"error"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Seen      time.Time `json:"seen"` // by the member's clock
}

// BadRecords gives some of the newest bad records of each reason that one member,
// whichever answers first, has seen since it started, newest first.
func (c *Client) BadRecords(ctx context.Context) ([]BadRecord, error) {
	var answer struct {
		Records []BadRecord `json:"records"`
	}
	if err := c.ask(ctx, request{method: http.MethodGet, path: "/v1/bad-records"}, &answer); err != nil {
		return nil, err
	}
	return answer.Records, nil
}

// Snapshot is a published state of a partition.
type Snapshot struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Seq       int64     `json:"seq"`
	Epoch     int64     `json:"epoch"`
	Position  int64     `json:"position"`
	Bytes     int64     `json:"bytes"`
	Created   time.Time `json:"created"`
}

// Snapshots lists the published snapshots.
func (c *Client) Snapshots(ctx context.Context) ([]Snapshot, error) {
	return c.snapshots(ctx, http.MethodGet, requestTimeout)
}

// Publish publishes what is new of the partitions of one member, whichever
// answers first, and returns the newest snapshot of each. For all partitions,
// ask each member by a client of its own.
func (c *Client) Publish(ctx context.Context) ([]Snapshot, error) {
	return c.snapshots(ctx, http.MethodPost, publishTimeout)
}

func (c *Client) snapshots(ctx context.Context, method string, limit time.Duration) ([]Snapshot, error) {
	var answer struct {
		Snapshots []Snapshot `json:"snapshots"`
	}
	if err := c.ask(ctx, request{method: method, path: "/v1/snapshots", limit: limit}, &answer); err != nil {
		return nil, err
	}
	return answer.Snapshots, nil
}
