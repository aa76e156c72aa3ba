package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"tidemark/aggregator"
	"tidemark/api"
	"tidemark/bootstrap"
	"tidemark/config"
	"tidemark/source/kafka"
	"tidemark/store"
)

// flushInterval is how often applies are made durable: what a crash takes back
// is folded again from the log. Each flush writes small files that compaction
// merges, so there are many applies to one. No snapshot interval is shorter, but
// for those below a second: a heavy stream is applied with the flush, and what is
// not applied is in no snapshot.
func flushInterval(apply, snapshots time.Duration) time.Duration {
	return max(min(15*apply, 30*time.Second, snapshots), time.Second)
}

// state.memory is divided so that the process keeps to about all of it: three
// sixteenths are for caches and write buffers, and seven for totals that are
// folded and not applied yet, since what a catch-up holds in memory is written
// once. What the network holds and what waits for the collector take the rest.
func storeMemory(memory int64) int64 { return max(memory/16*3, leastMemory) }

func pendingMemory(memory int64) int { return int(memory / 16 * 7) }

// seedMemory is for a state that a history is written into: nothing is folded
// meanwhile.
func seedMemory(memory int64) int64 { return max(memory/2, leastMemory) }

// lastRequests is how long requests under way may take when the service ends.
const lastRequests = 3 * time.Second

// service is one member of the group, from its configuration to its end.
type service struct {
	cfg      *config.Config
	log      *slog.Logger
	listener net.Listener
	registry *prometheus.Registry
	metrics  *api.Metrics
}

// newService takes the address to answer at; run does the rest.
func (p *program) newService(cfg *config.Config) (*service, error) {
	listener, err := net.Listen("tcp", cfg.HTTP.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen at http.listen %s: %w", cfg.HTTP.Listen, err)
	}
	s := &service{cfg: cfg, log: newLogger(p.stderr, cfg.Log), listener: listener, registry: prometheus.NewRegistry()}
	b := builtFrom()
	s.metrics = api.NewMetrics(s.registry, b.Version, b.Commit)
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s, nil
}

// url is the address that the service answers at.
func (s *service) url() string {
	scheme := "http"
	if s.cfg.HTTP.TLS.CertFile != "" {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(s.listener.Addr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// run is the member's life: it returns when ctx has ended and all is closed,
// or with what ended it before. Answers come first, so that health is seen
// while state loads; then the state, Kafka, the history and the tasks.
func (s *service) run(ctx context.Context) (err error) {
	defer s.listener.Close()
	tuneRuntime()
	s.log.Info("answering over HTTP", "url", s.url())
	for _, warning := range kafkaConfig(s.cfg, s.log, "").Warnings() {
		s.log.Warn(warning)
	}
	for _, doubt := range s.cfg.Definition.Doubts() {
		s.log.Warn(doubt.String())
	}

	states, err := openStates(s.cfg, s.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, states.Close()) }()

	client, err := kafka.Open(kafkaConfig(s.cfg, s.log, ""))
	if err != nil {
		return usageError{fmt.Errorf("the settings of kafka: %w", err)}
	}
	defer client.Close()
	fetcher := kafka.NewFetcher(client, kafka.FetchOptions{})
	seeder, err := newSeeder(s.cfg, client, s.log, s.metrics)
	if err != nil {
		return usageError{err}
	}
	letters, err := openLetters(s.cfg, client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, letters.Close()) }()

	snapshots := newPublished(s.cfg, s.log, s.metrics, states)
	defer func() { err = errors.Join(err, snapshots.Close()) }()

	group := &membership{id: s.cfg.Kafka.GroupID, metrics: s.metrics}
	if s.cfg.Snapshots.URL == "" {
		group.crowded = func() {
			s.log.Warn("the group has other members, and snapshots.url is empty: a partition that moves will be paused; " +
				"set snapshots.url to one place for all members")
		}
	}
	processor := aggregator.NewProcessor(aggregator.Parts{
		Program: s.cfg.Program, Log: fetcher, States: states, Seeder: seeder,
		Snapshots: snapshots, Seeds: aggregator.NewSeeds(seeder, snapshots, snapshots.workspace),
		Commits: group, Letters: letters.deadLetter(), Observer: s.metrics, Logger: s.log,
	}, aggregator.Tuning{
		Topic: s.cfg.Definition.Topic, ApplyRecords: s.cfg.State.ApplyRecords, ApplyInterval: s.cfg.State.ApplyInterval,
		PendingBytes:     pendingMemory(s.cfg.State.Memory),
		FlushInterval:    flushInterval(s.cfg.State.ApplyInterval, s.cfg.Snapshots.Interval),
		SnapshotInterval: s.cfg.Snapshots.Interval, Keep: s.cfg.Snapshots.Keep,
		AcceptGap: s.cfg.OnGap == "accept",
	})
	group.processor, snapshots.tasks = processor, processor
	s.registry.MustRegister(api.NewPartitionCollector(processor.Status), api.NewStateCollector(func() api.Held { return held(s.cfg, states) }))

	answers, err := s.answers(processor, group, snapshots)
	if err != nil {
		return err
	}
	defer answers.Close()
	server := api.HTTPServer(answers, s.log)

	// The tasks end first: they fetch no more, apply what they have folded and
	// close their states. Then the member leaves the group, and the last
	// answers go out.
	work, stop := errgroup.WithContext(ctx)
	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	work.Go(func() error {
		defer leave()
		return processor.Run(stop)
	})
	work.Go(func() error { return fetcher.Run(member) })
	work.Go(func() error {
		if err := s.ensureHistory(stop, client, states, snapshots); err != nil {
			return err
		}
		return s.join(stop, member, group)
	})
	work.Go(func() error { return s.serve(server) })
	work.Go(func() error {
		<-stop.Done()
		s.log.Info("draining")
		answers.Drain()
		<-member.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRequests)
		defer cancel()
		if err := server.Shutdown(last); err != nil {
			return server.Close()
		}
		return nil
	})
	if err = work.Wait(); err == nil {
		s.log.Info("stopped")
	}
	return err
}

