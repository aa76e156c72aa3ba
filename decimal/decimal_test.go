package decimal

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rat is d as a fraction, by way of its parts and not of its text.
func rat(d Decimal) *big.Rat {
	c, scale := d.Big()
	return new(big.Rat).SetFrac(c, bigPow10(uint(scale)))
}

func mustParse(t testing.TB, text string) Decimal {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return d
}

// decimals draws numbers of all sizes, also at the borders of 64 and 128 bits
// and with trailing zeros.
func decimals() *rapid.Generator[Decimal] {
	return rapid.Custom(func(t *rapid.T) Decimal {
		c := new(big.Int)
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			c.SetInt64(rapid.Int64Range(-1000, 1000).Draw(t, "small"))
		case 1:
			c.SetInt64(rapid.Int64().Draw(t, "int64"))
		case 2:
			c.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 16).Draw(t, "bytes"))
		case 3:
			c.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "long"))
		case 4:
			bits := rapid.SampledFrom([]uint{31, 63, 64, 126, 127, 128}).Draw(t, "bits")
			c.Lsh(big.NewInt(1), bits)
			c.Add(c, big.NewInt(rapid.Int64Range(-2, 2).Draw(t, "off")))
		}
		if rapid.Bool().Draw(t, "neg") {
			c.Neg(c)
		}
		zeros := rapid.SampledFrom([]int32{0, 0, 0, 1, 2, 20, 40}).Draw(t, "zeros")
		c.Mul(c, bigPow10(uint(zeros)))
		return FromBig(c, rapid.SampledFrom([]int32{0, 0, 1, 2, 3, 10, 19, 20, 37, 38, 39, 60}).Draw(t, "scale"))
	})
}

// check fails where d is not want, or not in normal form.
func check(t *rapid.T, what string, d Decimal, want *big.Rat) {
	t.Helper()
	if rat(d).Cmp(want) != 0 {
		t.Fatalf("%s = %v, want %s", what, d, want.RatString())
	}
	if d.scale < 0 {
		t.Fatalf("%s has scale %d", what, d.scale)
	}
	if d.big != nil {
		if d.hi != 0 || d.lo != 0 {
			t.Fatalf("%s is big with words %d, %d", what, d.hi, d.lo)
		}
		if _, ok := narrow(d.big, 0); ok {
			t.Fatalf("%s is big, but fits in 128 bits", what)
		}
		if d.scale > 0 && new(big.Int).Rem(d.big, bigTen).Sign() == 0 {
			t.Fatalf("%s is big with trailing zeros", what)
		}
	}
}

func TestArithmeticAgainstRat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, e := decimals().Draw(t, "d"), decimals().Draw(t, "e")
		x, y := rat(d), rat(e)
		check(t, "Add", d.Add(e), new(big.Rat).Add(x, y))
		check(t, "Sub", d.Sub(e), new(big.Rat).Sub(x, y))
		check(t, "Mul", d.Mul(e), new(big.Rat).Mul(x, y))
		check(t, "Neg", d.Neg(), new(big.Rat).Neg(x))
		check(t, "Abs", d.Abs(), new(big.Rat).Abs(x))
		if got, want := d.Cmp(e), x.Cmp(y); got != want {
			t.Fatalf("Cmp(%v, %v) = %d, want %d", d, e, got, want)
		}
		if d.Cmp(d) != 0 || !d.Equal(d) {
			t.Fatalf("%v is not itself", d)
		}
		if d.Sign() != x.Sign() || d.IsZero() != (x.Sign() == 0) {
			t.Fatalf("Sign(%v) = %d, IsZero %v", d, d.Sign(), d.IsZero())
		}
		back := d.Add(e).Sub(e)
		if back.Cmp(d) != 0 {
			t.Fatalf("(%v + %v) - %[2]v = %v", d, e, back)
		}
	})
}

// halfUp is x rounded to scale decimals, halves away from zero.
func halfUp(x *big.Rat, scale int32) *big.Rat {
	p := new(big.Rat).SetInt(bigPow10(uint(scale)))
	y := new(big.Rat).Mul(x, p)
	num, den := new(big.Int).Abs(y.Num()), y.Denom()
	num.Lsh(num, 1).Add(num, den)
	q := num.Quo(num, new(big.Int).Lsh(den, 1))
	if x.Sign() < 0 {
		q.Neg(q)
	}
	return y.Quo(new(big.Rat).SetInt(q), p)
}

