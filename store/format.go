package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"tidemark/aggregator"
	"tidemark/event"
)

// FormatVersion is the number of the on-disk format that this program writes.
// It reads all from 1 to this. FORMAT.md says when it rises.
const FormatVersion = 1

// The keys. A total lies under totalPrefix and the key's bytes, a guard under
// guardPrefix and the key's bytes.
var (
	totalPrefix = []byte("k/")
	totalEnd    = []byte("k0") // the first key above all totals: '0' follows '/'
	guardPrefix = []byte("g/")
	guardEnd    = []byte("g0")

	formatKey   = []byte("m/format")
	identityKey = []byte("m/identity")
	progressKey = []byte("m/progress")

	leastKey    = []byte{}     // no key is before it,
	greatestKey = []byte{0xff} // and none behind it
)

// totalKey is the store's key of the total of key.
func totalKey(key []byte) []byte { return prefixed(totalPrefix, key) }

// guardKey is the store's key of the guard of key.
func guardKey(key []byte) []byte { return prefixed(guardPrefix, key) }

func prefixed(prefix, key []byte) []byte {
	return append(append(make([]byte, 0, len(prefix)+len(key)), prefix...), key...)
}

func encodeFormat() []byte { return strconv.AppendInt(nil, FormatVersion, 10) }

// checkFormat returns ErrNewerFormat for a marker of a newer program.
func checkFormat(marker []byte) (version int, err error) {
	version, err = strconv.Atoi(string(marker))
	if err != nil || version < 1 {
		return 0, fmt.Errorf("format marker %q is no version number: %w", marker, ErrCorrupt)
	}
	if version > FormatVersion {
		return version, fmt.Errorf("%w: it is %d, this program reads up to %d", ErrNewerFormat, version, FormatVersion)
	}
	return version, nil
}

func encodeIdentity(id aggregator.Identity) ([]byte, error) { return json.Marshal(id.Record()) }

func decodeIdentity(value []byte) (aggregator.Identity, error) {
	var r aggregator.IdentityRecord
	if err := aggregator.UnmarshalStrict(value, &r); err != nil {
		return aggregator.Identity{}, fmt.Errorf("identity of the state: %w: %w", ErrCorrupt, err)
	}
	return r.Identity(), nil
}

// appendProgress appends p: the position as uvarint, then the rest as JSON.
func appendProgress(dst []byte, p aggregator.Progress) ([]byte, error) {
	rest, err := json.Marshal(p.Record())
	if err != nil {
		return dst, err
	}
	return append(binary.AppendUvarint(dst, uint64(p.Position)), rest...), nil
}

// decodePosition reads the position alone.
func decodePosition(value []byte) (position int64, rest []byte, err error) {
	n, width := binary.Uvarint(value)
	if width <= 0 || int64(n) < 0 {
		return 0, nil, fmt.Errorf("progress of the state: no position: %w", ErrCorrupt)
	}
	return int64(n), value[width:], nil
}

func decodeProgress(value []byte) (p aggregator.Progress, err error) {
	position, rest, err := decodePosition(value)
	if err != nil {
		return p, err
	}
	var r aggregator.ProgressRecord
	err = aggregator.UnmarshalStrict(rest, &r)
	if err == nil {
		p, err = r.Progress(position)
	}
	if err != nil {
		return p, fmt.Errorf("progress of the state: %w: %w", ErrCorrupt, err)
	}
	return p, nil
}

const guardLen = 12

// appendGuard appends t: seconds as 8 bytes and nanoseconds as 4, big-endian.
func appendGuard(dst []byte, t event.Time) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Sec))
	return binary.BigEndian.AppendUint32(dst, uint32(t.Nsec))
}

func decodeGuard(value []byte) (event.Time, error) {
	if len(value) != guardLen {
		return event.Time{}, fmt.Errorf("guard of %d bytes instead of %d: %w", len(value), guardLen, ErrCorrupt)
	}
	return event.Time{
		Sec:  int64(binary.BigEndian.Uint64(value)),
		Nsec: int32(binary.BigEndian.Uint32(value[8:])),
	}, nil
}
