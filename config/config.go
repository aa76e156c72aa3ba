package config

import (
	"encoding/json"
	"log/slog"
	"time"

	"tidemark/aggregator"
	"tidemark/event"
	"tidemark/query"
)

// Config is a configuration file, read and found whole. Paths of files are
// absolute, or relative to the working directory of the process.
type Config struct {
	File string `koanf:"-"` // the file it was read from, as Load was given it

	Query     string    `koanf:"query"` // the SQL text, also where query_file holds it
	QueryFile string    `koanf:"query_file"`
	Kafka     Kafka     `koanf:"kafka"`
	History   History   `koanf:"history"`
	OnGap     string    `koanf:"on_gap"` // stop, accept
	State     State     `koanf:"state"`
	Snapshots Snapshots `koanf:"snapshots"`
	Events    Events    `koanf:"events"`
	HTTP      HTTP      `koanf:"http"`
	Log       Log       `koanf:"log"`

	// Definition and Program are the query, parsed and compiled. With
	// AllowUnset they are nil where the query cannot be known.
	Definition *query.Definition   `koanf:"-"`
	Program    *aggregator.Program `koanf:"-"`
}

// Kafka is the section kafka, under Kafka's own names.
type Kafka struct {
	BootstrapServers []string      `koanf:"bootstrap.servers"` // host:port
	GroupID          string        `koanf:"group.id"`
	GroupInstanceID  string        `koanf:"group.instance.id"`
	LeaveOnShutdown  string        `koanf:"leave_on_shutdown"` // auto, true, false
	AutoOffsetReset  string        `koanf:"auto.offset.reset"` // earliest, latest, error
	IsolationLevel   string        `koanf:"isolation.level"`   // read_committed, read_uncommitted
	SessionTimeout   time.Duration `koanf:"session.timeout.ms"`
	SecurityProtocol string        `koanf:"security.protocol"` // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
	SASLMechanism    string        `koanf:"sasl.mechanism"`    // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; "" without SASL
	SASLUsername     string        `koanf:"sasl.username"`
	SASLPassword     Secret        `koanf:"sasl.password"`
	SASLPasswordFile string        `koanf:"-"` // where the password was given as file:PATH, that it may be read again
	SSLCA            string        `koanf:"ssl.ca.location"`
	SSLCertificate   string        `koanf:"ssl.certificate.location"`
	SSLKey           string        `koanf:"ssl.key.location"`
	Partitioner      string        `koanf:"partitioner"` // auto, murmur2, fnv1a, crc32
}

// History is the section history. It is empty without one: see HasHistory.
type History struct {
	File            string                `koanf:"file"`
	Elasticsearch   Elasticsearch         `koanf:"elasticsearch"`
	Key             []event.Path          `koanf:"key"`
	Fields          map[string]event.Path `koanf:"fields"`
	MaxMissingShare float64               `koanf:"max_missing_share"` // 0 to 1
	Duplicates      string                `koanf:"duplicates"`        // error, sum, last
	Cut             Cut                   `koanf:"cut"`
}

// Elasticsearch is the section history.elasticsearch.
type Elasticsearch struct {
	Addresses []string        `koanf:"addresses"` // empty where the section is
	Index     []string        `koanf:"index"`
	Query     json.RawMessage `koanf:"query"` // a JSON object
	Username  string          `koanf:"username"`
	Password  Secret          `koanf:"password"`
	APIKey    Secret          `koanf:"api_key"`
	CAFile    string          `koanf:"ca_file"`
	Slices    int             `koanf:"slices"`
	PageSize  int             `koanf:"page_size"`
}

// Cut is the section history.cut. What belongs to other modes is zero.
type Cut struct {
	Mode      string          `koanf:"mode"` // earliest, latest, offsets, timestamp, guard; "" without history
	Offsets   map[int32]int64 `koanf:"offsets"`
	Timestamp time.Time       `koanf:"timestamp"`
	Slack     time.Duration   `koanf:"slack"`
	EventTime event.Path      `koanf:"event_time"` // nil: the record's timestamp
	Guard     event.Path      `koanf:"guard_field"`
}

// State is the section state.
type State struct {
	Dir           string        `koanf:"dir"`
	Memory        int64         `koanf:"memory"`   // bytes
	MinFree       int64         `koanf:"min_free"` // bytes
	ApplyRecords  int           `koanf:"apply_records"`
	ApplyInterval time.Duration `koanf:"apply_interval"`
	SetLimit      int           `koanf:"set_limit"`
}

// Snapshots is the section snapshots.
type Snapshots struct {
	URL      string        `koanf:"url"` // "": inside state.dir, for one member only
	Interval time.Duration `koanf:"interval"`
	Keep     int           `koanf:"keep"`
}

// Events is the section events.
type Events struct {
	TimestampZone string         `koanf:"timestamp_zone"`
	Zone          *time.Location `koanf:"-"` // TimestampZone, loaded
	MaxBytes      int64          `koanf:"max_bytes"`
	DeadLetter    DeadLetter     `koanf:"dead_letter"`
	MaxBadShare   float64        `koanf:"max_bad_share"` // 0 to 1
}

// DeadLetter is the section events.dead_letter; both may be set.
type DeadLetter struct {
	Topic string `koanf:"topic"`
	File  string `koanf:"file"`
}

// HTTP is the section http.
type HTTP struct {
	Listen      string   `koanf:"listen"`    // host:port
	Advertise   string   `koanf:"advertise"` // a URL, or "": see Advertise
	TLS         TLS      `koanf:"tls"`
	Tokens      []Secret `koanf:"tokens"`
	CORSOrigins []string `koanf:"cors_origins"`
}

// TLS is the section http.tls: both files or none.
type TLS struct {
	CertFile string `koanf:"cert_file"`
	KeyFile  string `koanf:"key_file"`
}

// Log is the section log.
type Log struct {
	Level  slog.Level `koanf:"level"`
	Format string     `koanf:"format"` // auto, text, json
}

// HasHistory says whether a source of history is configured.
func (c *Config) HasHistory() bool {
	return c.History.File != "" || len(c.History.Elasticsearch.Addresses) > 0
}

// Mapping says where a history document holds what: history.key, which is the
// result names of the key columns where it is not given, history.fields and
// the guard of the cut. It needs the Definition.
func (c *Config) Mapping() aggregator.Mapping {
	m := aggregator.Mapping{Keys: c.History.Key, Fields: c.History.Fields, Guard: c.History.Cut.Guard}
	if len(m.Keys) == 0 {
		for _, k := range c.Definition.Keys {
			m.Keys = append(m.Keys, event.Path{k.Name})
		}
	}
	return m
}
