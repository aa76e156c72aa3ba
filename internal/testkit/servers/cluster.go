package servers

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Cluster is three KRaft nodes or so, each broker and controller. A topic has
// three replicas, and a record is there when two of them have it.
type Cluster struct {
	Nodes []*Kafka
}

// NewCluster starts n nodes for the test and stops them at its end.
func NewCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	c, err := StartCluster(t.TempDir(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// StartCluster starts n nodes, from 3, with their data below dir.
func StartCluster(dir string, n int) (*Cluster, error) {
	path, err := classPath("kafka", "")
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[2*i+1]))
	}
	c := &Cluster{Nodes: make([]*Kafka, n)}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		// The ports are not looked for anew where one is taken: the others know them.
		c.Nodes[i] = &Kafka{dir: filepath.Join(dir, strconv.Itoa(i+1)), path: path}
		all.Go(func() {
			errs[i] = c.Nodes[i].format(KafkaOptions{Ports: ports[2*i : 2*i+2], Properties: replicated(i+1, strings.Join(voters, ","))})
			if errs[i] == nil {
				errs[i] = c.Nodes[i].Restart()
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			c.Kill()
			return nil, fmt.Errorf("start node %d of %d: %w", i+1, n, err)
		}
	}
	return c, nil
}

// replicated is what a node of a cluster has other than a lone one. Failures
// are noticed in seconds.
func replicated(node int, voters string) map[string]string {
	return map[string]string{
		"node.id":                                          strconv.Itoa(node),
		"controller.quorum.voters":                         voters,
		"default.replication.factor":                       "3",
		"min.insync.replicas":                              "2",
		"offsets.topic.replication.factor":                 "3",
		"transaction.state.log.replication.factor":         "3",
		"transaction.state.log.min.isr":                    "2",
		"share.coordinator.state.topic.replication.factor": "3",
		"share.coordinator.state.topic.min.isr":            "2",
		"broker.session.timeout.ms":                        "3000",
		"broker.heartbeat.interval.ms":                     "500",
		"controller.quorum.fetch.timeout.ms":               "2000",
		"controller.quorum.election.timeout.ms":            "1000",
		"leader.imbalance.check.interval.seconds":          "10",
		"num.network.threads":                              "2",
		"num.io.threads":                                   "4",
	}
}

// Addresses are those of all nodes, with commas.
func (c *Cluster) Addresses() string {
	var list []string
	for _, n := range c.Nodes {
		list = append(list, n.Address)
	}
	return strings.Join(list, ",")
}

// Kill ends all nodes at once: asked to end together, the last ones wait for a
// quorum that is gone.
func (c *Cluster) Kill() {
	for _, n := range c.Nodes {
		if n.process != nil {
			n.Kill()
		}
	}
}
