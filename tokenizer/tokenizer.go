package tokenizer

import (
	"fmt"
	"strings"
)

// Tokenizer turns text into tokens and back. It never changes after New, so any number of goroutines may use it.
type Tokenizer struct {
	all   string   // the texts of all tokens, unescaped, one after the other
	ends  []uint32 // where each ends
	types []Type

	model   encoder
	prefix  bool   // Encode puts a space in front of the text that begins or follows an added token
	plain   *added // tokens matched in any text
	special *added // these and the special tokens

	bos, eos       int32
	addBOS, addEOS bool
	end            map[int32]bool
}

// encoder tokenizes a stretch of text that lies between added tokens, or between one and an end of the text.
type encoder interface {
	encode(dst []int32, text string) []int32
}

// Options says how a text is encoded. The zero value reads it as nothing but text.
type Options struct {
	AddSpecial   bool // add the start and end tokens that the file asks for
	ParseSpecial bool // read the text of a special token as that token, which lets whoever wrote the text use them
}

// New builds a tokenizer. It fails on a kind or a pre-tokeniser that it does not know, naming it and those it does, and on
// a vocabulary that contradicts itself.
func New(c Config) (*Tokenizer, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	t := &Tokenizer{types: make([]Type, len(c.Tokens)), bos: c.BOS, eos: c.EOS, end: endTokens(&c)}
	for id := range c.Tokens {
		t.types[id] = c.typeOf(id)
	}
	for id := range t.end { // some converters forgot that these are no text
		if t.types[id] != Unknown {
			t.types[id] = Control
		}
	}
	c.Types = t.types
	if err := t.build(&c); err != nil {
		return nil, err
	}
	if t.addBOS && t.bos == None {
		return nil, fmt.Errorf("tokenizer: the file wants a start token (add_bos_token) but names none; set bos_token_id")
	}
	if t.addEOS && t.eos == None {
		return nil, fmt.Errorf("tokenizer: the file wants an end token (add_eos_token) but names none; set eos_token_id")
	}
	t.addAdded(&c)
	return t, nil
}

// build makes what depends on the kind of vocabulary.
func (t *Tokenizer) build(c *Config) error {
	switch c.Model {
	case "gpt2":
		pre, err := preTokenizerOf(c.Pre)
		if err != nil {
			return err
		}
		t.setTexts(c, func(dst []byte, id int) []byte { return appendBytes(dst, c.Tokens[id]) })
		texts := make([]string, len(c.Tokens))
		for id := range texts {
			texts[id] = t.text(int32(id))
		}
		t.addBOS, t.addEOS = choose(c.AddBOS, pre.addBOS), choose(c.AddEOS, false)
		t.model, err = newBPE(c, pre, texts)
		return err
	case "llama":
		s, err := newSPM(c)
		if err != nil {
			return err
		}
		t.setTexts(c, func(dst []byte, id int) []byte {
			if t.types[id] == Byte {
				b, _ := parseByte(c.Tokens[id]) // newSPM has read it
				return append(dst, b)
			}
			return appendUnescaped(dst, c.Tokens[id])
		})
		t.addBOS, t.addEOS = choose(c.AddBOS, true), choose(c.AddEOS, false)
		t.model, t.prefix = s, s.prefix
		return nil
	}
	return fmt.Errorf("tokenizer: vocabularies of kind %q are not supported; supported are gpt2 (byte-level BPE) and llama (SentencePiece BPE)", c.Model)
}

// setTexts unescapes all tokens. The text of special and added tokens is never escaped.
func (t *Tokenizer) setTexts(c *Config, unescape func(dst []byte, id int) []byte) {
	size := 0
	for _, s := range c.Tokens {
		size += len(s)
	}
	all := make([]byte, 0, size)
	t.ends = make([]uint32, len(c.Tokens))
	for id, s := range c.Tokens {
		switch t.types[id] {
		case Control, Unknown, UserDefined:
			all = append(all, s...)
		default:
			all = unescape(all, id)
		}
		t.ends[id] = uint32(len(all))
	}
	t.all = string(all)
}

func (t *Tokenizer) addAdded(c *Config) {
	t.plain, t.special = newAdded(), newAdded()
	for id, s := range c.Tokens {
		switch t.types[id] {
		case UserDefined:
			t.plain.insert(s, int32(id))
			t.special.insert(s, int32(id))
		case Control, Unknown:
			t.special.insert(s, int32(id))
		}
	}
	for _, a := range []*added{t.plain, t.special} {
		for _, id := range c.LStrip {
			a.strip[id] = sides{left: true, right: a.strip[id].right}
		}
		for _, id := range c.RStrip {
			a.strip[id] = sides{left: a.strip[id].left, right: true}
		}
	}
}

// Encode returns the tokens of a text. Any string has tokens; bytes that are not UTF-8 are encoded as bytes.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	ids := make([]int32, 0, len(text)/3+2)
	if o.AddSpecial && t.addBOS {
		ids = append(ids, t.bos)
	}
	tokens := t.plain
	if o.ParseSpecial {
		tokens = t.special
	}
	for text != "" {
		id, start, end := tokens.find(text)
		if start > 0 {
			ids = t.model.encode(ids, text[:start])
		}
		if id != None {
			ids = append(ids, id)
		}
		text = text[end:]
	}
	if o.AddSpecial && t.addEOS {
		ids = append(ids, t.eos)
	}
	return ids
}

// Decode returns the text of tokens that begin a text, without the text of special tokens. It is what a Detokenizer
// emits for them: valid UTF-8.
func (t *Tokenizer) Decode(ids []int32) string {
	d := t.Detokenizer(DecodeOptions{})
	var s strings.Builder
	for _, id := range ids {
		s.WriteString(d.Next(id))
	}
	s.WriteString(d.Flush())
	return s.String()
}

// Piece returns the bytes of a token's text, which need not be whole code points. For a special token that is the text
// that stands for it in prompts; for an id outside the vocabulary it is empty.
func (t *Tokenizer) Piece(id int32) []byte { return []byte(t.text(id)) }

// text returns what Piece does, as a string.
func (t *Tokenizer) text(id int32) string {
	if !t.valid(id) {
		return ""
	}
	start := uint32(0)
	if id > 0 {
		start = t.ends[id-1]
	}
	return t.all[start:t.ends[id]]
}

func (t *Tokenizer) valid(id int32) bool { return id >= 0 && int(id) < len(t.ends) }

func (t *Tokenizer) typeOf(id int32) Type {
	if !t.valid(id) {
		return Undefined
	}
	return t.types[id]
}

// Vocab returns the number of tokens.
func (t *Tokenizer) Vocab() int { return len(t.ends) }

// IsSpecial tells whether a token is a mark for the model rather than text.
func (t *Tokenizer) IsSpecial(id int32) bool {
	y := t.typeOf(id)
	return y == Control || y == Unknown
}

// IsEnd tells whether a token ends generation: the file's end tokens, and those known by their text (<|im_end|> and
// its like), whichever of them the file names.
func (t *Tokenizer) IsEnd(id int32) bool { return t.end[id] }

// BOS returns the start token, or None.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS returns the end token that the file names, or None. IsEnd knows all of them.
func (t *Tokenizer) EOS() int32 { return t.eos }

// AddsBOS tells whether Encode with AddSpecial begins with the start token.
func (t *Tokenizer) AddsBOS() bool { return t.addBOS }

// AddsEOS tells whether Encode with AddSpecial ends with the end token.
func (t *Tokenizer) AddsEOS() bool { return t.addEOS }
