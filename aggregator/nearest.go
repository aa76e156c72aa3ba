package aggregator

// nearest returns the name most like text, "" where none is near: not more
// than a third of its bytes, or one for short ones, would have to change.
func nearest(text string, names []string) (best string) {
	least := max(len(text)/3, 1) + 1
	for _, name := range names {
		if d := distance(text, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or replace to make b of a,
// after Levenshtein.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
