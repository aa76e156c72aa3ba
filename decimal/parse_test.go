package decimal

import (
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// parseByText is Parse written out: move the point in the text, cut the zeros
// at the ends, count.
func parseByText(text string) (*big.Rat, error) {
	if !jsonNumber.MatchString(text) {
		return nil, ErrSyntax
	}
	digits, exp, _ := strings.Cut(strings.ToLower(text), "e")
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	before, after, _ := strings.Cut(digits, ".")
	if strings.Trim(before+after, "0") == "" {
		return new(big.Rat), nil
	}
	e := new(big.Int)
	if exp != "" {
		e.SetString(strings.TrimPrefix(exp, "+"), 10)
	}
	if e.CmpAbs(big.NewInt(10_000)) > 0 {
		return nil, ErrRange // no text in these tests is long enough to make up for it
	}
	n := int(e.Int64())
	if n > 0 {
		after += strings.Repeat("0", n)
		before, after = before+after[:n], after[n:]
	} else {
		before = strings.Repeat("0", -n) + before
		before, after = before[:len(before)+n], before[len(before)+n:]+after
	}
	before, after = strings.TrimLeft(before, "0"), strings.TrimRight(after, "0")
	if len(before) > MaxDigits || len(after) > MaxDigits {
		return nil, ErrRange
	}
	r, ok := new(big.Rat).SetString(sign + "0" + before + "." + after + "0")
	if !ok {
		panic("bad fraction for " + text)
	}
	return r, nil
}

// checkParse compares Parse with parseByText and, where it accepts, the ways
// out and back in.
func checkParse(t interface{ Fatalf(string, ...any) }, text string) {
	d, err := Parse([]byte(text))
	want, wantErr := parseByText(text)
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("Parse(%q) = %v, %v, want %v", text, d, err, wantErr)
	}
	if err != nil {
		if d != (Decimal{}) {
			t.Fatalf("Parse(%q) failed with %v", text, d)
		}
		return
	}
	if rat(d).Cmp(want) != 0 {
		t.Fatalf("Parse(%q) = %v, want %s", text, d, want.RatString())
	}
	if trimmed := d.trim(); trimmed.scale != d.scale {
		t.Fatalf("Parse(%q) has scale %d, want %d", text, d.scale, trimmed.scale)
	}
	out := d.String()
	if !jsonNumber.MatchString(out) || strings.ContainsAny(out, "eE") || out == "-0" || strings.Contains(out, ".") && strings.HasSuffix(out, "0") {
		t.Fatalf("Parse(%q) is written %q", text, out)
	}
	again, err := Parse([]byte(out))
	if err != nil || again.Cmp(d) != 0 {
		t.Fatalf("Parse(%q) = %v, %v, want %v", out, again, err, d)
	}
}

var numberTexts = []string{
	"0", "-0", "1", "-1", "255.59", "0.1", "-0.10", "1.50", "100", "1000000.000001", "9223372036854775807",
	"-9223372036854775808", "18446744073709551615", "18446744073709551616", "9999999999999999999", "99999999999999999999",
	"170141183460469231731687303715884105727", "-170141183460469231731687303715884105728", "7E+3", "4.2e-3", "1e37", "1e38",
	"1e-38", "1e-39", "1e400", "1e-2000000000", "0e999999999", "-0.0e-99999999999999999999", "1e99999999999999999999999",
	"0.00000000000000000000000000000000000001", "0.000000000000000000000000000000000000001",
	"12345678901234567890123456789012345678.12345678901234567890123456789012345678",
	"123456789012345678901234567890123456789", "1" + strings.Repeat("0", 38), "1." + strings.Repeat("0", 100),
	"1" + strings.Repeat("0", 50) + "e-50", "0." + strings.Repeat("0", 50) + "7e51", "1.e5", "1.50e2", "1.5e10", "1.0e0", "0.0",
	"", "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1e", "1e+", "1E-", "1.5.5", "1-2", "NaN", "Infinity", "0x1", "1_000",
	"41,70", " 5", "5 ", "abc", "١", "1e5e5", "1e5.5", "--1", "1.-5", "1.x0", "1.e0",
}

