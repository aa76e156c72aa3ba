package decimal

import (
	"strconv"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, text := range []string{"7", "255.59", "-1234567890.1234", "123456789012345678", "12345678901234567890.123456789012345678", "7E+3"} {
		b.Run(text, func(b *testing.B) {
			raw := []byte(text)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAccumulate(b *testing.B) {
	cents := make([]Decimal, 1024)
	for i := range cents {
		cents[i], _ = Parse(strconv.AppendFloat(nil, float64(i*37%50_000)/100, 'f', 2, 64))
	}
	b.Run("mixed scales", func(b *testing.B) {
		var row [3]uint64
		i := 0
		for b.Loop() {
			Accumulate(&row, cents[i&1023])
			i++
		}
	})
	b.Run("one scale", func(b *testing.B) {
		var row [3]uint64
		for b.Loop() {
			Accumulate(&row, cents[1])
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	x, _ := Parse([]byte("255.59"))
	sum := Decimal{}
	for b.Loop() {
		sum = sum.Add(x)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, text := range []string{"299", "267.64", "-123456789.12"} {
		d, _ := Parse([]byte(text))
		buf := d.Append(nil)
		b.Run("append "+text, func(b *testing.B) {
			for b.Loop() {
				buf = d.Append(buf[:0])
			}
		})
		b.Run("read "+text, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendText(b *testing.B) {
	for _, text := range []string{"299", "267.64"} {
		d, _ := Parse([]byte(text))
		buf := make([]byte, 0, 64)
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				buf = d.AppendText(buf[:0])
			}
		})
	}
}
