// Package nearest guesses which name was meant.
package nearest

// To returns the name that takes the fewest insertions, deletions and replacements of a letter to become; the first of equals. It is
// "" where every name would be half replaced.
func To(name string, names []string) string {
	best, least := "", (len(name)+1)/2
	for _, n := range names {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace (Levenshtein): after[j] is that of a's beginning to b[:j].
func distance(a, b string) int {
	after := make([]int, len(b)+1)
	for j := range after {
		after[j] = j
	}
	for i := range len(a) {
		diagonal := after[0]
		after[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, after[j], after[j+1])
			}
			diagonal, after[j+1] = after[j+1], d
		}
	}
	return after[len(b)]
}