func TestParseTexts(t *testing.T) {
	for _, text := range numberTexts {
		checkParse(t, text)
	}
}

// Every text of up to five bytes of an alphabet that has all that matters, and
// the same behind digits that take it to the borders of the short path.
func TestParseShortTexts(t *testing.T) {
	const alphabet = "019.-e:"
	var grow func(text string, left int)
	grow = func(text string, left int) {
		for _, prefix := range []string{"", "12", "1234", "0.00"} {
			checkParse(t, prefix+text)
		}
		if left == 0 {
			return
		}
		for i := range len(alphabet) {
			grow(text+alphabet[i:i+1], left-1)
		}
	}
	grow("", 5)
	for c := range 256 {
		for pos := range 8 {
			text := []byte("12345678")
			text[pos] = byte(c)
			checkParse(t, string(text))
			checkParse(t, string(text[:pos+1]))
			checkParse(t, "0.1"+string(text[pos:]))
		}
	}
}

// SetShort is Parse, whatever number was there before, or leaves that as it was.
func TestSetShort(t *testing.T) {
	wide := mustParse(t, strings.Repeat("9", 38)+"."+strings.Repeat("7", 38))
	for _, before := range []Decimal{{}, New(-1, 5, 3), wide} {
		for _, text := range []string{"0", "-0", "7", "-7", "-0.5", "12.50", "-12.50", "99999999", "-1234.567", "123456789", "1e3", "01", "-", "", "1.", "x"} {
			d := before
			want, err := Parse([]byte(text))
			short := err == nil && len(strings.TrimPrefix(text, "-")) <= 8 && !strings.Contains(text, "e")
			switch ok := d.SetShort([]byte(text)); {
			case ok != short:
				t.Errorf("%q: it is %v that this is short", text, ok)
			case ok && (err != nil || d != want):
				t.Errorf("%q over %v: %v, want %v %v", text, before, d, want, err)
			case !ok && d != before:
				t.Errorf("%q over %v: %v is left of it", text, before, d)
			}
		}
	}
}

func TestParseAgainstText(t *testing.T) {
	digits := rapid.OneOf(rapid.StringMatching(`[0-9]{0,5}`), rapid.StringMatching(`0{0,3}[0-9]{0,40}0{0,40}`))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, "sign") + digits.Draw(t, "before")
		if rapid.Bool().Draw(t, "point") {
			text += "." + digits.Draw(t, "after")
		}
		if rapid.IntRange(0, 2).Draw(t, "exp") == 0 {
			text += rapid.SampledFrom([]string{"e", "E", "e+", "e-", "E-"}).Draw(t, "e") +
				strconv.Itoa(rapid.IntRange(0, 90).Draw(t, "exponent"))
		}
		checkParse(t, text)
	})
}

func TestD07ExponentsAreExactAndCheap(t *testing.T) {
	for text, want := range map[string]string{
		"7E+3": "7000", "4.2e-3": "0.0042", "2.3e1": "23", "23.0": "23", "1.50e2": "150", "-1e-2": "-0.01",
	} {
		if got := mustParse(t, text).String(); got != want {
			t.Errorf("Parse(%s) = %s, want %s", text, got, want)
		}
	}
	absurd := [][]byte{[]byte("1e400"), []byte("1e-2000000000"), []byte("1e38"), []byte("1e-39"), []byte("-9.99E+99999999999999999999999")}
	if n := testing.AllocsPerRun(10, func() {
		for _, text := range absurd {
			if _, err := Parse(text); err != ErrRange {
				t.Fatalf("Parse(%s): %v", text, err)
			}
		}
	}); n != 0 {
		t.Errorf("absurd exponents allocate %v times", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range numberTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 5000 {
			return
		}
		checkParse(t, text)
	})
}