// serve answers until the server is shut down.
func (s *service) serve(server *http.Server) error {
	var err error
	if files := s.cfg.HTTP.TLS; files.CertFile != "" {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		err = server.ServeTLS(s.listener, files.CertFile, files.KeyFile)
	} else {
		err = server.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("answer at %s: %w", s.listener.Addr(), err)
}

// join is the membership: it begins when the address is known at which others
// reach this member, and ends with member.
func (s *service) join(stop, member context.Context, group *membership) error {
	find := func() (config.Route, error) { return config.FindRoute(stop, s.cfg.Kafka.BootstrapServers) }
	route, err := backoff.Retry(stop, find, backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, next time.Duration) {
		s.log.Warn("the brokers' names are not known yet", "err", err, "again_in", next.Round(time.Millisecond))
	}))
	if err != nil {
		return nil // the service is ending
	}
	address, err := config.Advertise(s.listener.Addr().String(), s.cfg.HTTP.Advertise, s.cfg.HTTP.TLS.CertFile != "", route)
	if err != nil {
		return usageError{err}
	}
	client, err := kafka.Open(kafkaConfig(s.cfg, s.log, address))
	if err != nil {
		return usageError{fmt.Errorf("the settings of kafka: %w", err)}
	}
	defer client.Close()
	return group.enter(member, client)
}

// answers makes the HTTP interface.
func (s *service) answers(processor *aggregator.Processor, group *membership, snapshots *published) (*api.Server, error) {
	tokens := make([]string, len(s.cfg.HTTP.Tokens))
	for i, t := range s.cfg.HTTP.Tokens {
		tokens[i] = t.Reveal()
	}
	answers, err := api.New(s.cfg.Program, processor, group, api.Options{
		Version: builtFrom().Version, Tokens: tokens, CORSOrigins: s.cfg.HTTP.CORSOrigins,
		MaxBadShare: s.cfg.Events.MaxBadShare, HistoryMode: s.cfg.History.Cut.Mode,
		Snapshots: snapshots, Metrics: s.metrics, Gatherer: s.registry, Logger: s.log,
	})
	if err != nil {
		return nil, usageError{err}
	}
	return answers, nil
}

// openStates opens the state directory.
func openStates(cfg *config.Config, log *slog.Logger) (*store.Dir, error) {
	states, err := store.Open(cfg.State.Dir, store.Options{
		Program: cfg.Program, Memory: storeMemory(cfg.State.Memory), MinFree: cfg.State.MinFree,
		Logger: log, Fatal: dies(log),
	})
	if err != nil {
		return nil, err
	}
	if err := clearWorkspace(cfg); err != nil {
		return nil, errors.Join(err, states.Close())
	}
	return states, nil
}

// held is what the states take besides their bytes on disk.
func held(cfg *config.Config, states *store.Dir) api.Held {
	h := api.Held{Memory: states.CacheBytes(), Limit: cfg.State.Memory, Obsolete: map[int32]int64{}}
	for _, s := range states.Stats() {
		h.Memory += s.WriteBuffer
		h.Obsolete[s.Partition] = s.Obsolete
	}
	return h
}

// dies returns what ends the process at once: the disk, or what lies on it,
// cannot be trusted, and a restart folds again what is not durable.
func dies(log *slog.Logger) func(reason string) {
	return func(reason string) {
		log.Error("ending at once; a restart folds again what is not durable", "err", reason)
		os.Exit(exitFailed)
	}
}

// kafkaConfig is how to reach Kafka, as the member with an HTTP address. There
// is no topic where the query's variables are not set.
func kafkaConfig(cfg *config.Config, log *slog.Logger, address string) kafka.Config {
	k := cfg.Kafka
	topic := ""
	if cfg.Definition != nil {
		topic = cfg.Definition.Topic
	}
	password := k.SASLPassword.Reveal()
	if k.SASLPasswordFile != "" {
		password = "file:" + k.SASLPasswordFile // read again at each login
	}
	return kafka.Config{
		Brokers: k.BootstrapServers, Topic: topic,
		GroupID: k.GroupID, GroupInstanceID: k.GroupInstanceID, SessionTimeout: k.SessionTimeout, LeaveOnShutdown: k.LeaveOnShutdown,
		SecurityProtocol: k.SecurityProtocol, IsolationLevel: k.IsolationLevel,
		SASL:    kafka.SASL{Mechanism: k.SASLMechanism, Username: k.SASLUsername, Password: password},
		TLS:     kafka.TLS{CAFile: k.SSLCA, CertFile: k.SSLCertificate, KeyFile: k.SSLKey},
		Address: address,
		Logger:  log,
	}
}

// newSeeder resolves cuts and, where a history is configured, reads it.
func newSeeder(cfg *config.Config, log bootstrap.Log, logger *slog.Logger, observer bootstrap.Observer) (*bootstrap.Seeder, error) {
	h := cfg.History
	o := bootstrap.Options{
		Program: cfg.Program, Log: log,
		Cut:    newCut(cfg),
		Logger: logger, Observer: observer,
	}
	if cfg.HasHistory() {
		var err error
		if o.Source, err = newSource(cfg, logger, observer); err != nil {
			return nil, err
		}
		o.Mapping = cfg.Mapping()
		o.Partitioner = cfg.Kafka.Partitioner
		o.MaxMissingShare = h.MaxMissingShare
		o.Duplicates = h.Duplicates
	}
	return bootstrap.New(o)
}
