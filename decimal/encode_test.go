package decimal

import (
	"bytes"
	"errors"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestEncodingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decimals().Draw(t, "d")
		head := []byte("head")
		enc := d.Append(head)[4:]
		tail := rapid.SliceOf(rapid.Byte()).Draw(t, "tail")
		back, rest, err := Read(append(bytes.Clone(enc), tail...))
		if err != nil || !bytes.Equal(rest, tail) {
			t.Fatalf("Read(Append(%v)) = %v, %x, %v", d, back, rest, err)
		}
		if back.Cmp(d) != 0 {
			t.Fatalf("Read(Append(%v)) = %v", d, back)
		}
		for i := range enc {
			if _, _, err := Read(enc[:i]); !errors.Is(err, ErrEncoding) {
				t.Fatalf("Read of %d of %d bytes: %v", i, len(enc), err)
			}
		}
	})
}

// The same number has one encoding, whatever was done to get there.
func TestEncodingForgetsHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, e := decimals().Draw(t, "d"), decimals().Draw(t, "e")
		ways := []Decimal{
			d, d.Add(e).Sub(e), d.Neg().Neg(), d.Sub(e).Add(e), e.Add(d).Add(e.Neg()), d.Mul(FromInt64(1)),
			d.Mul(FromInt64(10)).Mul(FromBig(big.NewInt(1), 1)), d.Round(100),
		}
		want := d.Append(nil)
		for i, w := range ways {
			if got := w.Append(nil); !bytes.Equal(got, want) {
				t.Fatalf("way %d to %v: %x, want %x", i, d, got, want)
			}
		}
	})
}

func TestEncodingIsSmall(t *testing.T) {
	for text, want := range map[string]int{"0": 2, "1": 2, "-63": 2, "1.5": 2, "299": 3, "267.64": 4, "1e37": 18} {
		if got := len(mustParse(t, text).Append(nil)); got != want {
			t.Errorf("%s takes %d bytes, want %d", text, got, want)
		}
	}
}

// Read takes nothing that Append does not write: what it takes is written back
// with the same bytes.
func FuzzRead(f *testing.F) {
	for _, text := range numberTexts {
		if d, err := Parse([]byte(text)); err == nil {
			f.Add(d.Append(nil))
			f.Add(d.Mul(d).Mul(d).Append(nil))
		}
	}
	f.Add([]byte{0x80, 0x00, 0x01})
	f.Add([]byte{0x04, 0x14})
	for _, n := range []uint{20, 30, 40} { // zeros that the scale could give up, in 128 bits and beyond
		c := bigPow10(n).Bytes()
		f.Add(append([]byte{1<<2 | formPositive, byte(len(c))}, c...))
		f.Add(append([]byte{1<<2 | formNegative, byte(len(c))}, c...))
		f.Add(append([]byte{formPositive, byte(len(c))}, c...))
	}
	f.Add([]byte{0x01, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, src []byte) {
		d, rest, err := Read(src)
		if err != nil {
			if !errors.Is(err, ErrEncoding) || d != (Decimal{}) || rest != nil {
				t.Fatalf("Read(%x) = %v, %x, %v", src, d, rest, err)
			}
			return
		}
		if got := append(d.Append(nil), rest...); !bytes.Equal(got, src) {
			t.Fatalf("Read(%x) = %v, which is written %x", src, d, got)
		}
	})
}
