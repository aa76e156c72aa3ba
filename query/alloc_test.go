package query

import (
	"testing"

	"tidemark/event"
)

// evaluated are expressions as users write them.
var evaluated = []struct{ name, expr string }{
	{"where", "channel IS NULL OR channel <> 'test'"},
	{"refund", "CASE WHEN kind = 'refund' THEN -amount ELSE amount END"},
	{"coalesce", "COALESCE(points, 0)"},
	{"arithmetic", "price * quantity - discount"},
	{"decimal", "CAST(amount AS decimal(10,2))"},
	{"timestamp", "CAST(at AS timestamp) >= '2015-07-29T00:00:00Z'"},
	{"in", "country IN ('DE', 'FR', 'ES', 'IT')"},
	{"between", "amount BETWEEN 10 AND 100"},
	{"like", "country LIKE '%S'"},
}

const evaluatedRecord = `{"k":"K","channel":"web","kind":"refund","amount":41.70,"price":12.33,"quantity":3,"discount":1.5,"at":"2015-07-29T09:17:12.000Z","country":"ES"}`

func TestEvaluationAllocatesNothing(t *testing.T) {
	for _, e := range evaluated {
		d, x := inAggregate(t, e.expr)
		env := scanned(t, d, evaluatedRecord)
		if n := testing.AllocsPerRun(100, func() {
			Required(x, env)
			True(x, env)
		}); n != 0 {
			t.Errorf("%s: %v allocations", e.expr, n)
		}
	}
}

func BenchmarkRequired(b *testing.B) {
	for _, e := range evaluated {
		d, x := inAggregate(b, e.expr)
		env := scanned(b, d, evaluatedRecord)
		b.Run(e.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, reason, _ := Required(x, env); reason != event.OK {
					b.Fatal(reason)
				}
			}
		})
	}
}

func BenchmarkTrue(b *testing.B) {
	d, x := inAggregate(b, evaluated[0].expr)
	env := scanned(b, d, evaluatedRecord)
	b.ReportAllocs()
	for b.Loop() {
		if !True(x, env) {
			b.Fatal("filtered")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(canonicalBase); err != nil {
			b.Fatal(err)
		}
	}
}
