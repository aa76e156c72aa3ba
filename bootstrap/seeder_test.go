package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tidemark/aggregator"
	"tidemark/event"
)

// seen is an Observer, and keeps the progress shown.
type seen struct {
	documents int
	missing   map[string]int
	seeded    int
	retried   atomic.Int64
	shown     []aggregator.SeedProgress
}

func (s *seen) Documents(n int)        { s.documents += n }
func (s *seen) Missing(field string)   { s.missing[field]++ }
func (s *seen) Retried()               { s.retried.Add(1) }
func (s *seen) Seeded(seconds float64) { s.seeded++ }

func (s *seen) show(p aggregator.SeedProgress) { s.shown = append(s.shown, p) }

// untold is for those who need no progress.
func untold(aggregator.SeedProgress) {}

// run is one bootstrap of a test and what came of it.
type run struct {
	program *aggregator.Program
	options Options
	stores  map[int32]*memStore
	seeds   map[int32]aggregator.Seed
	seen    *seen
	log     bytes.Buffer
}

// bootstrap seeds stores for the partitions of a topic from lines, with the
// options changed by change.
func bootstrap(t testing.TB, program *aggregator.Program, partitions int32, lines []string, change func(*Options)) (*run, error) {
	t.Helper()
	r := &run{program: program, stores: map[int32]*memStore{}, seen: &seen{missing: map[string]int{}}}
	for p := range partitions {
		r.stores[p] = newStore(program)
	}
	r.options = Options{
		Program: program, Log: &memLog{}, Cut: Cut{Mode: aggregator.CutEarliest},
		Source:      NewFile(writeFile(t, "history.ndjson", []byte(strings.Join(lines, "\n")))),
		Partitioner: "murmur2", MaxMissingShare: 0.01,
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Observer: r.seen,
	}
	if change != nil {
		change(&r.options)
	}
	s, err := New(r.options)
	if err != nil {
		t.Fatal(err)
	}
	topic := aggregator.Topic{Name: "sales", Partitions: partitions}
	place, err := s.partitioner(t.Context(), topic)
	if err != nil {
		return r, err
	}
	r.seeds, err = s.Seed(t.Context(), topic, place.String(), seedStores(r.stores), r.seen.show)
	return r, err
}

// documents is how many of them the seeds hold.
func (r *run) documents() (n int64) {
	for _, s := range r.seeds {
		n += s.Documents
	}
	return n
}

// TestSeedPlacesEachDocumentOnce: over all partitions, every document is in
// the store of the partition that its key belongs to, with its placement.
func TestSeedPlacesEachDocumentOnce(t *testing.T) {
	p := compile(t, salesQuery)
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf(`{"userId":"U-%d","totalRevenue":%d.%02d,"totalPoints":"%d","latestSaleTimestamp":"2015-07-29T09:17:12Z","productList":[%d,"a"],"sales":3}`, i, i, i%100, i, i))
	}
	for partitioner := range aggregator.NumPartitioners {
		name := partitioner.String()
		r, err := bootstrap(t, p, 5, lines, func(o *Options) { o.Partitioner = name; o.Memory = 1 << 16 })
		if err != nil {
			t.Fatal(err)
		}
		for partition, store := range r.stores {
			for key := range store.totals {
				if at := partitioner.Partition([]byte(key), 5); at != partition {
					t.Errorf("%s: %s lies in %d, not %d", name, key, partition, at)
				}
			}
			if r.seeds[partition].Placement&(1<<partitioner) == 0 || int(r.seeds[partition].Documents) != len(store.totals) || store.seeds < 2 {
				t.Errorf("%s: the seed of %d is %+v, in %d parts", name, partition, r.seeds[partition], store.seeds)
			}
		}
		all := rows(t, p, r.stores)
		if len(all) != 1000 || r.documents() != 1000 || r.seen.documents != 1000 || r.seen.seeded != 1 {
			t.Errorf("%s: %d keys of %d documents, %d observed", name, len(all), r.documents(), r.seen.documents)
		}
		want := `{"userId":"U-7","latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":7.07,"totalPoints":7,"productList":[7,"a"],"sales":3}`
		if all["U-7"] != want {
			t.Errorf("U-7 is %s", all["U-7"])
		}
		last := r.seen.shown[len(r.seen.shown)-1]
		if !last.Done || last.Documents != 1000 || last.Total == 0 || last.Read != last.Total || last.Rate() <= 0 {
			t.Errorf("the progress ends with %+v", last)
		}
	}
}

