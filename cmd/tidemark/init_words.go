package main

import (
	"slices"
	"strings"
	"unicode"
)

// What names of fields mean to people who give them.
var (
	idWords   = []string{"id", "ids", "uuid", "guid", "key", "code", "sku", "number", "no", "ref", "hash", "token", "zip", "port", "version"}
	whoWords  = []string{"user", "customer", "account", "client", "member", "device", "sensor", "player", "tenant", "shop", "store", "merchant", "driver", "vehicle", "host", "product"}
	eventID   = []string{"event", "message", "trace", "request", "order", "sale", "transaction", "tx", "record", "payment", "span"}
	timeWords = []string{"time", "timestamp", "ts", "date", "at", "created", "updated", "when", "instant", "epoch"}
	// timeUnits may follow them, as in ts_ms and eventTimeMillis.
	timeUnits = []string{"s", "sec", "secs", "seconds", "ms", "millis", "milliseconds", "us", "micros", "microseconds", "ns", "nanos", "nanoseconds"}
	// gauges are measured, not counted: their sum means nothing.
	gauges = []string{"temperature", "temp", "lat", "latitude", "lon", "lng", "longitude", "percent", "percentage", "pct", "ratio", "rate", "score",
		"rating", "level", "balance", "age", "speed", "humidity", "pressure", "voltage", "height", "weight", "year", "month", "day", "hour"}
)

// words are the words of a name in lower case: of saleTimestamp and of
// sale_timestamp, sale and timestamp.
func words(name string) (out []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return out
}

// lastWord says whether a name ends with one of some words.
func lastWord(name string, of []string) bool {
	w := words(name)
	return len(w) > 0 && slices.Contains(of, w[len(w)-1])
}

// timeNamed says whether a name reads like that of an instant.
func timeNamed(name string) bool {
	w := words(name)
	if len(w) > 1 && slices.Contains(timeUnits, w[len(w)-1]) {
		w = w[:len(w)-1]
	}
	return len(w) > 0 && slices.Contains(timeWords, w[len(w)-1])
}

// anyWord says whether one of some words is in a name, also where its words run
// together, as in userid.
func anyWord(name string, of []string) bool {
	w := words(name)
	return slices.ContainsFunc(of, func(x string) bool {
		return slices.Contains(w, x) || len(w) == 1 && len(x) > 2 && strings.HasPrefix(w[0], x)
	})
}

// named says whether a name reads like an identifier.
func named(name string) bool {
	w := words(name)
	return lastWord(name, idWords) || len(w) == 1 && strings.HasSuffix(w[0], "id") && anyWord(name, append(slices.Clone(whoWords), eventID...))
}

// camel joins a word before a name: latest and saleTimestamp give
// latestSaleTimestamp; where the name has underscores, latest_sale_ts.
func camel(before, name string) string {
	if strings.Contains(name, "_") {
		return before + "_" + name
	}
	runes := []rune(name)
	return before + string(unicode.ToUpper(runes[0])) + string(runes[1:])
}

// alike says whether two names have the same words.
func alike(a, b string) bool {
	return strings.Join(words(a), "") == strings.Join(words(b), "")
}
