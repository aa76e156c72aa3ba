package config

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// within says whether path is section or below it.
func within(path, section string) bool {
	return path == section || strings.HasPrefix(path, section+sep)
}

// anySet says whether anything was set within a section, also in vain.
func (r *reader) anySet(section string) bool {
	for _, k := range keys {
		if within(k.path, section) && (r.set(k.path) || r.assumed(k.path)) {
			return true
		}
	}
	return false
}

// hasSource says whether a source of history is named.
func (r *reader) hasSource() bool {
	return r.set("history/file") || r.assumed("history/file") || r.anySet("history/elasticsearch")
}

// word is a setting of words, its default where it is not set, and "" where it
// cannot be known.
func (r *reader) word(path string) string {
	if r.assumed(path) {
		return ""
	}
	if v, ok := r.values[path].(string); ok {
		return v
	}
	return keyAt[path].def
}

// useless reports a setting that would have no effect.
func (r *reader) useless(path, why string) {
	if r.set(path) {
		r.problem(r.line(path), "%s has no effect %s: leave it out", shown(path), why)
		delete(r.values, path) // nothing more is said of it
	}
}

// require reports a setting that is missing.
func (r *reader) require(path, why string) {
	if !r.set(path) && !r.assumed(path) {
		r.problem(r.line(path), "%s is missing: it is required%s", shown(path), why)
	}
}

// both reports one of two settings that is given without the other.
func (r *reader) both(a, b string) {
	if r.set(a) {
		r.require(b, " with "+shown(a))
	}
	if r.set(b) {
		r.require(a, " with "+shown(b))
	}
}

// rules looks at what the settings are together.
func (r *reader) rules() {
	switch {
	case r.set("query") && r.set("query_file"):
		r.problem(r.line("query_file"), "query_file has no effect beside query: give one of them")
	case !r.set("query") && !r.assumed("query") && !r.set("query_file") && !r.assumed("query_file"):
		r.problem(1, "query is missing: it or query_file is required")
	}
	r.require("kafka/bootstrap.servers", "")
	r.require("kafka/group.id", "")
	r.security()
	r.history()
	r.cut()
	r.both("http/tls/cert_file", "http/tls/key_file")
	r.address()
}

// security checks TLS and login towards Kafka.
func (r *reader) security() {
	protocol := r.word("kafka/security.protocol")
	switch protocol {
	case "":
	case "PLAINTEXT", "SASL_PLAINTEXT":
		for _, name := range []string{"ssl.ca.location", "ssl.certificate.location", "ssl.key.location"} {
			r.useless("kafka/"+name, "with security.protocol "+protocol)
		}
	default:
		r.both("kafka/ssl.certificate.location", "kafka/ssl.key.location")
	}
	switch protocol {
	case "":
	case "PLAINTEXT", "SSL":
		for _, name := range []string{"sasl.mechanism", "sasl.username", "sasl.password"} {
			r.useless("kafka/"+name, "with security.protocol "+protocol)
		}
	default:
		r.require("kafka/sasl.mechanism", " with security.protocol "+protocol)
		switch mechanism := r.word("kafka/sasl.mechanism"); mechanism {
		case "":
		case "OAUTHBEARER":
			r.require("kafka/sasl.password", ", as the token of sasl.mechanism OAUTHBEARER")
			r.useless("kafka/sasl.username", "with sasl.mechanism OAUTHBEARER")
		default:
			r.require("kafka/sasl.username", " with sasl.mechanism "+mechanism)
			r.require("kafka/sasl.password", " with sasl.mechanism "+mechanism)
		}
	}
}

// history checks the source of the history.
func (r *reader) history() {
	const es = "history/elasticsearch"
	if !r.hasSource() {
		for _, k := range keys {
			if within(k.path, "history") {
				r.useless(k.path, "without history.file or history.elasticsearch")
			}
		}
		return
	}
	if r.anySet(es) {
		if r.set("history/file") {
			r.problem(r.line("history/file"), "history.file has no effect beside history.elasticsearch: give one of them")
		}
		r.require(es+"/addresses", " with history.elasticsearch")
		r.require(es+"/index", " with history.elasticsearch")
		if r.set(es+"/api_key") && (r.set(es+"/username") || r.set(es+"/password")) {
			r.problem(r.line(es+"/api_key"), "history.elasticsearch.api_key has no effect beside username and password: give the key or the user")
		} else {
			r.both(es+"/username", es+"/password")
		}
		if addresses, ok := r.values[es+"/addresses"].([]string); ok && !r.assumed(es+"/addresses") && !anyHTTPS(addresses) {
			r.useless(es+"/ca_file", "with addresses that are all http")
		}
		if r.word("history/duplicates") == "last" {
			r.problem(r.line("history/duplicates"), "history.duplicates last has no effect with history.elasticsearch, whose documents come in no order: error or sum is wanted")
		}
	}
	if !r.anySet("history/cut") {
		r.problem(r.line("history/cut"), "history.cut is missing: it is required with a history, as cut: {mode: …} with one of earliest, latest, offsets, timestamp, guard")
	}
}

