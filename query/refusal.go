package query

import "strings"

// What SQL has and a definition has not, and what to write instead. The
// sentences follow on "found X; ".
const (
	noJoin     = "one query reads one topic: there are no joins, and the history is merged by the service"
	noUnion    = "there is no UNION: the history is merged by the service, so keep the part that reads the topic"
	noSubquery = "there are no sub-queries: one SELECT reads one topic, and the history is merged by the service"
	noWindow   = "there are no windows: a total runs from the history to the newest event"
	noOrder    = "answers are sorted where they are read, with ?order= and ?limit="
	noDivision = "there is no division: keep sums and counts, or avg(x), which divides once when it answers"
	noBits     = "there are no operations on bits"
)

// refusedWords has the words that begin something that is refused wherever
// the grammar stops at them.
var refusedWords = map[string]string{
	"SELECT":      noSubquery,
	"JOIN":        noJoin,
	"INNER":       noJoin,
	"LEFT":        noJoin,
	"RIGHT":       noJoin,
	"FULL":        noJoin,
	"CROSS":       noJoin,
	"NATURAL":     noJoin,
	"ANTI":        noJoin,
	"SEMI":        noJoin,
	"ON":          noJoin,
	"USING":       noJoin,
	"UNION":       noUnion,
	"INTERSECT":   noUnion,
	"EXCEPT":      noUnion,
	"MINUS":       noUnion,
	"HAVING":      "there is no HAVING: every key has an answer; choose events with WHERE, and answers where they are read",
	"ORDER":       noOrder,
	"SORT":        noOrder,
	"LIMIT":       noOrder,
	"OFFSET":      noOrder,
	"FETCH":       noOrder,
	"CLUSTER":     "how the work is spread is not part of a definition: leave this clause out",
	"DISTRIBUTE":  "how the work is spread is not part of a definition: leave this clause out",
	"WINDOW":      noWindow,
	"OVER":        noWindow,
	"QUALIFY":     noWindow,
	"EMIT":        "answers follow every event by themselves: leave EMIT out",
	"LATERAL":     "arrays are not exploded: collect_set(x) flattens them",
	"DIV":         noDivision,
	"MOD":         "there is no remainder: only + - and * are exact on all numbers",
	"RLIKE":       "there are no regular expressions: write LIKE, with % and _",
	"REGEXP":      "there are no regular expressions: write LIKE, with % and _",
	"SIMILAR":     "there are no regular expressions: write LIKE, with % and _",
	"ILIKE":       "LIKE distinguishes letters of either case: list both spellings with OR",
	"ESCAPE":      "the escape of LIKE is the backslash, as in LIKE '10\\%'",
	"IGNORE":      "first and last take null as absent by themselves: write first(x)",
	"RESPECT":     "first and last take null as absent: write first(x)",
	"FILTER":      "write the condition inside: sum(CASE WHEN condition THEN x ELSE 0 END)",
	"WITHIN":      "there are no ordered sets; first, last, min_by and max_by choose by order",
	"TABLESAMPLE": "every event counts: leave the sample out, or choose events with WHERE",
}

// refusedMarks is the same for operators.
var refusedMarks = map[string]string{
	"==":  "equality is written =",
	"<=>": "write a = b OR (a IS NULL AND b IS NULL)",
	"/":   noDivision,
	"%":   "there is no remainder: only + - and * are exact on all numbers",
	"||":  "texts are not joined; OR is written OR",
	"&&":  "write AND",
	"!":   "write NOT",
	"::":  "write CAST(x AS type)",
	"[":   "arrays are not indexed: collect_set(x) takes all members, and a name of odd characters is written in backquotes",
	"->":  "a nested field is written with points: user.id",
	":":   "a nested field is written with points: user.id",
	"&":   noBits,
	"|":   noBits,
	"^":   noBits,
	"~":   noBits,
	"<<":  noBits,
	">>":  noBits,
}

// refusal explains a token that SQL allows where the grammar stopped and a
// definition does not; "" where there is nothing special to say.
func (p place) refusal() string {
	word, before := p.word(0), p.word(-1)
	switch {
	case p.i == 0:
		switch word {
		case "WITH":
			return "a query begins with SELECT: " + noSubquery
		case "CREATE", "INSERT":
			return "a query begins with SELECT: leave out what stands before it, as no table is made of it"
		}
		return "a query begins with SELECT"
	case before == ";":
		return "a definition is one query: nothing follows the semicolon"
	case before == "FROM" && word == "(":
		return noSubquery
	case p.word(-2) == "FROM" && p.clause() == "FROM":
		if why, ok := p.refusedAfterTopic(word); ok {
			return why
		}
	case word == "(" && (before == "OVER" || before == "FILTER"):
		return refusedWords[before]
	case word == "NULLS" && (before == "IGNORE" || before == "RESPECT"):
		return refusedWords[before]
	case word == "WHERE" && before != "FROM":
		return "WHERE stands once, between FROM and GROUP BY"
	case word == "*" && before == ".":
		return "each column is named: a path of GROUP BY, or an aggregate such as sum(x)"
	case word == "+" && p.wantsOperand():
		return "a plus before a value says nothing: leave it out"
	case before == "IS" || before == "NOT" && p.word(-2) == "IS":
		switch word {
		case "TRUE", "FALSE", "UNKNOWN":
			return "IS takes NULL or NOT NULL: write x = " + strings.ToLower(p.word(0)) + ", or x alone"
		case "DISTINCT":
			return refusedMarks["<=>"]
		}
	case p.tokens[p.i].Type == tokenText:
		switch before {
		case "TIMESTAMP", "DATE":
			return "write CAST('2015-07-29T09:17:12Z' AS timestamp)"
		case "INTERVAL":
			return "there are no intervals"
		case "AS":
			return "a name is written alone or in backquotes, a text in single quotes"
		}
	case word == "=" || word == "<" || word == ">" || word == "<=" || word == ">=" || word == "<>" || word == "!=":
		return "comparisons do not chain: join them with AND, or use parentheses"
	}
	if t := p.tokens[p.i].Type; t == tokenOp {
		return refusedMarks[word]
	}
	if p.wantsOperand() && word != "SELECT" {
		return "" // the word is one that cannot begin an expression, and no operator
	}
	return refusedWords[word]
}

// refusedAfterTopic explains what follows the FROM name.
func (p place) refusedAfterTopic(word string) (string, bool) {
	switch {
	case word == ",":
		return noJoin, true
	case word == "AS", p.tokens[p.i].Type == tokenQuoted,
		p.tokens[p.i].Type == tokenWord && refusedWords[word] == "":
		return "a topic takes no alias: a field is named alone, as userId", true
	}
	return "", false
}

// wantsOperand says whether the token before this one asks for an operand.
func (p place) wantsOperand() bool {
	switch p.word(-1) {
	case "(", ",", "=", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "SELECT", "WHERE", "BY",
		"AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "CASE", "BETWEEN", "LIKE":
		return true
	}
	return false
}