// TestSeedOfSomePartitions: what belongs to others is read and left out, and
// the parts of two members add up to the whole.
func TestSeedOfSomePartitions(t *testing.T) {
	p := compile(t, salesQuery)
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf(`{"userId":%d,"totalRevenue":1,"totalPoints":1,"latestSaleTimestamp":1748944805,"productList":[1],"sales":1}`, i))
	}
	whole, err := bootstrap(t, p, 4, lines, nil)
	if err != nil {
		t.Fatal(err)
	}
	members := map[int32]*memStore{}
	for _, owned := range [][]int32{{0, 3}, {1, 2}} {
		r := &run{stores: storesFor(p, owned...)}
		s, err := New(whole.options)
		if err != nil {
			t.Fatal(err)
		}
		seeds, err := s.Seed(t.Context(), aggregator.Topic{Name: "sales", Partitions: 4}, "murmur2", seedStores(r.stores), untold)
		if err != nil || len(seeds) != 2 {
			t.Fatal(seeds, err)
		}
		for partition, seed := range seeds {
			if seed != whole.seeds[partition] {
				t.Errorf("partition %d gets %+v of one member, %+v of all", partition, seed, whole.seeds[partition])
			}
		}
		maps.Copy(members, r.stores)
	}
	if !maps.Equal(rows(t, p, whole.stores), rows(t, p, members)) {
		t.Error("two members do not get what one gets")
	}
}

