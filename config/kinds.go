package config

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are the same on every machine, also in an empty container
	"unicode"

	"tidemark/event"
)

// shape says what a key's value looks like in YAML.
type shape int

const (
	one    shape = iota // a scalar
	list                // a list of scalars; one scalar alone is taken for a list of one
	pairs               // a mapping of names to scalars
	object              // any mapping: it becomes JSON
)

// kind is a type of value: how its text is read and what is said where it
// cannot be.
type kind struct {
	name  string // in the documentation
	shape shape
	want  string // what a text must be, after "is not"
	parse func(text string) (any, bool)
	near  []string // the words that there are, for the nearest one

	join   func(items []any) any                       // list: the typed list
	pair   func(m any, name string, v any) (any, bool) // pairs: m with one more, false where the name does not fit
	names  string                                      // pairs: what a name must be
	split  bool                                        // list: a scalar alone is split at commas
	secret bool                                        // never quoted; file:PATH reads a file
	file   bool                                        // a path, relative to the configuration's folder
	sample string                                      // a text that parses, where the real one cannot be known
}

func textKind() kind {
	return kind{name: "text", want: "a text", sample: "unset",
		parse: func(s string) (any, bool) { return s, true }}
}

func fileKind() kind {
	k := textKind()
	k.name, k.want, k.file = "path", "a path", true
	k.parse = func(s string) (any, bool) { return s, !strings.ContainsRune(s, 0) }
	return k
}

// groupKind is the name of a consumer group. Kafka takes any; one that cannot
// be seen is a mistake.
func groupKind() kind {
	k := textKind()
	k.want = "a name on one line, with more than blanks in it"
	k.parse = func(s string) (any, bool) {
		return s, strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, unicode.IsControl)
	}
	return k
}

func secretKind() kind {
	return kind{name: "secret", secret: true, sample: "unset",
		want:  "one line of text, or file:PATH",
		parse: func(s string) (any, bool) { return NewSecret(s), !strings.ContainsAny(s, "\r\n\x00") }}
}

// tokenKind is a secret that goes into a header.
func tokenKind() kind {
	k := secretKind()
	k.want = "a token of visible ASCII characters without blanks, or file:PATH"
	k.parse = func(s string) (any, bool) {
		for i := range len(s) {
			if s[i] <= ' ' || s[i] > '~' {
				return nil, false
			}
		}
		return NewSecret(s), true
	}
	return k
}

// words takes one of some words, in any case.
func words(options ...string) kind {
	return kind{name: strings.Join(options, ", "), near: options, sample: options[0],
		want: "one of " + strings.Join(options, ", "),
		parse: func(s string) (any, bool) {
			for _, o := range options {
				if strings.EqualFold(s, o) {
					return o, true
				}
			}
			return nil, false
		}}
}

func levelKind() kind {
	k := words("debug", "info", "warn", "error")
	word := k.parse
	k.parse = func(s string) (any, bool) {
		var level slog.Level
		_, ok := word(s)
		ok = ok && level.UnmarshalText([]byte(s)) == nil // before level is read
		return level, ok
	}
	return k
}

// whole takes a whole number.
func whole(least, most int) kind {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most == math.MaxInt32 {
		want = fmt.Sprintf("a whole number of %d or more", least)
	}
	return kind{name: "number", want: want, sample: strconv.Itoa(least),
		parse: func(s string) (any, bool) {
			n, err := strconv.Atoi(s)
			return n, err == nil && n >= least && n <= most
		}}
}

// millis takes a whole number of milliseconds and gives a duration.
func millis(least, most int) kind {
	k := whole(least, most)
	k.want = fmt.Sprintf("a whole number of milliseconds from %d to %d", least, most)
	k.parse = func(s string) (any, bool) {
		n, err := strconv.Atoi(s)
		return time.Duration(n) * time.Millisecond, err == nil && n >= least && n <= most
	}
	return k
}

func share() kind {
	return kind{name: "share", want: "a share from 0 to 1, such as 0.01", sample: "1",
		parse: func(s string) (any, bool) {
			f, err := strconv.ParseFloat(s, 64)
			return f, err == nil && f >= 0 && f <= 1
		}}
}

// mostDays bounds durations: some are taken many times, which must not overflow.
const mostDays = 3650

