package spec

// An index finds where a sequence's last tokens stood before. It is a chain of places for each pair of tokens, as compressors have
// them: appending a token takes constant time, and memory is a few words a token.
type index struct {
	tokens []int32
	before []int32            // for each place: the last place before it that follows the same pair; -1: there is none
	last   map[[2]int32]int32 // for each pair: the last place that follows it
}

const (
	shortest   = 2  // tokens that a match has at least: the pair
	longest    = 32 // tokens that are compared at most: a longer match tells no more
	candidates = 32 // places that are compared at most, the latest ones: text that repeats has many
)

// pair is what stands before a place.
func (x *index) pair(place int) [2]int32 { return [2]int32(x.tokens[place-shortest : place]) }

// append adds a token. The place that it takes can be found from then on.
func (x *index) append(token int32) {
	if x.last == nil {
		x.last = map[[2]int32]int32{}
	}
	place := len(x.tokens)
	x.tokens = append(x.tokens, token)
	before := int32(-1)
	if place >= shortest {
		pair := x.pair(place)
		if p, ok := x.last[pair]; ok {
			before = p
		}
		x.last[pair] = int32(place)
	}
	x.before = append(x.before, before)
}

// find returns the place whose tokens before it agree with the sequence's last ones for longest, the latest of such places, and for
// how many tokens they agree. 0: no two agree.
func (x *index) find() (place, length int) {
	end := len(x.tokens)
	if end < shortest {
		return 0, 0
	}
	p, ok := x.last[[2]int32(x.tokens[end-shortest:])]
	for tries := 0; ok && p >= 0 && tries < candidates && length < longest; tries++ {
		n := shortest
		for n < min(longest, int(p)) && x.tokens[int(p)-1-n] == x.tokens[end-1-n] {
			n++
		}
		if n > length {
			place, length = int(p), n
		}
		p = x.before[p]
	}
	return place, length
}
