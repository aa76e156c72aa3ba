package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	peerDialTimeout = time.Second
	peerReadTimeout = 3 * time.Second // for one look-up, the waiting it asks for not counted
	maxPeerAnswer   = 256 << 20       // bytes
)

// peers asks other members over the internal routes.
type peers struct {
	client      *http.Client
	token       string // "" for none
	fingerprint string // of the definition; a member with another one is not asked

	mu   sync.Mutex
	late map[string]time.Time // by member: when it was late
}

func newPeers(fingerprint, token string, config *tls.Config) *peers {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: peerDialTimeout}).DialContext,
		TLSClientConfig:     config,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     time.Minute,
	}
	return &peers{
		client:      &http.Client{Transport: transport},
		token:       token,
		fingerprint: fingerprint,
		late:        map[string]time.Time{},
	}
}

// source is the member as a source.
func (p *peers) source(view *View, member string) source {
	for _, m := range view.Members {
		if m.ID == member {
			return &peer{p, m.Address}
		}
	}
	return &peer{p, ""}
}

// suspect notes that a member was late, heard that it has spoken.
func (p *peers) suspect(member string) {
	p.mu.Lock()
	p.late[member] = time.Now()
	p.mu.Unlock()
}

func (p *peers) heard(member string) {
	p.mu.Lock()
	delete(p.late, member)
	p.mu.Unlock()
}

// suspects says whether all of the members were late a moment ago.
func (p *peers) suspects(members map[string][]int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range members {
		if at, ok := p.late[m]; !ok || time.Since(at) > suspectFor {
			return false
		}
	}
	return true
}

func (p *peers) close() { p.client.CloseIdleConnections() }

// peer is the source of another member's partitions.
type peer struct {
	peers   *peers
	address string // http://host:port
}

// asked is the body of a question on the way to another member.
type asked[Q any] struct {
	Of       []int32 `json:"of"`
	Question Q       `json:"question"`
}

// Read implements source.
func (p *peer) Read(ctx context.Context, of []int32, q readQuestion) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, peerReadTimeout+q.Wait)
	defer cancel()
	return p.post(ctx, internalRead, asked[readQuestion]{of, q})
}

// Scan implements source.
func (p *peer) Scan(ctx context.Context, of []int32, q scanQuestion) (answer, error) {
	return p.post(ctx, internalScan, asked[scanQuestion]{of, q})
}

// Top implements source.
func (p *peer) Top(ctx context.Context, of []int32, q topQuestion) (answer, error) {
	return p.post(ctx, internalTop, asked[topQuestion]{of, q})
}

// post asks. Its error is a problem: moving, busy, or unreachable.
func (p *peer) post(ctx context.Context, route string, question any) (a answer, err error) {
	unreachable := func(format string, args ...any) error {
		return problemf(typeUnreachable, "its owner at %s "+format, append([]any{p.address}, args...)...)
	}
	if p.address == "" {
		return a, problemf(typeUnreachable, "its owner has told no address")
	}
	body, err := json.Marshal(question)
	if err != nil {
		return a, fmt.Errorf("encode a question: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(p.address, "/")+route, bytes.NewReader(body))
	if err != nil {
		return a, unreachable("cannot be asked: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(definitionHeader, p.peers.fingerprint)
	if p.peers.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.peers.token)
	}
	resp, err := p.peers.client.Do(req)
	if err != nil {
		return a, unreachable("cannot be reached: %v", err)
	}
	defer resp.Body.Close()
	limited := io.LimitReader(resp.Body, maxPeerAnswer)
	if resp.StatusCode != http.StatusOK {
		var told problem
		if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&told); err != nil {
			return a, unreachable("answers with status %d", resp.StatusCode)
		}
		if told.Type == typeMoving || told.Type == typeBusy {
			return a, problemf(told.Type, "%s", told.Detail)
		}
		return a, unreachable("answers with %s: %s", told.Type, told.Detail)
	}
	if err := json.NewDecoder(limited).Decode(&a); err != nil {
		return a, unreachable("gives an answer that cannot be read: %v", err)
	}
	return a, nil
}
