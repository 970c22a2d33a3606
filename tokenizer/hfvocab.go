package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// hfVocab is the vocabulary of tokenizer.json: the model's tokens and the added ones.
type hfVocab struct {
	kind      string          // of model
	raw       json.RawMessage // the model without vocab and merges
	merges    json.RawMessage
	ids       map[string]int32 // of the model's tokens
	tokens    []string         // by id; "" where there is none
	types     []Type
	scores    []float64 // Unigram
	added     []hfAdded // with their final ids
	byteLevel bool      // the model works on bytes
}

// readHFVocab reads the tokens of the model, and joins the added ones.
func readHFVocab(model json.RawMessage, addedTokens []hfAdded) (*hfVocab, error) {
	v := &hfVocab{ids: map[string]int32{}}
	fields, err := windows(model)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	vocab := fields["vocab"]
	v.merges = fields["merges"]
	delete(fields, "vocab") // the rest is small
	delete(fields, "merges")
	if err := affordable(vocab, v.merges); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if v.raw, err = json.Marshal(fields); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if kind, ok := fields["type"]; ok {
		if err := json.Unmarshal(kind, &v.kind); err != nil {
			return nil, fmt.Errorf("model: type: %w", err)
		}
	}
	switch _, limited := fields["max_input_chars_per_word"]; {
	case v.kind != "":
	case v.merges != nil: // old files do not say
		v.kind = "BPE"
	case limited:
		v.kind = "WordPiece"
	case bytes.HasPrefix(bytes.TrimSpace(vocab), []byte("[")):
		v.kind = "Unigram"
	}
	switch v.kind {
	case "BPE", "WordPiece":
		if v.ids, err = readVocab(vocab); err != nil {
			return nil, fmt.Errorf("model %s: vocab: %w", v.kind, err)
		}
	case "Unigram":
		if v.ids, v.scores, err = readScored(vocab); err != nil {
			return nil, fmt.Errorf("model Unigram: vocab: %w", err)
		}
	default:
		return nil, fmt.Errorf("model %q is not supported; supported are BPE, Unigram and WordPiece", v.kind)
	}
	return v, v.join(addedTokens)
}

// join gives each token its id. An added token that the model has too keeps the model's id, whatever the file says.
func (v *hfVocab) join(addedTokens []hfAdded) error {
	at := map[string]int{}
	for _, a := range addedTokens {
		if a.Content == "" {
			continue
		}
		if id, ok := v.ids[a.Content]; ok {
			a.ID = int64(id)
		}
		if i, ok := at[a.Content]; ok {
			a.ID = v.added[i].ID
			v.added[i] = a
			continue
		}
		at[a.Content] = len(v.added)
		v.added = append(v.added, a)
	}
	last := int64(len(v.scores)) - 1
	for text, id := range v.ids {
		if id < 0 {
			return fmt.Errorf("token %q has id %d", text, id)
		}
		last = max(last, int64(id))
	}
	for _, a := range v.added {
		last = max(last, a.ID)
	}
	if count := int64(len(v.ids) + len(v.added)); last < 0 || last > 2*count+65536 {
		return fmt.Errorf("%d tokens with ids up to %d, want at least one token, and few ids without one", count, last)
	}
	v.tokens, v.types = make([]string, last+1), make([]Type, last+1)
	for i := range v.types {
		v.types[i] = Unused
	}
	set := func(id int64, text string, y Type) error {
		if id < 0 || v.types[id] != Unused && v.tokens[id] != text {
			return fmt.Errorf("id %d stands for %q, and for another token too", id, text)
		}
		v.tokens[id], v.types[id] = text, y
		return nil
	}
	for text, id := range v.ids {
		if err := set(int64(id), text, Normal); err != nil {
			return err
		}
	}
	for _, a := range v.added {
		y := UserDefined
		if a.Special {
			y = Control
		}
		if err := set(a.ID, a.Content, y); err != nil {
			return err
		}
	}
	return nil
}

// markBytes marks the tokens that are spelled as bytes.
func (v *hfVocab) markBytes() {
	for id, text := range v.tokens {
		if _, err := parseByte(text); err == nil && v.types[id] == Normal {
			v.types[id] = Byte
		}
	}
}

// named finds a token by name, None for no name.
func (v *hfVocab) named(what, text string) (int32, error) {
	if text == "" {
		return None, nil
	}
	for _, a := range v.added {
		if a.Content == text {
			return int32(a.ID), nil
		}
	}
	if id, ok := v.ids[text]; ok {
		return id, nil
	}
	return None, fmt.Errorf("%s is %q, which the vocabulary does not have", what, text)
}

// usable tells whether the model may make a token of text: it has it, and it is not special.
func (v *hfVocab) usable(id int) bool {
	own, ok := v.ids[v.tokens[id]]
	return ok && own == int32(id) && v.types[id] != Control
}

// model builds what turns words into tokens.
func (v *hfVocab) model(plan *cutPlan) (wordModel, error) {
	var m wordModel
	var err error
	switch v.kind {
	case "BPE":
		m, err = v.bpe(plan.bytes)
	case "Unigram":
		m, err = v.unigram()
	default:
		m, err = v.wordPiece()
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", v.kind, err)
	}
	return m, nil
}

