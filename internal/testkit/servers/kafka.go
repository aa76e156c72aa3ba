package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KafkaOptions are what differs from a plain broker.
type KafkaOptions struct {
	// Properties are more settings of the broker; they win over its own.
	Properties map[string]string
	// Users, where not nil, gives the broker an authorizer and three more
	// listeners: SSL (client certificates are looked at where there is one),
	// SASL_PLAINTEXT and SASL_SSL with SCRAM-SHA-256, SCRAM-SHA-512 and, for
	// the same names, PLAIN. It maps names to passwords. Who connects by
	// PLAINTEXT or SSL may do anything, and so may SuperUser; the others may
	// do what ACLs let them.
	Users     map[string]string
	SuperUser string
	// Ports, where not nil, are the ports to listen on: for the broker and its
	// controller, and with Users three more.
	Ports []int
}

// Kafka is one KRaft node, broker and controller in one JVM.
type Kafka struct {
	Address       string // PLAINTEXT, host:port
	SSL           string // with Users: the SSL listener
	SASLPlaintext string // with Users: the SASL_PLAINTEXT listener
	SASLSSL       string // with Users: the SASL_SSL listener
	Certificates  *Certificates

	dir        string
	path       string // class path
	controller string
	process    *process
}

// NewKafka starts a broker for the test and stops it at its end.
func NewKafka(t testing.TB, opts KafkaOptions) *Kafka {
	t.Helper()
	k, err := StartKafka(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Kill)
	return k
}

// StartKafka starts a broker with its data below dir.
func StartKafka(dir string, opts KafkaOptions) (*Kafka, error) {
	path, err := classPath("kafka", "")
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		k := &Kafka{dir: dir, path: path}
		err := k.format(opts)
		if err == nil {
			err = k.Restart()
		}
		if err == nil {
			return k, nil
		}
		if !portTaken(err) || opts.Ports != nil || try == 3 {
			return nil, err
		}
		if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
			return nil, err
		}
	}
}

// Tool is the command of a tool that comes with the broker, by its class, before
// its arguments.
func (k *Kafka) Tool(class string) []string { return []string{"java", "-cp", k.path, class} }

// format writes the settings and formats the data folder.
func (k *Kafka) format(opts KafkaOptions) error {
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	ports := opts.Ports
	if ports == nil {
		n := 2
		if opts.Users != nil {
			n = 5
		}
		var err error
		if ports, err = FreePorts(n); err != nil {
			return err
		}
	}
	local := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	k.Address, k.controller = local(0), local(1)
	p := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"controller.quorum.voters":                         "1@" + local(1),
		"listeners":                                        "PLAINTEXT://" + local(0) + ",CONTROLLER://" + local(1),
		"controller.listener.names":                        "CONTROLLER",
		"listener.security.protocol.map":                   "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                                         filepath.Join(k.dir, "data"),
		"num.partitions":                                   "4",
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		"auto.create.topics.enable":                        "false",
		"log.retention.hours":                              "-1",
		"log.cleaner.dedupe.buffer.size":                   "8388608",
	}
	args := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", k.path, "kafka.tools.StorageTool", "format",
		"-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", k.settings()}
	if opts.Users != nil {
		var err error
		if k.Certificates, err = NewCertificates(k.dir); err != nil {
			return err
		}
		k.SSL, k.SASLPlaintext, k.SASLSSL = local(2), local(3), local(4)
		maps.Copy(p, secure(k, opts))
		for _, name := range slices.Sorted(maps.Keys(opts.Users)) {
			for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
				args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, name, opts.Users[name]))
			}
		}
	}
	maps.Copy(p, opts.Properties)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&text, "%s=%s\n", name, p[name])
	}
	if err := os.WriteFile(k.settings(), []byte(text.String()), 0o600); err != nil {
		return err
	}
	if err := run("java", args...); err != nil {
		return fmt.Errorf("format the broker's storage: %w", err)
	}
	return nil
}

// secure is what the listeners with TLS and logins want.
func secure(k *Kafka, opts KafkaOptions) map[string]string {
	super := "User:ANONYMOUS;User:CN=client"
	if opts.SuperUser != "" {
		super += ";User:" + opts.SuperUser
	}
	p := map[string]string{
		"listeners": "PLAINTEXT://" + k.Address + ",CONTROLLER://" + k.controller +
			",SSL://" + k.SSL + ",SASL_PLAINTEXT://" + k.SASLPlaintext + ",SASL_SSL://" + k.SASLSSL,
		"listener.security.protocol.map":    "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
		"ssl.keystore.type":                 "PEM",
		"ssl.keystore.location":             k.Certificates.ServerPair,
		"ssl.truststore.type":               "PEM",
		"ssl.truststore.location":           k.Certificates.CA,
		"listener.name.ssl.ssl.client.auth": "requested",
		"sasl.enabled.mechanisms":           "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"authorizer.class.name":             "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                       super,
	}
	plain := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, name := range slices.Sorted(maps.Keys(opts.Users)) {
		plain += fmt.Sprintf(" user_%s=\"%s\"", name, opts.Users[name])
	}
	for _, listener := range []string{"sasl_plaintext", "sasl_ssl"} {
		prefix := "listener.name." + listener + "."
		p[prefix+"plain.sasl.jaas.config"] = plain + ";"
		for _, m := range []string{"scram-sha-256", "scram-sha-512"} {
			p[prefix+m+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	return p
}

func (k *Kafka) settings() string { return filepath.Join(k.dir, "server.properties") }

// Restart starts the broker again after Kill or Stop, on the same ports and
// data. It returns when the broker answers.
func (k *Kafka) Restart() error {
	p, err := startJava(filepath.Join(k.dir, "out.log"), "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", k.path, "kafka.Kafka", k.settings())
	if err != nil {
		return fmt.Errorf("start kafka: %w", err)
	}
	k.process = p
	if err := p.await(k.ready); err != nil {
		p.kill()
		return fmt.Errorf("start kafka: %w", err)
	}
	return nil
}

// ready asks for the brokers that the controller lets serve.
func (k *Kafka) ready(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Address), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if len(resp.Brokers) == 0 || resp.ControllerID < 0 {
		return errors.New("no broker serves yet")
	}
	return nil
}

// Kill ends the broker as a power cut would, the disk left as it is.
func (k *Kafka) Kill() { k.process.kill() }

// Stop lets the broker shut down in order.
func (k *Kafka) Stop() { k.process.stop() }
