package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestQ05Q06RequestsAtTheirEdges: requests as clients, proxies and typing errors
// make them. Each is answered, or refused as a problem of the right type that
// says what it wants; none is a 500, and none is passed over.
func TestQ05Q06RequestsAtTheirEdges(t *testing.T) {
	m := one(t, salesQuery, 3, Options{})
	for i := range 5 {
		key := fmt.Sprintf("U-%d", i)
		m.reader.fold(placedAt(key, 3), sale(`"`+key+`"`, fmt.Sprint(i)))
	}
	long := strings.Repeat("k", 1025)
	for _, c := range []struct {
		method, path, body string
		code               int
		typ                string // of the problem, "" for an answer
	}{
		{"GET", "/v1/aggregates/U-1", "", 200, ""},
		{"GET", "/v1/aggregates/U-1/", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates//U-1", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1/U-2", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/" + long, "", 404, typeNotFound},
		{"GET", "/v1/aggregates/%ff", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0:-1", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=-1:0", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=3:0", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0:0,0:0", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0:0,,1:0", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0:99999999999999999999", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0:0,1:0,2:0", "", 200, ""},
		{"GET", "/v1/aggregates/U-1?min_offset=0:0&timeout=0s", "", 200, ""},
		{"GET", "/v1/aggregates/U-1?min_offset=0:99&timeout=1ms", "", 504, typeTimeout},
		{"GET", "/v1/aggregates/U-1?min_offset=0:0&timeout=11s", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0:0&timeout=-1s", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?min_offset=0:0&timeout=2", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?numbers=text", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?numbers=string&numbers=string", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?Numbers=string", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?partial=true", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?local=yes", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?%zz=1", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1?a=1;b=2", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?limit=1.0", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?limit=+5", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?limit=0x10", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?limit=", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?limit=1001", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?limit=1000", "", 200, ""},
		{"GET", "/v1/aggregates?cursor=", "", 200, ""},
		{"GET", "/v1/aggregates?cursor=AAAA", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?cursor=" + strings.Repeat("A", 5000), "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?order=", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?order=-", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?order=--sales", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?order=Sales", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?order=sales&cursor=AAAA", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates?order=-sales&limit=2", "", 200, ""},
		{"POST", "/v1/aggregates", "", 405, typeMethodNotAllowed},
		{"DELETE", "/v1/aggregates/U-1", "", 405, typeMethodNotAllowed},
		{"GET", "/v1/aggregates:batchGet", "", 405, typeMethodNotAllowed},
		{"POST", "/v1/aggregates:batchget", `{"keys":[]}`, 404, typeUnknownRoute},
		{"POST", "/v1/aggregates:batchGet", "", 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `[]`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":null}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":[1]}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":["U-1",null]}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":["U-1"],"limit":1}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"Keys":["U-1"]}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":["U-1"]}{"keys":[]}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":["U-1"],"keys":["U-2"]}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":[["U-1","U-2"]]}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":["U-1","nobody","U-1"]}`, 200, ""},
		{"POST", "/v1/aggregates:batchGet", `{"keys":[` + strings.TrimSuffix(strings.Repeat(`"U-1",`, 1001), ",") + `]}`, 400, typeBadRequest},
		{"POST", "/v1/aggregates:batchGet", `{"keys":["` + strings.Repeat("k", 2<<20) + `"]}`, 413, typeTooLarge},
		{"GET", "/v1/aggregates/U-1/watch?limit=1", "", 400, typeBadRequest},
		{"GET", "/v1/aggregates/U-1/Watch", "", 400, typeBadRequest},
		{"POST", "/v1/aggregates/U-1/watch", "", 405, typeMethodNotAllowed},
		{"GET", "/v1", "", 404, typeUnknownRoute},
		{"GET", "/V1/status", "", 404, typeUnknownRoute},
		{"GET", "/v1/status/", "", 404, typeUnknownRoute},
		{"GET", "/v1/status?x=1", "", 400, typeBadRequest},
		{"GET", "/v1/../v1/status", "", 307, ""},
		{"HEAD", "/healthz", "", 200, ""},
		{"OPTIONS", "/v1/aggregates/U-1", "", 405, typeMethodNotAllowed},
		{"TRACE", "/v1/aggregates/U-1", "", 405, typeMethodNotAllowed},
	} {
		req := m.request(c.method, "/", c.body)
		req.URL.Opaque, req.URL.RawQuery, _ = strings.Cut(c.path, "?")
		resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
		if err != nil {
			t.Fatalf("%s %.80s: %v", c.method, c.path, err)
		}
		text := read(resp)
		what := fmt.Sprintf("%s %.80s %.60s", c.method, c.path, c.body)
		if resp.StatusCode != c.code || c.typ != "" && (!strings.Contains(text, `"type":"`+c.typ+`"`) || resp.Header.Get("Content-Type") != "application/problem+json") {
			t.Errorf("%s: %d %.300s, want %d %s", what, resp.StatusCode, text, c.code, c.typ)
		}
	}
}

// read is a body, which is closed.
func read(resp *http.Response) string {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
