//go:build integration

package integration

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

const badQuery = `SELECT userId, sum(revenue) AS revenue, CAST(max(ts) AS timestamp) AS latest, count(*) AS sales FROM "%s" WHERE channel IS NULL GROUP BY userId`

// badRecords are records of every reason, and the field at fault.
var badRecords = []struct{ reason, field, value string }{
	{"empty", "", ""},
	{"empty", "", " \t\n"},
	{"too_large", "", `{"userId":"U-1","revenue":1,"ts":1748944805,"pad":"` + strings.Repeat("x", 5000) + `"}`},
	{"too_large", "userId", `{"userId":"` + strings.Repeat("k", 1025) + `","revenue":1,"ts":1748944805}`},
	{"not_utf8", "", "{\"userId\":\"U-\xff\",\"revenue\":1,\"ts\":1748944805}"},
	{"not_utf8", "", "{\x00\"\x00u\x00\"\x00:\x001\x00}\x00"},
	{"not_json", "", `{"userId":"U-1"`},
	{"not_json", "", `{"userId":"U-1","revenue":1,"ts":1748944805} {}`},
	{"not_object", "", "null"},
	{"not_object", "", "42"},
	{"not_object", "", "[]"},
	{"not_object", "", `"x"`},
	{"duplicate_field", "revenue", `{"userId":"U-1","revenue":1,"revenue":2,"ts":1748944805}`},
	{"missing_field", "userId", "{}"},
	{"missing_field", "revenue", `{"userId":"U-1","ts":1748944805}`},
	{"missing_field", "userId", `{"userId":"","revenue":1,"ts":1748944805}`},
	{"null_field", "revenue", `{"userId":"U-1","revenue":null,"ts":1748944805}`},
	{"wrong_type", "userId", `{"userId":true,"revenue":1,"ts":1748944805}`},
	{"wrong_type", "revenue", `{"userId":"U-1","revenue":[3],"ts":1748944805}`},
	{"bad_number", "revenue", `{"userId":"U-1","revenue":"41,70","ts":1748944805}`},
	{"overflow", "revenue", `{"userId":"U-1","revenue":1e400,"ts":1748944805}`},
	{"bad_timestamp", "ts", `{"userId":"U-1","revenue":1,"ts":"2025/06/03 10:00:05"}`},
}

// Bad records of every reason between good ones: neighbours are untouched,
// offsets are consumed, nothing is lost unseen (counters add up), and each
// lies in the dead letters as it came.
func TestD01D03D18BadRecordsOfEveryReason(t *testing.T) {
	topic, letters := newTopic(t, 1), newTopic(t, 1)
	file := filepath.Join(t.TempDir(), "dead.ndjson")
	s := serve(t, settings{
		query: fmt.Sprintf(badQuery, topic),
		rest:  "events:\n  max_bytes: 4KiB\n  dead_letter: {topic: " + letters + ", file: " + file + "}\n  max_bad_share: 1",
	})
	good := `{"userId":"U-1","revenue":1.5,"ts":"2025-06-03T10:00:05Z"}`
	records := []*kgo.Record{{Topic: topic, Value: []byte(good)}}
	for i, bad := range badRecords {
		records = append(records,
			&kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Value: []byte(bad.value)},
			&kgo.Record{Topic: topic, Value: []byte(good)})
	}
	records = append(records,
		&kgo.Record{Topic: topic, Key: []byte("U-1")},                                                      // a tombstone
		&kgo.Record{Topic: topic, Value: []byte(`{"userId":"U-1","revenue":"nonsense","channel":"test"}`)}) // filtered, whatever it holds
	produceRecords(t, records...)
	s.caughtUp(topic)
	n := len(badRecords)
	s.want("U-1", fmt.Sprintf(`{"sales":%d,"revenue":%s}`, n+1, strings.TrimSuffix(fmt.Sprintf("%.1f", 1.5*float64(n+1)), ".0")))

	st, err := s.status()
	if err != nil {
		t.Fatal(err)
	}
	c := st.Partitions[0].Counts
	if c.Folded != int64(n+1) || c.Bad != int64(n) || c.Tombstone != 1 || c.Filtered != 1 {
		t.Errorf("counts are %+v, want %d folded, %d bad, 1 tombstone, 1 filtered", c, n+1, n)
	}
	if got := st.Partitions[0].consumed(); got != int64(len(records)) {
		t.Errorf("%d records consumed, want %d", got, len(records))
	}
	byReason := map[string]int{}
	for _, bad := range badRecords {
		byReason[bad.reason]++
	}
	for reason, want := range byReason {
		if got := s.metric(t, "tidemark_bad_events_total", `reason="`+reason+`"`); got != fmt.Sprint(want) {
			t.Errorf("tidemark_bad_events_total of %s is %s, want %d", reason, got, want)
		}
	}

	checkLetters(t, consume(t, letters, n), topic)
	checkLetterFile(t, s, file, topic)
	s.stop()
	if got := ends(t, letters)[0]; got != int64(n) {
		t.Errorf("%d dead letters, want %d", got, n)
	}
}

