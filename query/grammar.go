package query

import (
	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The grammar. It is LL(1): one token decides which way to go, so parsing
// never backtracks, takes time in proportion to the text, and its errors stand
// at the first token that does not fit. Function calls are read whatever their
// name is; what they mean, and what is refused, is bind's affair.

// selectStmt is a whole query.
type selectStmt struct {
	Distinct *keyword  `parser:"'SELECT' @@?"`
	Items    []*item   `parser:"@@ ( ',' @@ )*"`
	From     *topic    `parser:"'FROM' @@"`
	Where    *orExpr   `parser:"( 'WHERE' @@ )?"`
	Group    []*orExpr `parser:"( 'GROUP' 'BY' @@ ( ',' @@ )* )?"`
	End      []string  `parser:"@';'*"`
}

// keyword is a DISTINCT, for its place.
type keyword struct {
	Pos  lexer.Position
	Text string `parser:"@'DISTINCT'"`
}

// item is one of the SELECT list.
type item struct {
	Pos   lexer.Position
	Star  bool     `parser:"  @'*'"`
	Expr  *orExpr  `parser:"| @@"`
	Alias *segment `parser:"( 'AS' @@ | @@ )?"`
}

// segment is one name.
type segment struct {
	Pos  lexer.Position
	Text string `parser:"@( Word | Quoted )"`
}

// topic is the FROM name. Words joined by points and dashes are read so that
// the error can show how to quote them.
type topic struct {
	Pos  lexer.Position
	Name string   `parser:"@( Word | Quoted )"`
	More []string `parser:"( @( '.' | '-' ) @( Word | Quoted | Reserved | Number ) )*"`
}

type orExpr struct {
	Pos  lexer.Position
	Args []*andExpr `parser:"@@ ( 'OR' @@ )*"`
}

type andExpr struct {
	Pos  lexer.Position
	Args []*notExpr `parser:"@@ ( 'AND' @@ )*"`
}

type notExpr struct {
	Pos  lexer.Position
	Nots []string   `parser:"@'NOT'*"`
	Arg  *predicate `parser:"@@"`
}

type predicate struct {
	Pos     lexer.Position
	Left    *sum      `parser:"@@"`
	Compare *compared `parser:"( @@"`
	Is      *isTail   `parser:"| @@"`
	Not     *inTail   `parser:"| 'NOT' @@"`
	In      *inTail   `parser:"| @@ )?"`
}

type compared struct {
	Pos   lexer.Position
	Op    string `parser:"@( '=' | '<>' | '!=' | '<=' | '>=' | '<' | '>' )"`
	Right *sum   `parser:"@@"`
}

type isTail struct {
	Pos  lexer.Position
	Not  bool   `parser:"'IS' @'NOT'?"`
	Null string `parser:"@'NULL'"`
}

// inTail is what may follow NOT: IN, BETWEEN or LIKE.
type inTail struct {
	Pos     lexer.Position
	In      []*orExpr `parser:"  'IN' '(' @@ ( ',' @@ )* ')'"`
	Low     *sum      `parser:"| 'BETWEEN' @@"`
	High    *sum      `parser:"  'AND' @@"`
	Pattern *sum      `parser:"| 'LIKE' @@"`
}

type sum struct {
	Pos   lexer.Position
	Left  *product `parser:"@@"`
	Terms []*term  `parser:"@@*"`
}

type term struct {
	Pos lexer.Position
	Op  string   `parser:"@( '+' | '-' )"`
	Arg *product `parser:"@@"`
}

type product struct {
	Pos  lexer.Position
	Args []*unary `parser:"@@ ( '*' @@ )*"`
}

type unary struct {
	Pos   lexer.Position
	Minus []string `parser:"@'-'*"`
	Arg   *primary `parser:"@@"`
}

type primary struct {
	Pos    lexer.Position
	Case   *caseExpr `parser:"  @@"`
	Name   *name     `parser:"| @@"`
	Number string    `parser:"| @Number"`
	Text   string    `parser:"| @Text"`
	Const  string    `parser:"| @( 'NULL' | 'TRUE' | 'FALSE' )"`
	Paren  *orExpr   `parser:"| '(' @@ ')'"`
}

// name is a path, or with Call a function.
type name struct {
	Pos   lexer.Position
	First string   `parser:"@( Word | Quoted )"`
	Call  *call    `parser:"( @@"`
	More  []*after `parser:"| @@+ )?"`
}

// after is a name after a point, where every word is a name.
type after struct {
	Pos  lexer.Position
	Text string `parser:"'.' @( Word | Quoted | Reserved )"`
}

type call struct {
	Pos      lexer.Position
	Star     bool     `parser:"'(' ( @'*'"`
	Distinct *keyword `parser:"| @@?"`
	Args     []*arg   `parser:"  @@ ( ',' @@ )* )?"`
	Close    string   `parser:"@')'"`
}

// arg is an argument; AS belongs to CAST.
type arg struct {
	Pos  lexer.Position
	Expr *orExpr `parser:"@@"`
	Type *target `parser:"( 'AS' @@ )?"`
}

// target is the type of a CAST.
type target struct {
	Pos       lexer.Position
	Name      string `parser:"@Word"`
	Precision string `parser:"( '(' @Number"`
	Scale     string `parser:"  ( ',' @Number )? ')' )?"`
}

type caseExpr struct {
	Pos   lexer.Position
	Of    *orExpr `parser:"'CASE' @@?"`
	Whens []*when `parser:"@@+"`
	Else  *orExpr `parser:"( 'ELSE' @@ )?"`
	End   string  `parser:"@'END'"`
}

type when struct {
	Pos  lexer.Position
	If   *orExpr `parser:"'WHEN' @@"`
	Then *orExpr `parser:"'THEN' @@"`
}

// grammar is built from the types above, without lookahead beyond the token
// that decides.
var grammar = participle.MustBuild[selectStmt](
	participle.Lexer(definition{}),
	participle.CaseInsensitive("Word", "Reserved"),
	participle.UseLookahead(0),
)