func TestRoundingAgainstRat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decimals().Draw(t, "d")
		x := rat(d)
		scale := rapid.Int32Range(0, 45).Draw(t, "scale")
		r := d.Round(scale)
		check(t, "Round", r, halfUp(x, scale))
		if r.scale > scale {
			t.Fatalf("Round(%v, %d) has scale %d", d, scale, r.scale)
		}
		n := rapid.OneOf(rapid.Uint64Range(1, 20), rapid.Uint64Range(1, math.MaxUint64)).Draw(t, "n")
		q := new(big.Rat).Quo(x, new(big.Rat).SetInt(new(big.Int).SetUint64(n)))
		check(t, "QuoInt", d.QuoInt(n, scale), halfUp(q, scale))

		whole := new(big.Int).Quo(x.Num(), x.Denom())
		check(t, "Trunc", d.Trunc(), new(big.Rat).SetInt(whole))
		digits := 0
		if whole.Sign() != 0 {
			digits = len(strings.TrimPrefix(whole.String(), "-"))
		}
		if d.IntegerDigits() != digits {
			t.Fatalf("IntegerDigits(%v) = %d, want %d", d, d.IntegerDigits(), digits)
		}
		i, ok := d.Int64()
		if wantOK := x.IsInt() && x.Num().IsInt64(); ok != wantOK || ok && i != x.Num().Int64() {
			t.Fatalf("Int64(%v) = %d, %v", d, i, ok)
		}
	})
}

func TestRoundIsHalfUp(t *testing.T) {
	for _, c := range []struct {
		in    string
		scale int32
		want  string
	}{
		{"0.005", 2, "0.01"}, {"-0.005", 2, "-0.01"}, {"0.0049999999", 2, "0.00"}, {"-0.004", 2, "0.00"},
		{"2.5", 0, "3"}, {"3.5", 0, "4"}, {"-2.5", 0, "-3"}, {"0.5", 0, "1"}, {"0.49", 0, "0"},
		{"9.995", 2, "10.00"}, {"1.5", 3, "1.500"}, {"0", 2, "0.00"}, {"19.999", 2, "20.00"},
		{"0.00000000000000000000000000000000000005", 37, "0.0000000000000000000000000000000000001"},
		{"99999999999999999999999999999999999999.99999999999999999999999999999999999995", 37,
			"100000000000000000000000000000000000000.0000000000000000000000000000000000000"},
	} {
		if got := string(mustParse(t, c.in).AppendFixed(nil, c.scale)); got != c.want {
			t.Errorf("AppendFixed(%s, %d) = %s, want %s", c.in, c.scale, got, c.want)
		}
	}
}

// Numbers at a half of what is kept, and one unit beside it, for every number of
// digits dropped.
func TestRoundAtTheHalf(t *testing.T) {
	for drop := int32(1); drop < 60; drop++ {
		half := new(big.Int).Mul(big.NewInt(5), bigPow10(uint(drop-1)))
		for _, kept := range []int64{0, 1, 2, 99, 12345} {
			c := new(big.Int).Mul(big.NewInt(kept), bigPow10(uint(drop)))
			c.Add(c, half)
			for unit := int64(-1); unit <= 1; unit++ {
				for _, sign := range []int64{1, -1} {
					n := new(big.Int).Add(c, big.NewInt(unit))
					d := FromBig(n.Mul(n, big.NewInt(sign)), drop+2)
					if got, want := d.Round(2), halfUp(rat(d), 2); rat(got).Cmp(want) != 0 {
						t.Errorf("Round(%v, 2) = %v, want %s", d, got, want.FloatString(2))
					}
				}
			}
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		in               string
		precision, scale int32
		want             bool
	}{
		{"99.99", 4, 2, true}, {"99.994", 4, 2, true}, {"99.995", 4, 2, false}, {"100", 4, 2, false},
		{"-99.995", 4, 2, false}, {"0.99", 2, 2, true}, {"0.995", 2, 2, false}, {"1", 2, 2, false},
		{"0", 1, 1, true}, {"99999999999999999999999999999999999999", 38, 0, true},
		{"99999999999999999999999999999999999999.5", 38, 0, false},
	} {
		if got := mustParse(t, c.in).Fits(c.precision, c.scale); got != c.want {
			t.Errorf("Fits(%s, %d, %d) = %v", c.in, c.precision, c.scale, got)
		}
	}
}

func TestPartsAndNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := decimals().Draw(t, "d")
		hi, lo, scale, ok := d.Parts()
		if ok != (d.big == nil) {
			t.Fatalf("Parts(%v) ok = %v", d, ok)
		}
		if ok && New(hi, lo, scale) != d {
			t.Fatalf("New(Parts(%v)) = %v", d, New(hi, lo, scale))
		}
	})
	if got := FromInt64(math.MinInt64).String(); got != "-9223372036854775808" {
		t.Errorf("FromInt64(min) = %s", got)
	}
	if got := FromBig(big.NewInt(-12), -3).String(); got != "-12000" {
		t.Errorf("FromBig(-12, -3) = %s", got)
	}
}