// checkLetters looks at the dead-letter topic.
func checkLetters(t *testing.T, letters []*kgo.Record, topic string) {
	t.Helper()
	for i, bad := range badRecords {
		got := letters[i]
		if string(got.Value) != bad.value || string(got.Key) != fmt.Sprintf("key-%d", i) {
			t.Errorf("dead letter %d: key %q, value %.80q, want as it came: %.80q", i, got.Key, got.Value, bad.value)
		}
		headers := map[string]string{}
		for _, h := range got.Headers {
			headers[h.Key] = string(h.Value)
		}
		want := map[string]string{
			"tidemark.reason": bad.reason, "tidemark.field": bad.field,
			"tidemark.topic": topic, "tidemark.partition": "0", "tidemark.offset": fmt.Sprint(1 + 2*i),
		}
		for name, v := range want {
			if headers[name] != v {
				t.Errorf("dead letter %d (%s): header %s is %q, want %q", i, bad.reason, name, headers[name], v)
			}
		}
		if headers["tidemark.error"] == "" {
			t.Errorf("dead letter %d (%s) has no header tidemark.error", i, bad.reason)
		}
	}
}

// checkLetterFile looks at the dead-letter file.
func checkLetterFile(t *testing.T, s *service, file, topic string) {
	t.Helper()
	var all []string
	s.until(30*time.Second, "dead-letter file", func() error {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if all = lines(string(data)); len(all) != len(badRecords) {
			return fmt.Errorf("%d lines, want %d", len(all), len(badRecords))
		}
		return nil
	})
	for i, bad := range badRecords {
		var got struct {
			Reason, Field, Error, Topic string
			Partition                   int32
			Offset                      int64
			Key                         *string
			Value                       *string
			ValueBase64                 *string `json:"value_base64"`
		}
		if err := decode([]byte(all[i]), &got); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if got.Reason != bad.reason || got.Field != bad.field || got.Error == "" || got.Topic != topic || got.Offset != int64(1+2*i) {
			t.Errorf("line %d: %.200s, want reason %s, field %q, offset %d", i+1, all[i], bad.reason, bad.field, 1+2*i)
		}
		value := ""
		switch {
		case got.Value != nil:
			value = *got.Value
		case got.ValueBase64 != nil:
			raw, err := base64.StdEncoding.DecodeString(*got.ValueBase64)
			if err != nil {
				t.Errorf("line %d: %v", i+1, err)
			}
			value = string(raw)
		}
		if value != bad.value || (got.Value != nil) != utf8.ValidString(bad.value) {
			t.Errorf("line %d: value is %.80q, want %.80q, as base64 where it is not UTF-8", i+1, value, bad.value)
		}
	}
}

// An 8 MiB event between two small ones is read.
func TestD20LargeRecordIsRead(t *testing.T) {
	topic := unique(t, "sales")
	cl := kafka(t, kgo.ProducerBatchMaxBytes(32<<20), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.BrokerMaxWriteBytes(64<<20))
	createTopic(t, cl, topic, 1)
	setTopic(t, topic, "max.message.bytes", "33554432")
	s := serve(t, settings{query: `SELECT userId, sum(revenue) AS revenue, count(*) AS sales FROM "` + topic + `" GROUP BY userId`})
	big := `{"userId":"U-20","revenue":2.25,"products":[` + strings.TrimSuffix(strings.Repeat("1234567890123456789,", 400_000), ",") + `]}`
	for _, v := range []string{sale("U-20", "1.00"), big, sale("U-20", "1.00")} {
		if err := cl.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.caughtUp(topic)
	s.want("U-20", `{"revenue":4.25,"sales":3}`)
}
