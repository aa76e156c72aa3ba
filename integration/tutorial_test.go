//go:build integration

package integration

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/testkit/servers"
)

// The tutorial works as it stands, from nothing.
func TestTutorial(t *testing.T) {
	began := time.Now()
	kafka := servers.NewKafka(t, servers.KafkaOptions{})
	node := servers.NewElasticsearch(t)
	address, err := url.Parse(node.URL)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := servers.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	tools, dir := t.TempDir(), t.TempDir()
	tool := func(name string, command ...string) {
		for i, word := range command {
			command[i] = strconv.Quote(word)
		}
		script := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", strings.Join(command, " "))
		if err := os.WriteFile(filepath.Join(tools, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tool("kafka-topics.sh", kafka.Tool("org.apache.kafka.tools.TopicCommand")...)
	tool("kafka-console-producer.sh", kafka.Tool("org.apache.kafka.tools.ConsoleProducer")...)
	tool("tidemark", binary)
	listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
	w := &walk{
		t: t, file: filepath.Join("..", "docs", "tutorial.md"), dir: dir, base: "http://" + listen,
		env: append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH")),
		replace: []string{
			"localhost:9092", kafka.Address, "localhost:9200", address.Host, "localhost:8080", listen,
			"tidemark get 24", "tidemark get 24 --server http://" + listen,
			// The page's service listens where the configuration says by default.
			"tidemark serve -c", "sed -i s/127.0.0.1:8080/" + listen + "/ tidemark.yaml; exec tidemark serve -c",
		},
		shown: []string{listen, "localhost:8080"},
	}
	defer w.end(syscall.SIGKILL)
	w.run()
	t.Logf("the servers, and every command of the tutorial, took %v", time.Since(began).Round(time.Second))
}
