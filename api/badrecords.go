package api

import (
	"net/http"
	"time"
)

type badRecordsBody struct {
	Records []badRecordBody `json:"records"`
}

type badRecordBody struct {
	Reason    string    `json:"reason"`
	Field     string    `json:"field"`
	Error     string    `json:"error"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Seen      time.Time `json:"seen"`
}

// serveBadRecords answers GET /v1/bad-records: some of the newest of each
// reason that this member has seen since it started.
func (s *Server) serveBadRecords(w http.ResponseWriter, r *http.Request) error {
	if p := newParams(r); p.err != nil {
		return p.err
	}
	body := badRecordsBody{Records: []badRecordBody{}}
	for _, b := range s.reader.BadSamples() {
		body.Records = append(body.Records, badRecordBody{
			b.Reason.String(), b.Field, b.Error, b.Topic, b.Partition, b.Offset, b.Seen.UTC().Truncate(time.Millisecond),
		})
	}
	s.respondJSON(w, r, http.StatusOK, body)
	return nil
}
