package config

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Route is how this member reaches Kafka.
type Route struct {
	Locals  []netip.Addr // the addresses that connections to the brokers come from
	Brokers []netip.Addr // what the brokers' names stand for
}

// FindRoute resolves the names of servers (host:port) and asks the system for
// the local address towards them. It sends nothing to the brokers. Its error
// is that of the last server where none can be resolved: that may pass.
func FindRoute(ctx context.Context, servers []string) (Route, error) {
	var route Route
	failed := errors.New("find the way to Kafka: no brokers are named")
	for _, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			return Route{}, fmt.Errorf("read the broker's address %s: %w", server, err)
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			failed = fmt.Errorf("resolve the broker's name %s: %w", host, err)
			continue
		}
		for _, addr := range addrs {
			route.Brokers = append(route.Brokers, addr.Unmap())
			// Connecting a datagram socket chooses its local address, no more.
			var d net.Dialer
			conn, err := d.DialContext(ctx, "udp", net.JoinHostPort(addr.Unmap().String(), port))
			if err != nil {
				failed = fmt.Errorf("find the local address towards the broker %s: %w", server, err)
				continue
			}
			if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
				route.Locals = append(route.Locals, local.AddrPort().Addr().Unmap())
			}
			_ = conn.Close() // nothing was sent
		}
	}
	if len(route.Locals) == 0 {
		return Route{}, failed
	}
	return route, nil
}

// Advertise is the URL at which other members reach this one: the setting
// http.advertise where it is not empty; else the address listened on, with its
// real port, where that names one host; else, with a wildcard, the local
// address from which this member reaches Kafka. A wildcard is refused, and so
// is loopback while a broker is not on loopback.
func Advertise(listen, advertise string, tls bool, route Route) (string, error) {
	setting := "http.advertise"
	var host string
	if advertise != "" {
		u, err := url.Parse(advertise)
		if err != nil {
			return "", fmt.Errorf("read http.advertise %q: %w", advertise, err)
		}
		host = u.Hostname()
		if isWildcard(host) {
			return "", fmt.Errorf("http.advertise %s is not an address at which others could reach this member: a host is wanted", advertise)
		}
	} else {
		setting = "http.listen"
		var port string
		var err error
		if host, port, err = net.SplitHostPort(listen); err != nil {
			return "", fmt.Errorf("read http.listen %q: %w", listen, err)
		}
		if isWildcard(host) {
			local, ok := route.local(host)
			if !ok {
				return "", fmt.Errorf("http.listen %s names no host, and no local address towards Kafka fits it: set http.advertise to http://HOST:PORT", listen)
			}
			setting = "the local address towards Kafka"
			host = local.String()
		}
		scheme := "http"
		if tls {
			scheme = "https"
		}
		advertise = scheme + "://" + net.JoinHostPort(host, port)
	}
	if isLoopback(host) {
		for _, broker := range route.Brokers {
			if !broker.Unmap().IsLoopback() {
				return "", fmt.Errorf("%s: other members cannot reach %s, which is loopback while the broker at %s is not: set http.advertise to http://HOST:PORT of this machine, or http.listen to an address of it", setting, host, broker)
			}
		}
	}
	return advertise, nil
}

// local is the first local address at which who listens on the wildcard can be
// reached: 0.0.0.0 takes IPv4 alone.
func (r Route) local(wildcard string) (netip.Addr, bool) {
	for _, addr := range r.Locals {
		if !addr.IsUnspecified() && (addr.Is4() || wildcard != "0.0.0.0") {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// isWildcard says whether host stands for all addresses of a machine.
func isWildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.Unmap().IsUnspecified()
}

// isLoopback says whether host is loopback by its text.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || isLocalhost(host)
}

// isLocalhost knows the names that stand for loopback everywhere.
func isLocalhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
