package config

import "strings"

// Nearest returns the candidate that a person most likely meant by word, or "" when none is near: at most a third of its
// letters differ, case aside.
func Nearest(word string, candidates []string) string {
	best, least := "", len(word)
	for _, c := range candidates {
		d := distance(strings.ToLower(word), strings.ToLower(c))
		if d < least && d <= max(1, max(len(c), len(word))/3) {
			best, least = c, d
		}
	}
	return best
}

// distance is Levenshtein's, over bytes, in one row.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
