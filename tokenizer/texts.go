package tokenizer

import (
	"hash/maphash"
	"math/bits"
)

// texts finds tokens by their text: a hash table with open addressing, 8 bytes a slot, half of them free, so that most
// texts that are no token are known for that by one cache line.
type texts struct {
	all   []string // the text of each id
	seed  maphash.Seed
	slots []textSlot
	shift uint // 64 - log2(len(slots))
}

type textSlot struct {
	check uint32 // bits of the text's hash
	id    int32  // None: the slot is free
}

// newTexts returns an empty table for tokens of which all holds the texts.
func newTexts(all []string) *texts {
	log := bits.Len(uint(2*len(all) + 1))
	t := &texts{all, maphash.MakeSeed(), make([]textSlot, 1<<log), uint(64 - log)}
	for i := range t.slots {
		t.slots[i].id = None
	}
	return t
}

// slot returns the slot of a text: its own, or the free one where it belongs.
func (t *texts) slot(text string) (s *textSlot, check uint32) {
	h := maphash.String(t.seed, text)
	check = uint32(h)
	for i := h >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		s = &t.slots[i]
		if s.id == None || s.check == check && t.all[s.id] == text {
			return s, check
		}
	}
}

// insert adds a token that has a text; of several with the same text the first counts.
func (t *texts) insert(id int32) {
	if t.all[id] == "" {
		return
	}
	if s, check := t.slot(t.all[id]); s.id == None {
		*s = textSlot{check, id}
	}
}

// find returns the token of a text, None if there is none.
func (t *texts) find(text string) int32 {
	s, _ := t.slot(text)
	return s.id
}
