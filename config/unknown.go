package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"
)

// unknown reports a key that is not in the table, with the nearest one.
func (r *reader) unknown(line int, at, name string, value *yaml.Node) {
	if before, after, glued := strings.Cut(name, ":"); glued && after != "" {
		// What follows may be a secret.
		r.problem(line, "unknown key %s: it has no blank after its colon; %s: … is wanted", shown(join(at, tidy(before)+":…")), tidy(before))
		return
	}
	full := shown(join(at, tidy(name)))
	r.problem(line, "unknown key %s: %s", full, hint(at, name, value))
}

// hint says what would be accepted in the place of an unknown key.
func hint(at, name string, value *yaml.Node) string {
	if name == "<<" {
		return "merge keys are not read; write the settings out"
	}
	if at == "kafka" && (name == "topic" || name == "topics") {
		return "the topic is the FROM name of the query"
	}
	// bootstrap: {servers: …} for bootstrap.servers.
	if value.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(value.Content); i += 2 {
			path := join(at, name+"."+value.Content[i].Value)
			if k := keyAt[path]; k != nil {
				return fmt.Sprintf("write %s as one name with a dot in it%s", last(path), below(at))
			}
		}
		for _, sibling := range names[at] {
			if strings.HasPrefix(sibling, name+".") {
				return fmt.Sprintf("Kafka's names are written as one name with dots, such as %s%s", sibling, below(at))
			}
		}
	}
	if near := nearest(at, name); near != "" {
		if parent(near) == at {
			return "the nearest known key is " + shown(near)
		}
		if p := parent(near); p != "" {
			return fmt.Sprintf("the nearest known key is %s, which is %s under %s", shown(near), last(near), shown(p))
		}
		return fmt.Sprintf("the nearest known key is %s, at the top level", near)
	}
	where := "at the top level"
	if at != "" {
		where = "under " + shown(at)
	}
	return fmt.Sprintf("known %s are %s", where, strings.Join(names[at], ", "))
}

func below(at string) string {
	if at == "" {
		return ""
	}
	return ", under " + shown(at)
}

// last is the last name of a path.
func last(path string) string { return path[strings.LastIndex(path, sep)+1:] }

// maxName is the longest name, in bytes, that is compared with the known ones.
const maxName = 100

// tidy is a key from the file as messages show it: short, and on one line.
func tidy(name string) string {
	name = clip(name)
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// nearest is the path of the key or section whose name, or whole path, is most
// like name; "" where none is much like it. Of equals the first wins, and what
// stands in the same section before all others.
func nearest(at, name string) string {
	if len(name) > maxName {
		return ""
	}
	name = plain(name)
	best, found := max(2, len(name)/3)+1, ""
	try := func(path, candidate string, penalty int) {
		if d := levenshtein.ComputeDistance(name, plain(candidate)); d+penalty < best && d < len(name) {
			best, found = d+penalty, path
		}
	}
	for _, sibling := range names[at] {
		try(join(at, sibling), sibling, 0)
	}
	for _, k := range keys {
		for path := k.path; path != ""; path = parent(path) {
			if parent(path) != at {
				try(path, path, 0)
				try(path, last(path), 0)
			}
		}
	}
	return found
}

// plain makes names alike that differ in case and in what joins their words.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(".-_/ ", r) {
			return '_'
		}
		return r
	}, strings.ToLower(name))
}

// refusal is the sentence for a text that k does not take.
func (k *key) refusal(quoted string) string {
	s := fmt.Sprintf("%s: %s is not %s", k.shown(), quoted, k.kind.want)
	text := strings.Trim(quoted, `"`)
	if len(text) > maxName {
		return s
	}
	for _, word := range k.kind.near {
		if d := levenshtein.ComputeDistance(strings.ToLower(text), strings.ToLower(word)); d > 0 && d <= max(1, len(word)/3) {
			return s + "; the nearest is " + word
		}
	}
	return s
}