// TestN03B08NumbersKeepTheirDigits: numbers of all spellings come out of a file
// exactly, bare, dumped and compressed.
func TestN03B08NumbersKeepTheirDigits(t *testing.T) {
	p := compile(t, `SELECT userId, sum(totalRevenue) AS totalRevenue, count(*) AS n FROM sales GROUP BY userId`)
	numbers := map[string]string{
		"48151.62": "48151.62", "1234567.89": "1234567.89", "19.999": "19.999", // N03, B07
		"12345678901234567.89": "12345678901234567.89", "1.50e2": "150", "9007199254740993": "9007199254740993", // B08
		`"41.70"`: "41.7", "-0.0": "0", "1E+2": "100", "123456789012345678901234567890.000000000000000000001": "123456789012345678901234567890.000000000000000000001",
		"99999999999999999999999999999999999999": "99999999999999999999999999999999999999",
	}
	sum := new(big.Rat)
	var bare, dumped []string
	for i, text := range slices.Sorted(maps.Keys(numbers)) {
		r, _ := new(big.Rat).SetString(strings.Trim(text, `"`))
		sum.Add(sum, r)
		document := fmt.Sprintf(`{"userId":%d,"totalRevenue":%s,"n":1}`, i, text)
		bare = append(bare, document)
		dumped = append(dumped, fmt.Sprintf(`{"_index":"s","_id":"%d","_type":"_doc","_source":%s}`, i, document))
	}
	for name, lines := range map[string][]string{"bare": bare, "dumped": dumped} {
		for form, encode := range map[string]func(testing.TB, []byte) []byte{"plain": nil, "gzip": gzipped, "zstd": zstandard} {
			r, err := bootstrap(t, p, 3, lines, func(o *Options) {
				if encode != nil {
					o.Source = NewFile(writeFile(t, "h", encode(t, []byte(strings.Join(lines, "\n")))))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			total := new(big.Rat)
			for i, text := range slices.Sorted(maps.Keys(numbers)) {
				want := fmt.Sprintf(`{"userId":%d,"totalRevenue":%s,"n":1}`, i, numbers[text])
				if have := rows(t, p, r.stores)[fmt.Sprint(i)]; have != want {
					t.Errorf("%s, %s: %s comes out as %s, want %s", name, form, text, have, want)
				}
				n, _ := new(big.Rat).SetString(numbers[text])
				total.Add(total, n)
			}
			if total.Cmp(sum) != 0 {
				t.Errorf("%s, %s: the total read differs from the total written", name, form)
			}
		}
	}
}

// TestD12ScalarsAndArrays: products as one, several, none or null; an array is
// no number.
func TestD12ScalarsAndArrays(t *testing.T) {
	p := compile(t, `SELECT userId, collect_set(products) AS products, sum(revenue) AS revenue FROM sales GROUP BY userId`)
	r, err := bootstrap(t, p, 1, []string{
		`{"userId":1,"products":"A","revenue":1}`, `{"userId":2,"products":["A","B"],"revenue":1}`,
		`{"userId":3,"products":[],"revenue":1}`, `{"userId":4,"products":null,"revenue":1}`,
		`{"userId":5,"products":[],"revenue":[3]}`, `{"userId":6,"products":[["A"]],"revenue":1}`,
	}, func(o *Options) { o.MaxMissingShare = 0.5 })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"1": `{"userId":1,"products":["A"],"revenue":1}`, "2": `{"userId":2,"products":["A","B"],"revenue":1}`,
		"3": `{"userId":3,"products":[],"revenue":1}`, "4": `{"userId":4,"products":[],"revenue":1}`,
	}
	if have := rows(t, p, r.stores); !maps.Equal(have, want) {
		t.Errorf("rows are %v", have)
	}
	for _, line := range []string{`:5"`, "reason=wrong_type field=revenue", `:6"`, "field=products"} {
		if !strings.Contains(r.log.String(), strings.Trim(line, `"`)) {
			t.Errorf("the log lacks %s:\n%s", line, r.log.String())
		}
	}
}

// documentsLacking makes n documents, the first bad of which are as lacking.
func documentsLacking(n, bad int, lacking string) (lines []string) {
	for i := range n {
		line := fmt.Sprintf(`{"userId":"U-%d","latestSaleTimestamp":1748944805,"totalRevenue":1.00,"totalPoints":2,"productList":[],"sales":1}`, i)
		if i < bad {
			line = fmt.Sprintf(lacking, i)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestB10MissingShare: above the share the bootstrap fails and names the field,
// or the kinds of bad documents; at it or below it goes on and says how many.
func TestB10MissingShare(t *testing.T) {
	p := compile(t, salesQuery)
	const (
		noPoints   = `{"userId":"U-%d","latestSaleTimestamp":1748944805,"totalRevenue":1.00,"productList":[],"sales":1}`
		nullPoints = `{"userId":"U-%d","latestSaleTimestamp":1748944805,"totalRevenue":1.00,"totalPoints":null,"productList":[],"sales":1}`
		noKey      = `{"user":"U-%d","latestSaleTimestamp":1748944805,"totalRevenue":1.00,"totalPoints":2,"productList":[],"sales":1}`
		badValue   = `{"userId":"U-%d","latestSaleTimestamp":"soon","totalRevenue":1.00,"totalPoints":2,"productList":[],"sales":1}`
		noJSON     = `{"userId":"U-%d"`
		noSource   = `{"_index":"sales","_id":"U-%d"}`
	)
	for _, c := range []struct {
		bad     int
		lacking string
		keys    int // in the end, where it goes on
		want    string
	}{
		{300, noPoints, 0, "totalPoints is missing or null in 300 of 1000 documents (30 %), and max_missing_share accepts 1 %"},
		{11, nullPoints, 0, "totalPoints is missing or null in 11 of 1000 documents (1.1 %)"},
		{10, noPoints, 1000, "field=totalPoints documents=10 of=1000"},
		{1, noPoints, 1000, "field=totalPoints documents=1 of=1000"},
		{11, noKey, 0, "no key or a bad value in 11 of 1000 documents (1.1 %) (11 missing_field of userId)"},
		{300, badValue, 0, "300 bad_timestamp of latestSaleTimestamp"},
		{300, noJSON, 0, "300 not_json"},
		{300, noSource, 0, "300 missing_field of _source"},
		{10, badValue, 990, "documents=10 of=1000"},
		{10, noKey, 990, "documents=10 of=1000"},
		{1, noSource, 999, `(_id \"U-0\")`},
		{0, "", 1000, ""},
	} {
		r, err := bootstrap(t, p, 3, documentsLacking(1000, c.bad, c.lacking), nil)
		if c.keys == 0 {
			if !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "history.ndjson") {
				t.Errorf("%d of %s give %v, want %q", c.bad, c.lacking, err, c.want)
			}
			continue
		}
		if err != nil || len(rows(t, p, r.stores)) != c.keys || int(r.documents()) != c.keys || !strings.Contains(r.log.String(), c.want) {
			t.Errorf("%d of %s give %d keys, %v, want %d; the log:\n%s", c.bad, c.lacking, len(rows(t, p, r.stores)), err, c.keys, r.log.String())
		}
		if c.bad == 0 && strings.Contains(r.log.String(), "WARN") {
			t.Errorf("a whole history is warned of:\n%s", r.log.String())
		}
		if strings.Contains(c.lacking, "Points") && strings.Contains(c.want, "field=totalPoints") && r.seen.missing["totalPoints"] != c.bad {
			t.Errorf("%d missing fields are observed as %v", c.bad, r.seen.missing)
		}
	}
}

// TestO07SkippedDocumentsAreLoggedSparingly: many skipped documents are some
// lines, with their number.
func TestO07SkippedDocumentsAreLoggedSparingly(t *testing.T) {
	r, err := bootstrap(t, compile(t, salesQuery), 1, documentsLacking(1000, 500, `{"user":%d}`), func(o *Options) { o.MaxMissingShare = 0.5 })
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(r.log.String(), "\n"); n > linesPerReason+1 || !strings.Contains(r.log.String(), "500 missing_field of userId") {
		t.Errorf("500 skipped documents make %d lines", n)
	}
}

// TestDuplicates: one key in two documents, near each other and far apart, in
// each mode.
func TestDuplicates(t *testing.T) {
	p := compile(t, salesQuery)
	for _, far := range []bool{false, true} {
		lines := []string{`{"userId":"D","latestSaleTimestamp":1748944805,"totalRevenue":1.5,"totalPoints":2,"productList":["a"],"sales":1}`}
		again := `{"userId":"D","latestSaleTimestamp":1748944800,"totalRevenue":2.25,"totalPoints":3,"productList":["b"],"sales":1}`
		if !far {
			lines = append(lines, again)
		}
		lines = append(lines, documentsLacking(2000, 0, "")...)
		if far {
			lines = append(lines, again)
		}
		small := func(mode string) func(*Options) {
			return func(o *Options) { o.Duplicates, o.Memory = mode, 1<<16 }
		}
		_, err := bootstrap(t, p, 3, lines, small(""))
		if !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), `the key "D" is in two documents`) || !strings.Contains(err.Error(), "sum or last") {
			t.Errorf("error, far %v: %v", far, err)
		}
		for mode, want := range map[string]string{
			DuplicatesSum:  `{"userId":"D","latestSaleTimestamp":"2025-06-03T10:00:05.000Z","totalRevenue":3.75,"totalPoints":5,"productList":["a","b"],"sales":2}`,
			DuplicatesLast: `{"userId":"D","latestSaleTimestamp":"2025-06-03T10:00:00.000Z","totalRevenue":2.25,"totalPoints":3,"productList":["b"],"sales":1}`,
		} {
			r, err := bootstrap(t, p, 3, lines, small(mode))
			if err != nil {
				t.Fatal(err)
			}
			all := rows(t, p, r.stores)
			if all["D"] != want || len(all) != 2001 {
				t.Errorf("%s, far %v: %s of %d rows, want %s", mode, far, all["D"], len(all), want)
			}
		}
	}
	if _, err := New(Options{Program: p, Source: NewFile(""), Duplicates: "first"}); err == nil {
		t.Error("duplicates first is accepted")
	}
}

// TestFlushesDoNotMatter: any memory, any order of lines and any spread over
// partitions give the same rows.
func TestFlushesDoNotMatter(t *testing.T) {
	p := compile(t, salesQuery)
	random := rand.New(rand.NewPCG(1, 2))
	var lines []string
	for range 3000 {
		lines = append(lines, fmt.Sprintf(`{"userId":%d,"latestSaleTimestamp":%d,"totalRevenue":%d.%d,"totalPoints":%d,"productList":[%d],"sales":1}`,
			random.IntN(300), 1_748_944_805+random.IntN(1000), random.IntN(1000), random.IntN(100), random.IntN(9), random.IntN(50)))
	}
	var want map[string]string
	for i, memory := range []int{0, 1, 1 << 14, 1 << 16, 1 << 20} {
		r, err := bootstrap(t, p, int32(i+1), lines, func(o *Options) { o.Memory, o.Duplicates = memory, DuplicatesSum })
		if err != nil {
			t.Fatal(err)
		}
		have := rows(t, p, r.stores)
		if want == nil {
			want = have
		}
		if !maps.Equal(have, want) {
			t.Errorf("with %d bytes and %d partitions the rows differ", memory, i+1)
		}
		random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	}
}

// TestGuardsEverywhere: in cut mode guard every store gets the guards of all
// keys, also that of a partition that appeared later and gets no documents.
func TestGuardsEverywhere(t *testing.T) {
	p := compile(t, salesQuery)
	lines := documentsLacking(500, 5, `{"userId":"U-%d","guard":null,"latestSaleTimestamp":1748944805,"totalRevenue":1,"totalPoints":2,"productList":[],"sales":1}`)
	for i := 5; i < len(lines); i++ {
		lines[i] = strings.Replace(lines[i], "{", fmt.Sprintf(`{"guard":"2015-07-29T00:%02d:%02d.5Z",`, i/60%60, i%60), 1)
	}
	guard := func(o *Options) {
		o.Cut.Mode, o.Mapping.Guard = aggregator.CutGuard, event.Path{"guard"}
		o.Memory = 1 << 13
	}
	r, err := bootstrap(t, p, 2, lines, guard)
	if err != nil {
		t.Fatal(err)
	}
	if r.seen.missing["guard"] != 5 || !strings.Contains(r.log.String(), "has no guard") {
		t.Errorf("5 documents without a guard are observed as %v", r.seen.missing)
	}
	later := newStore(p)
	s, err := New(r.options)
	if err != nil {
		t.Fatal(err)
	}
	seeds, err := s.Seed(t.Context(), aggregator.Topic{Name: "sales", Partitions: 2}, "murmur2", map[int32]aggregator.SeedStore{7: later}, untold)
	if err != nil || seeds[7] != (aggregator.Seed{Placement: everyPartitioner}) || len(later.totals) != 0 {
		t.Errorf("a partition that appeared later gets %+v and %d keys, %v", seeds[7], len(later.totals), err)
	}
	for name, store := range map[string]*memStore{"0": r.stores[0], "1": r.stores[1], "later": later} {
		if len(store.guards) != 495 || store.guards["U-67"] != (event.Time{Sec: 1438128067, Nsec: 500_000_000}) {
			t.Errorf("partition %s has %d guards, U-67 at %v", name, len(store.guards), store.guards["U-67"])
		}
	}
	if _, err := bootstrap(t, p, 2, lines, func(o *Options) { guard(o); o.MaxMissingShare = 0.001 }); !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), "guard is missing or null in 5 of 500") {
		t.Errorf("documents without a guard above the share give %v", err)
	}
}