// duration takes Go's durations, and whole days.
func duration(least time.Duration) kind {
	return kind{name: "duration", sample: least.String(),
		want: fmt.Sprintf("a duration with its unit, from %v to %dd, such as 30s, 5m, 24h or 7d", least, mostDays),
		parse: func(s string) (any, bool) {
			d, err := time.ParseDuration(s)
			if days, ok := strings.CutSuffix(s, "d"); ok {
				var n uint64
				n, err = strconv.ParseUint(days, 10, 16)
				d = time.Duration(n) * 24 * time.Hour
			}
			return d, err == nil && d >= least && d <= mostDays*24*time.Hour
		}}
}

var byteUnits = map[string]int64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

var byteText = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)

// size takes a number of bytes, plain or with a unit.
func size(least, most int64) kind {
	want := fmt.Sprintf("a number of bytes of %s or more, such as 512MiB, 64MB or 1048576", byteSize(least))
	if most != math.MaxInt64 {
		want = fmt.Sprintf("a number of bytes from %s to %s, such as 64MiB, 64MB or 1048576", byteSize(least), byteSize(most))
	}
	return kind{name: "bytes", want: want, sample: strconv.FormatInt(least, 10),
		parse: func(s string) (any, bool) {
			m := byteText.FindStringSubmatch(s)
			if m == nil {
				return nil, false
			}
			unit, ok := byteUnits[strings.ToLower(m[2])]
			n, err := strconv.ParseInt(m[1], 10, 64)
			if !ok || err != nil || n > math.MaxInt64/unit {
				return nil, false
			}
			n *= unit
			return n, n >= least && n <= most
		}}
}

// byteSize is a number of bytes for people.
func byteSize(n int64) string {
	for _, u := range []string{"GiB", "MiB", "KiB"} {
		if unit := byteUnits[strings.ToLower(u)]; n >= unit && n%unit == 0 {
			return strconv.FormatInt(n/unit, 10) + " " + u
		}
	}
	return strconv.FormatInt(n, 10)
}

func instant() kind {
	return kind{name: "time", want: "a time in RFC 3339 with its zone, such as 2015-07-29T00:00:00Z", sample: "1970-01-01T00:00:00Z",
		parse: func(s string) (any, bool) {
			t, err := time.Parse(time.RFC3339Nano, s)
			return t, err == nil
		}}
}

// zone takes the name of a time zone, never the host's own.
func zone() kind {
	return kind{name: "time zone", want: "the name of a time zone, such as UTC or Europe/Madrid", sample: "UTC",
		parse: func(s string) (any, bool) {
			if strings.EqualFold(s, "local") {
				return nil, false
			}
			_, err := time.LoadLocation(s)
			return s, err == nil
		}}
}

// hostPort takes host:port; the host may be absent where wildcard is.
func hostPort(wildcard bool) kind {
	want, least := "host:port, such as localhost:9092", uint64(1)
	if wildcard {
		want, least = "host:port, such as 127.0.0.1:8080, :8080 for all addresses, or port 0 for a free one", 0
	}
	return kind{name: "address", want: want, sample: "localhost:9092",
		parse: func(s string) (any, bool) {
			host, port, err := net.SplitHostPort(s)
			n, perr := strconv.ParseUint(port, 10, 16)
			return s, err == nil && perr == nil && n >= least && (wildcard || host != "") && hostFits(host)
		}}
}