func (v *hfVocab) bpe(byteLevel bool) (wordModel, error) {
	var p struct {
		Type         string
		Dropout      *float64
		Unknown      *string `json:"unk_token"`
		Prefix       *string `json:"continuing_subword_prefix"`
		Suffix       *string `json:"end_of_word_suffix"`
		Fuse         bool    `json:"fuse_unk"`
		ByteFallback bool    `json:"byte_fallback"`
		IgnoreMerges bool    `json:"ignore_merges"`
	}
	if err := strict(v.raw, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Dropout != nil && *p.Dropout != 0:
		return nil, fmt.Errorf("dropout is %v, which makes tokens a matter of chance; set it to null", *p.Dropout)
	case p.Prefix != nil && *p.Prefix != "":
		return nil, fmt.Errorf("continuing_subword_prefix %q is not supported", *p.Prefix)
	case p.Suffix != nil && *p.Suffix != "":
		return nil, fmt.Errorf("end_of_word_suffix %q is not supported", *p.Suffix)
	}
	special := map[string]bool{}
	for _, a := range v.added {
		if a.Special {
			special[a.Content] = true
		}
	}
	merges, err := readMerges(v.merges, v.ids, v.tokens)
	if err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	if len(special) > 0 { // text never becomes a special token
		whole := make([]byte, 0, 64)
		merges = slices.DeleteFunc(merges, func(m [2]string) bool {
			whole = append(append(whole[:0], m[0]...), m[1]...)
			return special[m[0]] || special[m[1]] || special[string(whole)]
		})
	}
	unknown := None
	if p.Unknown != nil {
		if id, ok := v.ids[*p.Unknown]; ok {
			unknown = id
		}
	}
	if byteLevel {
		v.byteLevel = true
		b, err := newBPE(v.tokens, v.usable, merges, preTokenizer{wholeWords: p.IgnoreMerges})
		if err != nil {
			return nil, err
		}
		b.unknown, b.fuse = unknown, p.Fuse
		return b, nil
	}
	chars := newTexts(v.tokens)
	for id := range v.tokens {
		if v.usable(id) {
			chars.insert(int32(id))
		}
	}
	c, err := newCharBPE(chars, merges)
	if err != nil {
		return nil, err
	}
	if c.byteID, err = v.fallback(p.ByteFallback); err != nil {
		return nil, err
	}
	c.unknown, c.fuse, c.whole = unknown, p.Fuse, p.IgnoreMerges
	if p.Unknown != nil && unknown == None && c.byteID[0] == None {
		return nil, fmt.Errorf("unk_token is %q, which the vocabulary does not have", *p.Unknown)
	}
	return c, nil
}

// fallback returns the byte tokens if bytes stand for characters without a token, else none.
func (v *hfVocab) fallback(wanted bool) (ids [256]int32, err error) {
	for b := range ids {
		ids[b] = None
	}
	if !wanted {
		return ids, nil
	}
	count := 0
	for b := range ids {
		if id, ok := v.ids[fmt.Sprintf("<0x%02X>", b)]; ok {
			ids[b] = id
			count++
		}
	}
	if count != 0 && count != len(ids) {
		return ids, fmt.Errorf("byte_fallback with tokens for %d bytes, want all %d or none", count, len(ids))
	}
	return ids, nil
}

func (v *hfVocab) unigram() (wordModel, error) {
	var p struct {
		Type         string
		Unknown      *int32 `json:"unk_id"`
		ByteFallback bool   `json:"byte_fallback"`
	}
	if err := strict(v.raw, &p); err != nil {
		return nil, err
	}
	u := &unigram{scores: v.scores, unknown: None}
	lowest := math.Inf(1)
	var ids []int32
	for id, score := range v.scores {
		if math.IsNaN(score) {
			return nil, fmt.Errorf("the score of token %d is not a number", id)
		}
		lowest = min(lowest, score)
		if v.usable(id) {
			if n := len(v.tokens[id]); n > longestPiece {
				return nil, fmt.Errorf("token %d has %d bytes, want at most %d", id, n, longestPiece)
			}
			ids = append(ids, int32(id))
		}
	}
	u.penalty = lowest - unknownPenalty
	u.trie = newTrie(v.tokens, ids)
	if p.Unknown != nil {
		if u.unknown = *p.Unknown; u.unknown < 0 || int(u.unknown) >= len(v.scores) {
			return nil, fmt.Errorf("unk_id is %d, the vocabulary has %d tokens", u.unknown, len(v.scores))
		}
	}
	var err error
	if u.byteID, err = v.fallback(p.ByteFallback); err != nil {
		return nil, err
	}
	if u.unknown == None {
		return nil, errors.New("there is no unk_id, so some text has no tokens")
	}
	return u, nil
}

func (v *hfVocab) wordPiece() (wordModel, error) {
	var p struct {
		Type    string
		Unknown string `json:"unk_token"`
		Prefix  string `json:"continuing_subword_prefix"`
		Most    *int   `json:"max_input_chars_per_word"`
	}
	if err := strict(v.raw, &p); err != nil {
		return nil, err
	}
	unknown, ok := v.ids[p.Unknown]
	if !ok {
		return nil, fmt.Errorf("unk_token is %q, which the vocabulary does not have", p.Unknown)
	}
	rest := make([]string, len(v.tokens))
	for id, text := range v.tokens {
		if n := len(p.Prefix); len(text) > n && text[:n] == p.Prefix {
			rest[id] = text[n:]
		}
	}
	most := usualWord
	if p.Most != nil {
		most = *p.Most
	}
	if most < 0 || most > mostWord {
		return nil, fmt.Errorf("max_input_chars_per_word is %d, want at most %d", most, mostWord)
	}
	return newWordPiece(v.tokens, rest, v.usable, unknown, most), nil
}

// sortedAdded orders the added tokens of tokenizer_config.json, which are keyed by id.
func sortedAdded(byID map[string]hfAdded) ([]hfAdded, error) {
	all := make([]hfAdded, 0, len(byID))
	for key, a := range byID {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no id", key)
		}
		a.ID = id
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b hfAdded) int { return int(a.ID - b.ID) })
	return all, nil
}

// strict reads an object and refuses fields that v lacks: they would mean something.
func strict(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