// TestGuardsOfDuplicates: of two documents of one key, the later instant where
// they are added up, that of the later line where it counts alone.
func TestGuardsOfDuplicates(t *testing.T) {
	p := compile(t, `SELECT userId, sum(x) AS x FROM sales GROUP BY userId`)
	document := func(key string, second int) string {
		return fmt.Sprintf(`{"userId":%q,"x":1,"at":%d}`, key, 1_748_944_800+second)
	}
	for _, memory := range []int{1, 1 << 20} {
		lines := []string{document("rises", 1), document("falls", 9)}
		for i := range 600 {
			lines = append(lines, document(fmt.Sprint("other", i), 0))
		}
		lines = append(lines, document("rises", 9), document("falls", 1))
		for mode, want := range map[string][2]int64{DuplicatesSum: {9, 9}, DuplicatesLast: {9, 1}} {
			r, err := bootstrap(t, p, 1, lines, func(o *Options) {
				o.Mapping.Guard, o.Duplicates, o.Memory = event.Path{"at"}, mode, memory
			})
			if err != nil {
				t.Fatal(err)
			}
			g := r.stores[0].guards
			if have := [2]int64{g["rises"].Sec - 1_748_944_800, g["falls"].Sec - 1_748_944_800}; have != want {
				t.Errorf("%s, %d bytes: guards are %v, want %v", mode, memory, have, want)
			}
		}
	}
}

