package kafka

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// patientClient is what sarama's group works with. By itself sarama ends the
// group's session as soon as a broker refuses a few connections, and asks again
// and again for a coordinator that is gone. This one lets it go on sending
// heartbeats for a session timeout, and asks other brokers who the coordinator
// is now when the one that is known is away.
type patientClient struct {
	sarama.Client
	conf *sarama.Config
}

// newPatientClient dials the brokers.
func newPatientClient(brokers []string, conf *sarama.Config, session time.Duration) (*patientClient, error) {
	client, err := sarama.NewClient(brokers, conf)
	if err != nil {
		return nil, err
	}
	patient := *conf
	// Each try asks for the coordinator first, which takes about as long as the
	// pause between two tries.
	patient.Metadata.Retry.Max = int(session/(2*conf.Metadata.Retry.Backoff)) + 1
	return &patientClient{client, &patient}, nil
}

// Config is the one of the group; the client's own requests have fewer tries.
func (c *patientClient) Config() *sarama.Config { return c.conf }

// Coordinator returns a coordinator that is connected, or an error.
func (c *patientClient) Coordinator(group string) (*sarama.Broker, error) {
	broker, err := c.connected(group)
	if err == nil || broker == nil {
		return broker, err
	}
	_ = broker.Close() // not connected is as good
	if err := c.RefreshCoordinator(group); err != nil {
		return nil, err
	}
	if broker, err = c.connected(group); err != nil {
		return nil, err
	}
	return broker, nil
}

// connected waits for the connection to the coordinator that is known. With an
// error comes the broker that is not connected, where one is known.
func (c *patientClient) connected(group string) (*sarama.Broker, error) {
	broker, err := c.Client.Coordinator(group)
	if err != nil {
		return nil, err
	}
	if up, err := broker.Connected(); !up {
		if err == nil {
			err = sarama.ErrNotConnected
		}
		return broker, fmt.Errorf("connect to the group's coordinator: %w", err)
	}
	return broker, nil
}
