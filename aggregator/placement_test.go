package aggregator

import (
	"hash/crc32"
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// Known answers: of Kafka's own UtilsTest for murmur2, and of the checks that
// FNV and CRC-32 are published with.
func TestHashes(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
	for key, want := range map[string]uint32{"": 0x811c9dc5, "a": 0xe40c292c, "foobar": 0xbf9cf968} {
		if got := fnv1a([]byte(key)); got != want {
			t.Errorf("fnv1a(%q) = %#x, want %#x", key, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		h := fnv.New32a()
		h.Write(key)
		if fnv1a(key) != h.Sum32() {
			t.Fatalf("fnv1a(%x) = %#x, want %#x", key, fnv1a(key), h.Sum32())
		}
	})
}

func TestPartition(t *testing.T) {
	in := func(p Partitioner, key string, n, want int32) {
		t.Helper()
		if got := p.Partition([]byte(key), n); got != want {
			t.Errorf("partitioner %d places %q of %d in %d, want %d", p, key, n, got, want)
		}
	}
	// toPositive(-973932308) is 1173551340.
	in(Murmur2, "21", 8, 1173551340%8)
	in(Murmur2, "21", 7, 1173551340%7)
	in(Murmur2, "abc", 10, 479470107%10)
	// "a" hashes to 0xe40c292c, as a signed number -468965076.
	in(FNV1a, "a", 10, 468965076%10)
	in(FNV1a, "foobar", 7, 1080231576%7) // 0xbf9cf968 is -1080231576
	// The check value of CRC-32 is 0xcbf43926: above 2^31, and not signed.
	in(CRC32, "123456789", 10, int32(uint32(0xcbf43926)%10))
	for p := range NumPartitioners {
		in(p, "any", 1, 0)
		in(p, "any", 0, 0)
	}
	if crc32.ChecksumIEEE([]byte("123456789")) != 0xcbf43926 {
		t.Error("CRC-32 is another one")
	}
}

// Every partitioner places every key in a partition that there is.
func TestPartitionIsInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		n := rapid.Int32Range(1, 1000).Draw(t, "n")
		for p := range NumPartitioners {
			if got := p.Partition(key, n); got < 0 || got >= n {
				t.Fatalf("partitioner %d places %x of %d in %d", p, key, n, got)
			}
		}
	})
}