// TestPartitionerAuto: the newest records tell, murmur2 where they do not.
func TestPartitionerAuto(t *testing.T) {
	p := compile(t, salesQuery)
	lines := documentsLacking(100, 0, "")
	for producer := range aggregator.NumPartitioners {
		name := producer.String()
		log := &memLog{partitions: make([][]aggregator.Record, 6)}
		for i := range 300 {
			key := fmt.Sprint("key-", i)
			log.append(producer.Partition([]byte(key), 6), noon, key, "{}")
			log.append(int32(i%6), noon, "", "{}") // without a key, placed by turns
		}
		r, err := bootstrap(t, p, 6, lines, func(o *Options) { o.Partitioner, o.Log = "auto", log })
		if err != nil {
			t.Fatal(err)
		}
		for partition, store := range r.stores {
			for key := range store.totals {
				if producer.Partition([]byte(key), 6) != partition {
					t.Fatalf("producers place by %s, and the document of %s lies in %d", name, key, partition)
				}
			}
		}
		if !strings.Contains(r.log.String(), "partitioner="+name) || log.asked != 6 {
			t.Errorf("%s: %d partitions are asked, the log:\n%s", name, log.asked, r.log.String())
		}
	}
	mixed := &memLog{}
	for i := range 40 {
		mixed.append(int32(i%6), noon, fmt.Sprint(i), "{}")
	}
	for name, log := range map[string]*memLog{"mixed": mixed, "empty": {partitions: make([][]aggregator.Record, 6)}} {
		got, told, err := findPartitioner(t.Context(), log, aggregator.Topic{Partitions: 6})
		if got != aggregator.Murmur2 || told || err != nil {
			t.Errorf("%s records tell %d, %v, %v", name, got, told, err)
		}
	}
	away := &memLog{partitions: make([][]aggregator.Record, 6), err: errors.New("broker is away")}
	if _, err := bootstrap(t, p, 6, lines, func(o *Options) { o.Partitioner, o.Log = "auto", away }); !errors.Is(err, away.err) || errors.Is(err, aggregator.ErrHopeless) {
		t.Errorf("a broker that is away gives %v", err)
	}
	if _, err := New(Options{Program: p, Source: NewFile(""), Partitioner: "java"}); err == nil {
		t.Error("partitioner java is accepted")
	}
}

