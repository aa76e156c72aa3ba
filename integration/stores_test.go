//go:build integration && stores

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
)

// eachStore runs a test on the object stores that STORES names, by default on
// that with the interface of S3.
func eachStore(t *testing.T, test func(t *testing.T, o *servers.Objects)) {
	wanted := os.Getenv("STORES")
	if wanted == "" {
		wanted = "s3"
	}
	for scheme := range strings.SplitSeq(wanted, ",") {
		t.Run(scheme, func(t *testing.T) {
			o := servers.NewObjects(t, scheme, servers.ObjectOptions{})
			if err := o.NewBucket("snapshots"); err != nil {
				t.Fatal(err)
			}
			test(t, o)
		})
	}
}

// inBucket is the section of a store.
func inBucket(url string) string {
	return fmt.Sprintf("snapshots: {url: '%s', interval: 700ms}", url)
}

// environ is what a service needs to log in.
func environ(o *servers.Objects) (env []string) {
	for name, value := range o.Environ() {
		env = append(env, name+"="+value)
	}
	return env
}

// post asks for a publish.
func (s *service) post() (code int, body string, err error) {
	resp, err := (&http.Client{Timeout: 2 * time.Minute}).Post(s.url+"/v1/snapshots", "", nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// published says whether the member has n partitions, live, each at its end and
// with a snapshot of that.
func (s *service) published(n int, end map[int32]int64) func() error {
	return func() error {
		st, err := s.status()
		if err != nil {
			return err
		}
		if len(st.Partitions) != n {
			return fmt.Errorf("%d partitions, want %d", len(st.Partitions), n)
		}
		for _, p := range st.Partitions {
			if want := end[p.Partition]; p.State != "live" || p.Position != want || p.Snapshot == nil || p.Snapshot.Position != want {
				return fmt.Errorf("partition %d is %s %q at %d of %d, its snapshot %+v",
					p.Partition, p.State, p.Reason, p.Position, want, p.Snapshot)
			}
		}
		return nil
	}
}

// A member dies with its disk, and the other takes over from the bucket. Then
// the bucket is away: answers and folding go on, snapshots grow old, a publish
// that is asked for says why there is none, and a member that starts waits and
// says for what. When it is back all goes on, exactly.
func TestSnapshotsInABucket(t *testing.T) {
	eachStore(t, func(t *testing.T, bucket *servers.Objects) {
		const partitions, events = 4, 6000
		topic, group := newTopic(t, partitions), unique(t, "group")
		set := settings{query: salesQuery(topic), group: group, rest: inBucket(bucket.URL("snapshots")), env: environ(bucket)}
		members := []*service{serve(t, set), serve(t, set)}
		for _, m := range members {
			m.until(60*time.Second, "its share", m.hasLive(partitions/2))
		}
		o, cl := newOracle(21, 300), kafka(t)
		o.feed(t, cl, topic, events)
		end := ends(t, topic)
		for _, m := range members {
			m.until(60*time.Second, "snapshots", m.published(partitions/2, end))
		}
		o.feed(t, cl, topic, events)
		heir, dead := members[0], members[1]
		dead.kill()
		if err := os.RemoveAll(dead.dir); err != nil {
			t.Fatal(err)
		}
		o.feed(t, cl, topic, events)
		heir.until(90*time.Second, "all partitions", heir.published(partitions, ends(t, topic)))
		o.check(t, heir)
		if heir.find("snapshot is restored") == "" {
			t.Error("nothing was restored")
		}
		if code, body, err := heir.post(); code != http.StatusOK || err != nil {
			t.Errorf("POST /v1/snapshots: %d %s, %v", code, body, err)
		}

		if err := bucket.Proxy.Close(); err != nil {
			t.Fatal(err)
		}
		before, err := heir.status()
		if err != nil {
			t.Fatal(err)
		}
		o.feed(t, cl, topic, events)
		heir.caughtUp(topic)
		o.check(t, heir)
		heir.until(60*time.Second, "snapshots that grow old", func() error {
			st, err := heir.status()
			if err != nil {
				return err
			}
			for i, p := range st.Partitions {
				if p.State != "live" {
					t.Errorf("partition %d is %s %q without the bucket", p.Partition, p.State, p.Reason)
				}
				if p.Snapshot.Seq != before.Partitions[i].Snapshot.Seq || p.Snapshot.Age < 5 {
					return fmt.Errorf("partition %d has snapshot %+v", p.Partition, p.Snapshot)
				}
			}
			return nil
		})
		began := time.Now()
		code, body, err := heir.post()
		if err != nil || code != http.StatusServiceUnavailable || !strings.Contains(body, "unreachable") || !json.Valid([]byte(body)) {
			t.Errorf("POST /v1/snapshots without the bucket: %d %s, %v", code, body, err)
		}
		t.Logf("POST /v1/snapshots after %s: %s", time.Since(began).Round(time.Millisecond), body)
		o.check(t, heir)

		dead.start()
		dead.alive()
		dead.until(90*time.Second, "a reason to wait", func() error {
			code, body, err := dead.get("/readyz")
			if err == nil && (code != http.StatusServiceUnavailable || !strings.Contains(string(body), "snapshot store")) {
				err = fmt.Errorf("%d %s", code, body)
			}
			if err == nil {
				t.Logf("a member that starts says %s", body)
			}
			return err
		})
		if err := bucket.Proxy.Mend(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			end := ends(t, topic)
			for _, m := range members {
				m.until(90*time.Second, "its share with snapshots", m.published(partitions/2, end))
			}
			o.feed(t, cl, topic, events)
		}
		for _, m := range members {
			if code, body, err := m.post(); code != http.StatusOK || err != nil {
				t.Errorf("POST /v1/snapshots: %d %s, %v", code, body, err)
			}
		}
		dead.stop()
		heir.until(60*time.Second, "all partitions", heir.published(partitions, ends(t, topic)))
		o.check(t, heir)
		heir.stop()
		for _, m := range members {
			if fenced := m.find("fenced by another owner"); fenced != "" {
				t.Logf("a member was fenced:\n%s", fenced)
			}
		}
		for name, value := range bucket.Environ() {
			t.Setenv(name, value)
		}
		if code, out, errs := command(t, "snapshot", "verify", "-c", heir.file); code != 0 {
			t.Errorf("snapshot verify: %d\n%s%s", code, out, errs)
		}
	})
}

// hasLive says whether the member has n partitions, all of them live.
func (s *service) hasLive(n int) func() error {
	return func() error {
		st, err := s.status()
		if err != nil {
			return err
		}
		for _, p := range st.Partitions {
			if p.State != "live" {
				return fmt.Errorf("partition %d is %s %q", p.Partition, p.State, p.Reason)
			}
		}
		if len(st.Partitions) != n {
			return fmt.Errorf("%d partitions, want %d", len(st.Partitions), n)
		}
		return nil
	}
}

// What a bucket refuses, or does not refuse, is said by check --connect and by
// a service that waits for it, in words to act on.
func TestBucketsThatWillNotDo(t *testing.T) {
	eachStore(t, func(t *testing.T, bucket *servers.Objects) {
		topic := newTopic(t, 1)
		for _, one := range []struct {
			name, says string
			url        string
			env        map[string]string
		}{
			{"missing", "no such bucket", bucket.URL("there-is-none"), bucket.Environ()},
			wrongLogin(t, bucket),
			overwriting(t, bucket),
		} {
			if one.url == "" {
				continue // the store has none of the kind
			}
			t.Run(one.name, func(t *testing.T) {
				for name, value := range one.env {
					t.Setenv(name, value)
				}
				s := newService(t, settings{query: salesQuery(topic), rest: inBucket(one.url)})
				code, out, errs := command(t, "check", "-c", s.file, "--connect")
				line := ""
				for l := range strings.Lines(out) {
					if strings.HasPrefix(l, "snapshots") {
						line = strings.TrimSpace(l)
					}
				}
				if code != 1 || !strings.Contains(line, "FAILED") || !strings.Contains(line, one.says) {
					t.Errorf("check: %d\n%s%s\nwant a line of snapshots with %q", code, out, errs, one.says)
				}
				t.Log(line)
				s.start()
				s.alive()
				s.until(90*time.Second, "a reason", func() error {
					code, body, err := s.get("/readyz")
					if err == nil && (code != http.StatusServiceUnavailable || !strings.Contains(string(body), one.says)) {
						err = fmt.Errorf("%d %s", code, body)
					}
					return err
				})
				s.stop()
			})
		}
	})
}

type badBucket = struct {
	name, says string
	url        string
	env        map[string]string
}

// wrongLogin is the bucket with a login that it does not know.
func wrongLogin(t *testing.T, bucket *servers.Objects) badBucket {
	bad := badBucket{name: "wrong login", says: "the store refuses it", env: bucket.Environ()}
	switch bucket.Scheme {
	case "s3":
		strict := servers.NewObjects(t, "s3", servers.ObjectOptions{Strict: 1})
		if err := strict.NewBucket("snapshots"); err != nil {
			t.Fatal(err)
		}
		bad.url = strict.URL("snapshots")
	case "azblob":
		bad.url = bucket.URL("snapshots")
		bad.env["AZURE_STORAGE_KEY"] = "d3Jvbmc="
	}
	return bad
}

// overwriting is the bucket without its condition on creates.
func overwriting(t *testing.T, bucket *servers.Objects) badBucket {
	if bucket.Scheme == "azblob" {
		return badBucket{} // conditions are signed there
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: bucket.Proxy.Address})
		r.Out.Header.Del("If-None-Match")
		q := r.Out.URL.Query()
		q.Del("ifGenerationMatch")
		r.Out.URL.RawQuery = q.Encode()
	}})
	t.Cleanup(front.Close)
	address := strings.TrimPrefix(front.URL, "http://")
	return badBucket{"overwrites", "overwrites", bucket.URLAt(address, "snapshots"), bucket.EnvironAt(address)}
}