// hostFits says whether host is a name or an address, without a scheme or a
// path in it.
func hostFits(host string) bool {
	return !strings.ContainsAny(host, "/@ \t\\") && (!strings.Contains(host, ":") || isAddress(host))
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// webURL takes an http or https address. One with a user in it is refused and
// never quoted: it may hold a password.
func webURL(path bool, example string) kind {
	want := "an address such as " + example
	return kind{name: "URL", want: want, sample: "http://localhost:9200",
		parse: func(s string) (any, bool) {
			u, err := url.Parse(s)
			ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
				u.User == nil && u.RawQuery == "" && u.Fragment == "" && hostFits(u.Hostname()) &&
				(path || u.Path == "" || u.Path == "/") && portFits(u)
			return strings.TrimSuffix(s, "/"), ok
		}}
}

func portFits(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// origin takes what a browser sends as Origin, or * for all.
func origin() kind {
	k := webURL(false, "https://dash.example, or *")
	page := k.parse
	k.name = "origin"
	k.want = "an origin such as https://dash.example, or *"
	k.parse = func(s string) (any, bool) {
		if s == "*" {
			return s, true
		}
		return page(s)
	}
	return k
}

// storeURL takes a place that snapshots can be kept in.
func storeURL() kind {
	return kind{name: "URL", sample: "file:///unset",
		want: "a URL such as file:///var/lib/tidemark/snapshots, s3://bucket?region=eu-west-1, gs://bucket or azblob://container",
		parse: func(s string) (any, bool) {
			u, err := url.Parse(s)
			if err != nil || u.User != nil {
				return nil, false
			}
			switch u.Scheme {
			case "file":
				return s, u.Host == "" && filepath.IsAbs(u.Path) && u.Path != "/"
			case "s3", "gs", "azblob":
				return s, u.Host != ""
			}
			return nil, false
		}}
}

var kafkaName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// kafkaNameKind takes what Kafka takes as the name of a topic or an instance.
func kafkaNameKind() kind {
	return kind{name: "text", want: "a name of up to 249 letters, digits, dots, dashes and underscores", sample: "unset",
		parse: func(s string) (any, bool) { return s, kafkaName.MatchString(s) && s != "." && s != ".." }}
}

// pathKind takes a dotted path; names with dots stand in quotes.
func pathKind() kind {
	return kind{name: "path", want: "a path of names with dots, such as user.id; a name that holds a dot stands in backquotes", sample: "unset",
		parse: func(s string) (any, bool) {
			p, ok := parsePath(s)
			return p, ok
		}}
}

// parsePath reads a path as the query writes it: names with dots between them,
// in backquotes or double quotes where they hold dots; a doubled quote is one.
func parsePath(s string) (event.Path, bool) {
	var path event.Path
	for {
		var name string
		if s != "" && (s[0] == '`' || s[0] == '"') {
			quote := s[:1]
			s = s[1:]
			for {
				i := strings.Index(s, quote)
				if i < 0 {
					return nil, false
				}
				name += s[:i]
				s = s[i+1:]
				if !strings.HasPrefix(s, quote) {
					break
				}
				name += quote
				s = s[1:]
			}
		} else {
			i := strings.IndexByte(s, '.')
			if i < 0 {
				i = len(s)
			}
			name, s = s[:i], s[i:]
			if strings.ContainsAny(name, "`\"") {
				return nil, false
			}
		}
		if name == "" {
			return nil, false
		}
		path = append(path, name)
		if s == "" {
			return path, true
		}
		if s[0] != '.' {
			return nil, false
		}
		s = s[1:]
	}
}

// listOf takes a list of what one takes; with split, a text alone may be
// several with commas between them.
func listOf[T any](one kind, split bool) kind {
	one.shape, one.split = list, split
	one.name = "list of " + one.name
	one.join = func(items []any) any {
		all := make([]T, 0, len(items))
		for _, item := range items {
			if v, ok := item.(T); ok { // as all are that the kind parsed
				all = append(all, v)
			}
		}
		return all
	}
	return one
}

// fieldsKind takes result names with document paths.
func fieldsKind() kind {
	k := pathKind()
	k.name, k.shape, k.names = "mapping of result names to paths", pairs, "a result name"
	k.pair = func(m any, name string, v any) (any, bool) {
		fields, ok := m.(map[string]event.Path)
		if !ok {
			fields = map[string]event.Path{}
		}
		path, ok := v.(event.Path)
		fields[name] = path
		return fields, ok && name != ""
	}
	return k
}

// offsetsKind takes partition numbers with offsets.
func offsetsKind() kind {
	return kind{name: "mapping of partitions to offsets", shape: pairs, sample: "0",
		want: "an offset, a whole number of 0 or more", names: "the number of a partition",
		parse: func(s string) (any, bool) {
			n, err := strconv.ParseInt(s, 10, 64)
			return n, err == nil && n >= 0
		},
		pair: func(m any, name string, v any) (any, bool) {
			offsets, ok := m.(map[int32]int64)
			if !ok {
				offsets = map[int32]int64{}
			}
			n, err := strconv.ParseInt(name, 10, 32)
			if err != nil || n < 0 {
				return m, false
			}
			_, twice := offsets[int32(n)]
			offset, ok := v.(int64)
			offsets[int32(n)] = offset
			return offsets, ok && !twice
		}}
}

// queryKind takes a mapping of Elasticsearch's query language.
func queryKind() kind {
	return kind{name: "mapping", shape: object, want: "a query as Elasticsearch writes it, such as {match_all: {}}"}
}