// TestEmptyHistory is accepted and warned of.
func TestEmptyHistory(t *testing.T) {
	r, err := bootstrap(t, compile(t, salesQuery), 2, []string{"", ""}, nil)
	if err != nil || r.documents() != 0 || len(r.seeds) != 2 || !strings.Contains(r.log.String(), "no documents") {
		t.Errorf("an empty history gives %v, %v\n%s", r.seeds, err, r.log.String())
	}
}

// TestSeedEndsWithItsErrors: those of a store, of the context and of a file
// that is not there, and no view is left open.
func TestSeedEndsWithItsErrors(t *testing.T) {
	p := compile(t, salesQuery)
	lines := documentsLacking(2000, 0, "")
	full := errors.New("disk is full")
	for _, guarded := range []bool{false, true} {
		stores := storesFor(p, 0)
		stores[0].err = full
		o := Options{Program: p, Log: &memLog{}, Source: NewFile(writeFile(t, "h", []byte(strings.Join(lines, "\n")))), MaxMissingShare: 1}
		if guarded {
			o.Mapping.Guard = event.Path{"latestSaleTimestamp"}
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Seed(t.Context(), aggregator.Topic{Partitions: 1}, "murmur2", seedStores(stores), untold)
		if !errors.Is(err, full) || errors.Is(err, aggregator.ErrHopeless) {
			t.Errorf("a full disk gives %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = s.Seed(ctx, aggregator.Topic{Partitions: 1}, "murmur2", seedStores(storesFor(p, 0)), untold); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context gives %v", err)
		}
	}
	_, err := bootstrap(t, p, 1, nil, func(o *Options) { o.Source = NewFile("nowhere.ndjson") })
	if !errors.Is(err, aggregator.ErrHopeless) || !strings.Contains(err.Error(), "nowhere.ndjson") {
		t.Errorf("a file that is not there gives %v", err)
	}
}

// TestMappingErrors come when the Seeder is made, not when it reads.
func TestMappingErrors(t *testing.T) {
	p := compile(t, `SELECT userId, avg(x) AS mean FROM sales GROUP BY userId`)
	if _, err := New(Options{Program: p, Source: NewFile("h")}); err == nil || !strings.Contains(err.Error(), "mean") {
		t.Errorf("avg without its sum and count gives %v", err)
	}
	s, err := New(Options{Program: p})
	if err != nil || s.HasHistory() {
		t.Errorf("without a source: %v, history %v", err, s.HasHistory())
	}
}

func BenchmarkSeed(b *testing.B) {
	p := compile(b, salesQuery)
	const n = 50_000
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, `{"userId":%d,"latestSaleTimestamp":"2015-07-29T09:17:12.000Z","totalRevenue":267.64,"totalPoints":299,"productList":[47,1484],"sales":3}`+"\n", i*7919%n)
	}
	source := NewFile(writeFile(b, "h", text.Bytes()))
	s, err := New(Options{Program: p, Log: &memLog{}, Source: source, Partitioner: "murmur2"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		stores := map[int32]aggregator.SeedStore{}
		for partition := range int32(8) {
			stores[partition] = discard{}
		}
		if _, err := s.Seed(b.Context(), aggregator.Topic{Partitions: 8}, "murmur2", stores, untold); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "documents/s")
}

// TestGuardThatIsAColumn: a document that lacks the guard, which is a column's
// field too, as in most queries, lacks one field.
func TestGuardThatIsAColumn(t *testing.T) {
	p := compile(t, salesQuery)
	lines := documentsLacking(100, 1, `{"userId":"U-%d","latestSaleTimestamp":null,"totalRevenue":1,"totalPoints":2,"productList":[],"sales":1}`)
	r, err := bootstrap(t, p, 2, lines, func(o *Options) {
		o.Cut.Mode, o.Mapping.Guard = aggregator.CutGuard, event.Path{"latestSaleTimestamp"}
		o.MaxMissingShare = 0.01
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.seen.missing["latestSaleTimestamp"]; n != 1 {
		t.Errorf("one document that lacks a field is counted as %d", n)
	}
}
