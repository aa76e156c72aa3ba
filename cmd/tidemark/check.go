package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"tidemark/aggregator"
	"tidemark/config"
	"tidemark/source/kafka"
)

// checked is one step of a check.
type checked struct {
	Step   string `json:"step"`
	Object string `json:"object"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func (p *program) check() *cobra.Command {
	var file string
	var connect, allowUnset, asJSON bool
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Say whether the service would take a configuration file",
		Long: "Gives the verdict that serve gives on the file, offline: also on a state.dir that another query has made. With --connect it\n" +
			"also tries state.dir, http.listen, Kafka, the history and the snapshot store, step by step: name, connect, TLS, login,\n" +
			"permission; and it shows the newest events and the first documents as the rows that they make. It joins no group. The exit\n" +
			"status is 2 for a bad file, 1 where a step fails.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if connect && allowUnset {
				return usageError{fmt.Errorf("--connect needs the values that --allow-unset does without: give one of them")}
			}
			cfg, err := p.load(file, config.Options{AllowUnset: allowUnset})
			if err != nil {
				return err
			}
			steps := []checked{{Step: "configuration", Object: file, OK: true, Detail: "is whole"}}
			for _, warning := range kafkaConfig(cfg, nil, "").Warnings() {
				steps = append(steps, checked{Step: "warning", Object: file, OK: true, Detail: warning})
			}
			if !allowUnset {
				steps = append(steps, tryDefinition(cfg)...)
			}
			if !allowUnset && !connect {
				steps = append(steps, tryDamaged(cmd.Context(), cfg, nil, nil)...)
			}
			if !connect {
				steps = append(steps, tryFields(cfg, nil)...)
			} else {
				more, err := p.tryAll(cmd.Context(), cfg)
				if err != nil {
					return err
				}
				steps = append(steps, more...)
			}
			failed := 0
			rows := make([][]string, len(steps))
			for i, s := range steps {
				verdict := "ok"
				if !s.OK {
					verdict = "FAILED"
					failed++
				}
				rows[i] = []string{s.Step, s.Object, verdict, s.Detail}
			}
			if asJSON {
				err = p.printJSON(steps)
			} else {
				err = p.printTable([]string{"STEP", "OBJECT", "RESULT", "DETAIL"}, rows)
			}
			if err == nil && failed > 0 {
				err = fmt.Errorf("check %s: %d of %d steps failed", file, failed, len(steps))
			}
			return err
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&connect, "connect", false, "also try state.dir, http.listen, Kafka, the history and the snapshot store")
	cmd.Flags().BoolVar(&allowUnset, "allow-unset", false, "take environment variables that are not set as given, for CI")
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs")
	return cmd
}

// tryAll tries what the service will need.
func (p *program) tryAll(ctx context.Context, cfg *config.Config) ([]checked, error) {
	client, err := kafka.Open(kafkaConfig(cfg, slog.New(slog.DiscardHandler), ""))
	if err != nil {
		return nil, usageError{fmt.Errorf("the settings of kafka: %w", err)}
	}
	defer client.Close()
	steps := []checked{tryState(cfg), tryListen(cfg)}
	for _, s := range client.Check(ctx) {
		object := s.Broker
		if object == "" {
			object = "kafka"
		}
		steps = append(steps, outcome(s.Name, object, s.Detail, s.Err))
	}
	var topic *aggregator.Topic
	if slices.ContainsFunc(steps, func(s checked) bool { return s.OK && s.Step == "permission" }) {
		if t, err := client.Topic(ctx); err == nil { // else the steps before say why
			topic = &t
		}
	}
	if topic != nil {
		steps = append(steps, tryTopic(cfg, *topic)...)
		steps = append(steps, tryEvents(ctx, cfg, client, *topic)...)
		steps = append(steps, tryCut(ctx, cfg, client, *topic)...)
	} else {
		steps = append(steps, tryFields(cfg, nil)...)
	}
	if cfg.HasHistory() {
		more, err := tryHistory(ctx, cfg)
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	steps = append(steps, trySnapshots(ctx, cfg, topic)...)
	if route, err := config.FindRoute(ctx, cfg.Kafka.BootstrapServers); err == nil {
		address, err := config.Advertise(cfg.HTTP.Listen, cfg.HTTP.Advertise, cfg.HTTP.TLS.CertFile != "", route)
		steps = append(steps, outcome("address", cfg.HTTP.Listen, "other members reach this one at "+address, err))
	}
	return steps, nil
}

// outcome is a step that went well, with its detail, or one that did not.
func outcome(step, object, detail string, err error) checked {
	if err != nil {
		return checked{step, object, false, err.Error()}
	}
	return checked{step, object, true, detail}
}