func TestN01SumsHaveNoTails(t *testing.T) {
	sum := Decimal{}
	for _, s := range []string{"12.33", "75.10", "138.66"} {
		sum = sum.Add(mustParse(t, s))
	}
	if sum.String() != "226.09" {
		t.Errorf("sum = %v", sum)
	}
	var row [3]uint64
	cent := mustParse(t, "0.01")
	for range 1_000_000 {
		if !Accumulate(&row, cent) {
			t.Fatal("cents do not fit")
		}
	}
	if d := New(int64(row[1]), row[0], int32(row[2])); d.String() != "10000" {
		t.Errorf("a million cents = %v", d)
	}
}

func TestN04ScalesMix(t *testing.T) {
	sum := mustParse(t, "1.5").Add(mustParse(t, "0.125")).Add(mustParse(t, "2"))
	if sum.String() != "3.625" {
		t.Errorf("sum = %v", sum)
	}
	long := "0.123456789012345678901234567891"
	if got := mustParse(t, long).Add(mustParse(t, "1")).String(); got != "1"+long[1:] {
		t.Errorf("1 + %s = %s", long, got)
	}
}

func TestN06SumsGrowWithoutLimit(t *testing.T) {
	if got := FromInt64(math.MaxInt64).Add(FromInt64(1)).String(); got != "9223372036854775808" {
		t.Errorf("max int64 + 1 = %s", got)
	}
	// Past 128 bits and back: the same number in the same form.
	top := mustParse(t, strings.Repeat("9", 38))
	sum := Decimal{}
	for range 1000 {
		sum = sum.Add(top)
	}
	if _, _, _, ok := sum.Parts(); ok || sum.String() != "99999999999999999999999999999999999999000" {
		t.Errorf("1000 × %v = %v", top, sum)
	}
	for range 999 {
		sum = sum.Sub(top)
	}
	if _, _, _, ok := sum.Parts(); !ok || sum.Cmp(top) != 0 {
		t.Errorf("back to %v: %v", top, sum)
	}
}

func TestD21NegativeZeroHasNoSign(t *testing.T) {
	zero := mustParse(t, "-5.25").Add(mustParse(t, "5.25"))
	if got := string(zero.AppendFixed(nil, 2)); got != "0.00" {
		t.Errorf("AppendFixed = %s", got)
	}
	for _, s := range []string{"-0", "-0.00", "-0e5", "-0.0e-9"} {
		d := mustParse(t, s)
		if d != (Decimal{}) || d.String() != "0" || d.Neg().String() != "0" {
			t.Errorf("Parse(%s) = %v", s, d)
		}
	}
}

func TestAccumulateIsAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var row [3]uint64
		sum := Decimal{}
		for _, d := range rapid.SliceOfN(decimals(), 1, 12).Draw(t, "values") {
			before := row
			if Accumulate(&row, d) {
				sum = sum.Add(d)
				if got := New(int64(row[1]), row[0], int32(row[2])); got.Cmp(sum) != 0 {
					t.Fatalf("row holds %v, want %v", got, sum)
				}
				continue
			}
			if row != before {
				t.Fatal("a row that was refused has changed")
			}
			if _, _, _, ok := sum.Add(d).Parts(); ok && d.big == nil {
				t.Fatalf("%v + %v was refused, though it fits", sum, d)
			}
		}
	})
}

func TestQuoIntByZeroPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	FromInt64(1).QuoInt(0, 2)
}

func TestSentinels(t *testing.T) {
	if _, err := Parse([]byte("1e38")); !errors.Is(err, ErrRange) {
		t.Errorf("1e38: %v", err)
	}
	if _, err := Parse([]byte("x")); !errors.Is(err, ErrSyntax) {
		t.Errorf("x: %v", err)
	}
}

func TestNothingAllocates(t *testing.T) {
	texts := [][]byte{[]byte("255.59"), []byte("-1234567890123.4567"), []byte("12345678901234567890.123456789012345678"), []byte("7E+3")}
	var row [3]uint64
	buf := make([]byte, 0, 128)
	allocs := testing.AllocsPerRun(100, func() {
		buf = buf[:0]
		for _, text := range texts {
			d, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if !Accumulate(&row, d) {
				t.Fatal("does not fit")
			}
			sum := New(int64(row[1]), row[0], int32(row[2]))
			if sum.Cmp(d) > 0 {
				sum = sum.Sub(d).Add(d.Neg()).Add(d).Add(d)
			}
			sum = sum.Round(2).Mul(FromInt64(1))
			buf = sum.AppendText(buf)
			buf = sum.AppendFixed(buf, 4)
			at := len(buf)
			buf = sum.Append(buf)
			if _, _, err := Read(buf[at:]); err != nil {
				t.Fatal(err)
			}
		}
		row = [3]uint64{}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
