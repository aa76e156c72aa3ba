package aggregator

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"tidemark/decimal"
	"tidemark/event"
)

// setMember is a member as the reference keeps it: an integer, or a text.
type setMember struct {
	n    int64
	text string
}

func (m setMember) compare(o setMember) int {
	return cmp.Or(cmp.Compare(m.text, o.text), cmp.Compare(m.n, o.n)) // integers have no text
}

func (m setMember) value() event.Value {
	if m.text != "" {
		return event.Value{Kind: event.Text, Bytes: []byte(m.text)}
	}
	return event.Value{Kind: event.Decimal, Num: decimal.FromInt64(m.n)}
}

// TestLargeSets adds thousands of members in several ways to rows of one
// memory, and merges the rows' encodings; a sorted Go map is the reference.
func TestLargeSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := collectSet{limit: rapid.SampledFrom([]int{1, 10, 100, 1000, MaxSetLimit}).Draw(t, "limit")}
		width := rapid.SampledFrom([]int64{10, 300, 5000, math.MaxInt64}).Draw(t, "width")
		texts := rapid.IntRange(0, 4).Draw(t, "texts")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var m memory
		rows := [3][]uint64{}
		all := map[setMember]bool{}
		for i := range rows {
			rows[i] = make([]uint64, setWords)
		}
		seen := [3]map[setMember]bool{{}, {}, {}}
		for range r.IntN(4000) {
			member := setMember{n: r.Int64N(width) - width/2}
			if r.IntN(10) < texts {
				member = setMember{text: "t" + strconv.FormatInt(member.n, 10)}
			}
			i := r.IntN(3)
			var o operand
			v := member.value()
			o.addMember(&v)
			s.fold(&m, rows[i], &o)
			all[member], seen[i][member] = true, true
		}
		for i, row := range rows {
			checkSet(t, s, &m, row, seen[i])
		}
		// Rows may be read while their tails are not sorted in; reading changed
		// nothing.
		for i, row := range rows {
			checkSet(t, s, &m, row, seen[i])
		}
		var encoded [][]byte
		for _, row := range rows {
			encoded = append(encoded, s.append(nil, &m, row))
		}
		var merged [][]byte
		for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 2, 0, 0}} { // a set is idempotent too
			var m memory
			row := make([]uint64, setWords)
			var o operand
			for _, i := range order {
				rest, err := s.read(encoded[i], &o)
				if err != nil || len(rest) > 0 {
					t.Fatalf("%x: %v, %d bytes left", encoded[i], err, len(rest))
				}
				s.fold(&m, row, &o)
			}
			checkSet(t, s, &m, row, all)
			merged = append(merged, s.append(nil, &m, row))
		}
		for _, e := range merged {
			if !bytes.Equal(e, merged[0]) {
				t.Fatalf("%x in one order, %x in another", e, merged[0])
			}
		}
	})
}

func checkSet(t *rapid.T, s collectSet, m *memory, row []uint64, members map[setMember]bool) {
	want := slices.SortedFunc(maps.Keys(members), setMember.compare)
	view := s.view(m, row)
	if view.capped != (len(want) > s.limit) {
		t.Fatalf("%d members with limit %d are capped: %v", len(want), s.limit, view.capped)
	}
	want = want[:min(s.limit, len(want))]
	i := 0
	view.each(m, func(v *event.Value) {
		if i < len(want) {
			if w := want[i].value(); event.Compare(v, &w) != 0 {
				t.Fatalf("member %d is %v, want %v", i, v, w)
			}
		}
		i++
	})
	if i != len(want) {
		t.Fatalf("%d members, want %d", i, len(want))
	}
}

// Blocks of words that were released are used again.
func TestWordArenaIsReused(t *testing.T) {
	var m memory
	row := make([]uint64, setWords)
	s := collectSet{limit: 1000}
	grow := func(from, to int64) {
		for n := from; n < to; n++ {
			s.fold(&m, row, &operand{ints: []int64{n}})
		}
	}
	grow(0, 3000)
	settled := m.words.used
	grow(3000, 300_000) // all above the limit
	if m.words.used > 2*settled {
		t.Errorf("%d words in use, %d before members that the set does not keep", m.words.used, settled)
	}
	words := 0
	for _, c := range m.words.chunks {
		words += len(c)
	}
	if words > 1<<18 {
		t.Errorf("%d words taken", words)
	}
	m.reset()
	if m.used() != 0 {
		t.Errorf("%d bytes in use after a reset", m.used())
	}
}

// Adding is cheap in sets of thousands, also where nothing arrives in order.
func BenchmarkSetAdd(b *testing.B) {
	for _, size := range []int64{10, 100, 1000, 10_000, 1_000_000} {
		b.Run(strconv.FormatInt(size, 10), func(b *testing.B) {
			var m memory
			row := make([]uint64, setWords)
			s := collectSet{limit: int(size)}
			r := rand.New(rand.NewPCG(1, 1))
			o := operand{ints: make([]int64, 1)}
			b.ReportAllocs()
			for range b.N {
				o.ints[0] = r.Int64N(size)
				s.fold(&m, row, &o)
			}
		})
	}
}
