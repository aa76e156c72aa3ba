package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// Options of Load; the zero value is how the service reads its file.
type Options struct {
	// AllowUnset lets environment variables be unset: what holds one stands
	// for a value that fits, and is left out of the rules that need to know it.
	AllowUnset bool
}

// Load reads the configuration file at path, with the environment's variables
// from getenv, and the files that it names: the query, the secrets and the
// certificates. Its error is Problems where the file can be read, all of them
// at once; the Config is nil then.
func Load(path string, getenv func(string) (string, bool), opts Options) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration %s: %w", path, reason(err))
	}
	return Parse(path, text, getenv, opts)
}

// Parse is Load of a text that stands, or is to stand, in the file at path.
func Parse(path string, text []byte, getenv func(string) (string, bool), opts Options) (*Config, error) {
	r := &reader{
		file: path, dir: filepath.Dir(path), text: text,
		getenv: getenv, allowUnset: opts.AllowUnset,
		values: map[string]any{}, places: map[string]place{}, files: map[string]string{},
	}
	if !r.read() {
		return nil, r.problems
	}
	r.rules()
	cfg, err := r.merge()
	if err != nil {
		return nil, fmt.Errorf("read the configuration %s: %w", path, err)
	}
	r.certificates(cfg)
	r.definition(cfg)
	if len(r.problems) > 0 {
		r.problems.sort()
		return nil, r.problems
	}
	return cfg, nil
}

// merge lays what is set over the defaults and decodes both into a Config.
func (r *reader) merge() (*Config, error) {
	defaults := map[string]any{}
	for i := range keys {
		k := &keys[i]
		v, ok := k.defaultValue()
		if !ok || !r.applies(k.path) {
			continue
		}
		if k.kind.file {
			v = r.resolve(k.def)
		}
		defaults[k.path] = v
	}
	merged := koanf.New(sep)
	for _, layer := range []map[string]any{defaults, r.values} {
		if err := merged.Load(confmap.Provider(maps.Clone(layer), sep), nil); err != nil {
			return nil, fmt.Errorf("merge the settings: %w", err)
		}
	}
	cfg := &Config{File: r.file}
	err := merged.Unmarshal("", cfg)
	if err != nil {
		return nil, fmt.Errorf("decode the settings: %w", err)
	}
	cfg.Kafka.SASLPasswordFile = r.files["kafka/sasl.password"]
	if cfg.Events.Zone, err = time.LoadLocation(cfg.Events.TimestampZone); err != nil {
		return nil, fmt.Errorf("load the time zone %s: %w", cfg.Events.TimestampZone, err)
	}
	return cfg, nil
}

// applies says whether a default has a place in this configuration: a part
// that is not there stays empty.
func (r *reader) applies(path string) bool {
	switch {
	case path == "history/cut/slack":
		return r.values["history/cut/mode"] == "timestamp"
	case within(path, "history/elasticsearch"):
		return r.anySet("history/elasticsearch")
	case within(path, "history"):
		return r.hasSource()
	}
	return true
}
