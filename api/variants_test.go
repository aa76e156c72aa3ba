package api

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// TestQ03KeysOfOddCharacters: a key is found under its own text in a path, by
// either way to write it, and texts that only look like it are others.
func TestQ03KeysOfOddCharacters(t *testing.T) {
	m := one(t, salesQuery, 3, Options{})
	keys := []string{"23", "a+b", "a b", "é", "e\u0301", "a/b", "%", "%25", "a\x00b", ".", "..", "watch", "a?b", "a#b", "a;b", "a&b=c", `"`, `\`, "\n", "\u2028", "😀", "~", "'", "<b>", "null", "0", "-0", "1.0", "1e3"}
	for _, key := range keys {
		m.reader.fold(placedAt(key, 3), sale(fmt.Sprintf("%q", url.PathEscape(key)), "1")) // not under the key
		m.reader.fold(placedAt(key, 3), sale(jsonText(key), "1"))
	}
	for _, key := range keys {
		for _, path := range []string{url.PathEscape(key), percent(key)} {
			req := m.request("GET", "/", "")
			req.URL.Opaque = "/v1/aggregates/" + path
			resp, err := m.http.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%q as %s: %d", key, path, resp.StatusCode)
			}
		}
	}
	for _, none := range []string{"23.0", "023", "+23", "%2023", "a%20%20b", "A%20B", "%EF%BC%92%EF%BC%93", "1", "1000", "%22null%22"} {
		m.get("/v1/aggregates/"+none).problem(t, 404, typeNotFound)
	}
}

// percent writes every byte as %XX.
func percent(s string) (out string) {
	for i := range len(s) {
		out += fmt.Sprintf("%%%02X", s[i])
	}
	return out
}

func jsonText(s string) string {
	out := `"`
	for _, r := range s {
		if r < 0x10000 {
			out += fmt.Sprintf(`\u%04x`, r)
		} else {
			out += string(r)
		}
	}
	return out + `"`
}
