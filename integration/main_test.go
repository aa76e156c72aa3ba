//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tidemark/internal/testkit/servers"
)

// binary is the program under test, built with the race detector.
var binary string

// broker is the Kafka that the tests share; each has topics and a group of its
// own. It knows two users who log in: owner, who may do anything, and guest,
// who may do nothing.
var broker *servers.Kafka

const (
	ownerPassword = "tide-and-time"
	guestPassword = "wait-for-none"
)

func TestMain(m *testing.M) {
	code, err := setUp(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func setUp(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "tidemark-integration-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "tidemark")
	if out, err := exec.Command("go", "build", "-race", "-o", binary, "../cmd/tidemark").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	broker, err = servers.StartKafka(filepath.Join(dir, "kafka"), servers.KafkaOptions{
		Users:     map[string]string{"owner": ownerPassword, "guest": guestPassword},
		SuperUser: "owner",
	})
	if err != nil {
		return 0, err
	}
	defer broker.Kill()
	return m.Run(), nil
}
