package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Lineage is the line of snapshots of one partition in one consumer group. A
// topic that was created again under its name begins another one.
type Lineage struct {
	Group     string
	Topic     string
	TopicID   string // UUID, "" where the servers have none: then the name stands in the keys
	Partition int32
}

func (l Lineage) String() string {
	topic := l.Topic
	if topic == "" {
		topic = "with id " + l.TopicID
	}
	return fmt.Sprintf("group %s, topic %s, partition %d", l.Group, topic, l.Partition)
}

// same says whether both are kept under the same keys.
func (l Lineage) same(other Lineage) bool { return l.prefix() == other.prefix() }

func (l Lineage) prefix() string {
	return groupPrefix(l.Group) + topicPart(l.Topic, l.TopicID) + "/" + strconv.Itoa(int(l.Partition)) + "/"
}

func (l Lineage) manifests() string { return l.prefix() + "m/" }
func (l Lineage) files() string     { return l.prefix() + "sst/" }

// manifest is the key of a manifest. The number is padded, so that keys sort
// as numbers.
func (l Lineage) manifest(seq int64) string { return fmt.Sprintf("%s%020d", l.manifests(), seq) }

// file is the key of a file's object.
func (l Lineage) file(object string) string { return l.files() + object }

func groupPrefix(group string) string { return escape(group) + "/" }

// unnamed marks the name of a topic that has no UUID. escape never yields it.
const unnamed = "~"

func topicPart(topic, id string) string {
	if id == "" {
		return unnamed + escape(topic)
	}
	return escape(id)
}

// parseTopicPart is the inverse of topicPart.
func parseTopicPart(part string) (topic, id string, ok bool) {
	if name, found := strings.CutPrefix(part, unnamed); found {
		topic, ok = unescape(name)
		return topic, "", ok
	}
	id, ok = unescape(part)
	return "", id, ok
}

// parseSeq reads the number out of the key of a manifest.
func parseSeq(key string) (int64, bool) {
	name := path.Base(key)
	seq, err := strconv.ParseInt(name, 10, 64)
	return seq, err == nil && len(name) == 20 && seq >= 0
}

// maxPart, in bytes, is how long a part of a key may be: file systems allow
// 255. Longer ones are cut, with their SHA-256 behind.
const maxPart = 200

// escape makes text a part of a key that every store takes and lists as it is:
// letters, digits, dashes, single underscores and dots within stand for
// themselves, every other byte is an equals sign and two hexadecimal digits.
// It is injective, and never empty for text that is not.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if plain(c) && (c != '.' || i > 0 && i < len(text)-1) && (c != '_' || i == 0 || text[i-1] != '_') {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	if b.Len() <= maxPart {
		return b.String()
	}
	sum := sha256.Sum256([]byte(text))
	return b.String()[:maxPart/2] + "~" + hex.EncodeToString(sum[:])
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_'
}

// unescape is the inverse of escape; false for what escape does not yield, and
// for what it has cut.
func unescape(part string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] != '=' {
			b.WriteByte(part[i])
			continue
		}
		if i+2 >= len(part) {
			return "", false
		}
		c, err := strconv.ParseUint(part[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	text := b.String()
	return text, text != "" && escape(text) == part
}
