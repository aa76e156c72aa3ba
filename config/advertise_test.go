package config

import (
	"net/netip"
	"strings"
	"testing"
)

// TestQ04Advertise: the address for other members, and when it is refused.
func TestQ04Advertise(t *testing.T) {
	route := func(locals string, brokers ...string) Route {
		r := Route{}
		for local := range strings.FieldsSeq(locals) {
			r.Locals = append(r.Locals, netip.MustParseAddr(local))
		}
		for _, b := range brokers {
			r.Brokers = append(r.Brokers, netip.MustParseAddr(b))
		}
		return r
	}
	for _, c := range []struct {
		listen, advertise string
		tls               bool
		route             Route
		want, refused     string
	}{
		// The listen address names one host.
		{"10.0.0.7:8080", "", false, route("10.0.0.7", "10.0.0.1"), "http://10.0.0.7:8080", ""},
		{"tidemark-1:8080", "", true, route("10.0.0.7", "10.0.0.1"), "https://tidemark-1:8080", ""},
		{"[fd00::7]:8080", "", false, route("fd00::7", "fd00::1"), "http://[fd00::7]:8080", ""},
		{"127.0.0.1:8080", "", false, route("127.0.0.1", "127.0.0.1"), "http://127.0.0.1:8080", ""},
		{"localhost:8080", "", false, route("::1", "::1", "127.0.0.1"), "http://localhost:8080", ""},
		{"127.0.0.1:8080", "", false, route("10.0.0.7", "10.0.0.1"), "", "http.listen: other members cannot reach 127.0.0.1"},
		{"127.0.0.1:8080", "", false, route("10.0.0.7", "127.0.0.1", "10.0.0.1"), "", "the broker at 10.0.0.1 is not"},
		// A wildcard: the local address towards Kafka.
		{"0.0.0.0:8080", "", false, route("10.0.0.7", "10.0.0.1"), "http://10.0.0.7:8080", ""},
		{":8080", "", true, route("10.0.0.7", "10.0.0.1"), "https://10.0.0.7:8080", ""},
		{"[::]:8080", "", false, route("fd00::7", "fd00::1"), "http://[fd00::7]:8080", ""},
		{":8080", "", false, route("127.0.0.1", "127.0.0.1"), "http://127.0.0.1:8080", ""},
		{":8080", "", false, route("127.0.0.1", "127.0.0.1", "10.0.0.1"), "", "the local address towards Kafka: other members cannot reach 127.0.0.1"},
		{"0.0.0.0:8080", "", false, route("::1 127.0.0.1", "::1", "127.0.0.1"), "http://127.0.0.1:8080", ""}, // it does not listen on ::1
		{":8080", "", false, route("::1 127.0.0.1", "::1", "127.0.0.1"), "http://[::1]:8080", ""},
		{"0.0.0.0:8080", "", false, route("fd00::7", "fd00::1"), "", "set http.advertise"},
		{":8080", "", false, Route{}, "", "set http.advertise"},
		// What is set counts.
		{":8080", "http://tidemark-1.example:80", false, route("10.0.0.7", "10.0.0.1"), "http://tidemark-1.example:80", ""},
		{"127.0.0.1:8080", "https://10.0.0.7", false, route("10.0.0.7", "10.0.0.1"), "https://10.0.0.7", ""},
		{":8080", "http://0.0.0.0:8080", false, route("127.0.0.1", "127.0.0.1"), "", "is not an address at which others could reach"},
		{":8080", "http://[::]:8080", false, route("10.0.0.7", "10.0.0.1"), "", "is not an address at which others could reach"},
		{":8080", "http://localhost:8080", false, route("10.0.0.7", "10.0.0.1"), "", "http.advertise: other members cannot reach localhost"},
		{":8080", "http://[::ffff:127.0.0.1]:8080", false, route("10.0.0.7", "10.0.0.1"), "", "other members cannot reach"},
	} {
		have, err := Advertise(c.listen, c.advertise, c.tls, c.route)
		switch {
		case c.refused == "" && (err != nil || have != c.want):
			t.Errorf("listen %s, advertise %q, %v: %q, %v; want %q", c.listen, c.advertise, c.route, have, err, c.want)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("listen %s, advertise %q, %v: %q, %v; want it refused with %q", c.listen, c.advertise, c.route, have, err, c.refused)
		}
	}
}

func TestFindRoute(t *testing.T) {
	route, err := FindRoute(t.Context(), []string{"127.0.0.1:9092", "[::1]:9092"})
	if err != nil || len(route.Brokers) != 2 || len(route.Locals) == 0 || !route.Locals[0].IsLoopback() {
		t.Errorf("the route to loopback is %+v, %v", route, err)
	}
	if _, err := FindRoute(t.Context(), []string{"nowhere.invalid:9092"}); err == nil || !strings.Contains(err.Error(), "nowhere.invalid") {
		t.Errorf("a name that stands for nothing gives %v", err)
	}
	if _, err := FindRoute(t.Context(), nil); err == nil {
		t.Error("no brokers have a route")
	}
}