func anyHTTPS(addresses []string) bool {
	for _, a := range addresses {
		if strings.HasPrefix(a, "https:") {
			return true
		}
	}
	return false
}

// cutModes are the modes in which a setting of the cut has an effect.
var cutModes = map[string][]string{
	"offsets":     {"offsets"},
	"timestamp":   {"timestamp"},
	"slack":       {"timestamp"},
	"event_time":  {"timestamp", "guard"},
	"guard_field": {"guard"},
}

// cut checks what belongs to the mode of the cut.
func (r *reader) cut() {
	if !r.hasSource() || !r.anySet("history/cut") {
		return
	}
	r.require("history/cut/mode", " with a history")
	mode := r.word("history/cut/mode")
	if mode == "" {
		return
	}
	for _, name := range names["history/cut"] {
		modes, bound := cutModes[name]
		if bound && !slices.Contains(modes, mode) {
			r.useless("history/cut/"+name, "with cut mode "+mode)
		}
	}
	switch mode {
	case "offsets", "timestamp":
		r.require("history/cut/"+mode, " with cut mode "+mode)
	case "guard":
		r.require("history/cut/event_time", " with cut mode guard")
		r.require("history/cut/guard_field", " with cut mode guard")
	}
}

// address checks the address for other members, as far as the file tells: a
// broker's name may stand for any address, so Advertise looks again at start.
func (r *reader) address() {
	path := "http/advertise"
	host := ""
	if s, ok := r.values[path].(string); ok {
		if u, err := url.Parse(s); err == nil {
			host = u.Hostname()
		}
	} else {
		path = "http/listen"
		host, _, _ = net.SplitHostPort(r.word(path))
	}
	if r.assumed(path) || r.assumed("kafka/bootstrap.servers") {
		return
	}
	line := r.line(path)
	if !r.set(path) {
		line = r.line("kafka/bootstrap.servers")
	}
	if isWildcard(host) {
		if path == "http/advertise" {
			r.problem(line, "http.advertise: %s is not an address at which others could reach this member: a host is wanted", host)
		}
		return // derived at start
	}
	if !isLoopback(host) {
		return
	}
	servers, _ := r.values["kafka/bootstrap.servers"].([]string)
	for _, server := range servers {
		broker, _, _ := net.SplitHostPort(server)
		if addr, err := netip.ParseAddr(broker); err == nil && !addr.Unmap().IsLoopback() {
			r.problem(line, "%s: other members cannot reach %s, which is loopback while the broker %s is not: set http.advertise to http://HOST:PORT of this machine, or http.listen to an address of it", shown(path), host, server)
			return
		}
	}
}

// certificates reads the files that TLS needs, so that a wrong one is found
// here and not at the first connection.
func (r *reader) certificates(cfg *Config) {
	authorities := func(path, file string) {
		if file == "" || !r.set(path) || r.assumed(path) {
			return
		}
		pem, err := os.ReadFile(file)
		switch {
		case err != nil:
			r.problem(r.line(path), "%s: the file %s cannot be read: %v", shown(path), file, reason(err))
		case !x509.NewCertPool().AppendCertsFromPEM(pem):
			r.problem(r.line(path), "%s: the file %s holds no certificate: PEM is wanted", shown(path), file)
		}
	}
	pair := func(cert, key, certFile, keyFile string) {
		if !r.set(cert) || !r.set(key) || r.assumed(cert) || r.assumed(key) {
			return
		}
		if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
			r.problem(r.line(cert), "%s and %s: a certificate in PEM and its key, not encrypted, are wanted: %v", shown(cert), last(key), err)
		}
	}
	authorities("kafka/ssl.ca.location", cfg.Kafka.SSLCA)
	pair("kafka/ssl.certificate.location", "kafka/ssl.key.location", cfg.Kafka.SSLCertificate, cfg.Kafka.SSLKey)
	authorities("history/elasticsearch/ca_file", cfg.History.Elasticsearch.CAFile)
	pair("http/tls/cert_file", "http/tls/key_file", cfg.HTTP.TLS.CertFile, cfg.HTTP.TLS.KeyFile)
}
