package api

import (
	"net/http"
	"slices"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
)

type statusBody struct {
	Member     string          `json:"member"`
	Group      string          `json:"group"`
	Generation int32           `json:"generation"`
	Version    string          `json:"version"`
	Definition definitionBody  `json:"definition"`
	Topic      topicBody       `json:"topic"`
	Partitions []partitionBody `json:"partitions"`
	Members    []memberBody    `json:"members"`
	History    *historyBody    `json:"history"`
}

type definitionBody struct {
	SQL         string       `json:"sql"`
	Fingerprint string       `json:"fingerprint"`
	Keys        []string     `json:"keys"`    // result names, in the order of a key's path
	Columns     []columnBody `json:"columns"` // in the order of a row
}

type columnBody struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// topicBody is the topic as the group knows it; it has 0 partitions until that
// is known.
type topicBody struct {
	Name       string `json:"name"`
	Partitions int32  `json:"partitions"`
}

type partitionBody struct {
	Topic         string           `json:"topic"`
	Partition     int32            `json:"partition"`
	State         string           `json:"state"`
	Reason        string           `json:"reason"`
	Position      int64            `json:"position"`
	HighWatermark int64            `json:"high_watermark"`
	LogStart      int64            `json:"log_start"`
	Lag           int64            `json:"lag"`
	Epoch         int64            `json:"epoch"`
	Counts        map[string]int64 `json:"counts"`
	BadReasons    map[string]int64 `json:"bad_reasons"`
	GapRecords    int64            `json:"gap_records"`
	Keys          int64            `json:"keys"`
	StateBytes    int64            `json:"state_bytes"`
	Snapshot      *snapshotBody    `json:"snapshot"`
	Restore       *restoreBody     `json:"restore"`
}

type snapshotBody struct {
	Seq        int64   `json:"seq"`
	Position   int64   `json:"position"`
	AgeSeconds float64 `json:"age_seconds"`
}

// restoreBody is the progress of a restore, in bytes.
type restoreBody struct {
	Have             int64   `json:"have"`
	Need             int64   `json:"need"`
	RemainingSeconds float64 `json:"remaining_seconds"`
}

type memberBody struct {
	Member     string  `json:"member"`
	Address    string  `json:"address"`
	Partitions []int32 `json:"partitions"`
}

type historyBody struct {
	Mode      string `json:"mode"`
	Documents int64  `json:"documents"`
	Complete  bool   `json:"complete"`
}

// serveStatus answers GET /v1/status: this member's partitions, and the whole
// group.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) error {
	if p := newParams(r); p.err != nil {
		return p.err
	}
	view := s.group.View()
	status := s.reader.Status()
	body := statusBody{
		Member:     view.Member,
		Group:      view.Group,
		Generation: view.Generation,
		Version:    s.opts.Version,
		Definition: s.definition(),
		Topic:      topicBody{s.program.Query().Topic, view.partitions()},
		Partitions: []partitionBody{},
		Members:    []memberBody{},
		History:    s.history(&view, status),
	}
	for i := range status {
		body.Partitions = append(body.Partitions, s.partition(&status[i]))
	}
	for _, m := range view.Members {
		partitions := append([]int32{}, m.Partitions...)
		slices.Sort(partitions)
		body.Members = append(body.Members, memberBody{m.ID, m.Address, partitions})
	}
	s.respondJSON(w, r, http.StatusOK, body)
	return nil
}

// definition is the query with what its columns are.
func (s *Server) definition() definitionBody {
	q := s.program.Query()
	b := definitionBody{SQL: q.SQL, Fingerprint: s.fingerprint, Keys: s.columns}
	for _, c := range q.Columns {
		b.Columns = append(b.Columns, columnBody{c.Name, q.Expression(c)})
	}
	return b
}

func (s *Server) partition(st *aggregator.PartitionStatus) partitionBody {
	b := partitionBody{
		Topic: st.Topic, Partition: st.Partition, State: st.State.String(), Reason: st.Reason,
		Position: st.Position, HighWatermark: st.End, LogStart: st.LogStart, Lag: lag(st), Epoch: st.Epoch,
		Counts: map[string]int64{}, BadReasons: map[string]int64{},
		GapRecords: st.Gap, Keys: st.Keys, StateBytes: st.Bytes,
	}
	for r := range aggregator.NumResults {
		b.Counts[r.String()] = st.Counts.Results[r]
	}
	for i, n := range st.Counts.Reasons {
		if n > 0 {
			b.BadReasons[event.Reason(i).String()] = n
		}
	}
	if newest := st.Snapshot; newest != nil {
		b.Snapshot = &snapshotBody{newest.Seq, newest.Progress.Position, max(0, time.Since(newest.Created).Seconds())}
	}
	if r := st.Restore; r != nil {
		b.Restore = &restoreBody{r.Have, r.Need, r.Remaining.Seconds()}
	}
	return b
}

// history is what the states of this member's partitions hold of it; nil
// without a history. It is complete once the member knows its partitions, and
// each of them has all of it.
func (s *Server) history(view *View, status []aggregator.PartitionStatus) *historyBody {
	if s.opts.HistoryMode == "" {
		return nil
	}
	h := &historyBody{Mode: s.opts.HistoryMode, Complete: view.Assigned}
	for i := range status {
		h.Documents += status[i].Documents
		h.Complete = h.Complete && status[i].Seeded
	}
	for _, p := range view.Own {
		h.Complete = h.Complete && slices.ContainsFunc(status, func(st aggregator.PartitionStatus) bool { return st.Partition == p })
	}
	return h
}
