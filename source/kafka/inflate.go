package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var errInflated = fmt.Errorf("it would become more than %d MiB", maxInflated>>20)

// inflate returns what a codec made packed of. It is valid until begin.
func (u *unpacker) inflate(codec uint16, packed []byte) ([]byte, error) {
	if codec == 0 {
		return packed, nil
	}
	at := len(u.inflated)
	out, err := appendInflated(u.inflated, codec, packed)
	if err != nil {
		return nil, err
	}
	u.inflated = out // where it has moved, records still point to the old place
	return out[at:len(out):len(out)], nil
}

// release forgets what was inflated; no record points there any more.
func (u *unpacker) release() {
	if cap(u.inflated) > keptInflated {
		u.inflated = nil
	}
	u.inflated = u.inflated[:0]
}

// Kafka's numbers of codecs.
const (
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
)

var (
	gzips = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4s  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstds = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxInflated))
	})
)

func appendInflated(dst []byte, codec uint16, packed []byte) ([]byte, error) {
	switch codec {
	case codecGzip:
		r := gzips.Get().(*gzip.Reader)
		defer gzips.Put(r)
		if err := r.Reset(bytes.NewReader(packed)); err != nil {
			return dst, err
		}
		return appendAll(dst, r)
	case codecSnappy:
		for size := max(2*len(packed), 4<<10); ; size *= 2 {
			// In its own room, as the decoder takes the length for the limit.
			out, err := xerial.DecodeCapped(make([]byte, 0, min(size, maxInflated)), packed)
			switch {
			case err == nil:
				return append(dst, out...), nil
			case !errors.Is(err, xerial.ErrDstTooSmall):
				return dst, err
			case size >= maxInflated:
				return dst, errInflated
			}
		}
	case codecLZ4:
		r := lz4s.Get().(*lz4.Reader)
		defer lz4s.Put(r)
		r.Reset(bytes.NewReader(packed))
		return appendAll(dst, r)
	case codecZstd:
		d, err := zstds()
		if err != nil {
			return dst, err
		}
		out, err := d.DecodeAll(packed, dst)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || len(out)-len(dst) > maxInflated {
			return dst, errInflated
		}
		if err != nil {
			return dst, err
		}
		return out, nil
	}
	return dst, fmt.Errorf("it is compressed with codec %d, and none of that number is known", codec)
}

// appendAll appends what r has, up to maxInflated.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	n, err := buf.ReadFrom(io.LimitReader(r, maxInflated+1))
	if err == nil && n > maxInflated {
		err = errInflated
	}
	if err != nil {
		return dst, err
	}
	return buf.Bytes(), nil
}
