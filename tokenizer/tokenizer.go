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
	lead    lead
	plain   *added // tokens matched in any text
	special *added // these and the special tokens

	bos, eos      int32
	before, after []int32 // what AddSpecial puts around a text
	end           map[int32]bool
	fill          Fill
}

// lead says what Decode takes from the beginning of a text, because Encode or the kind of vocabulary put it there.
type lead struct {
	space bool // one space
	all   bool // all spaces of the first token, as Hugging Face's Metaspace decoder does
	again bool // also after special and added tokens
}

// encoder tokenizes a stretch of text that lies between added tokens, or between one and an end of the text.
type encoder interface {
	encode(dst []int32, s stretch) []int32
}

// Options says how a text is encoded. The zero value reads it as nothing but text.
type Options struct {
	AddSpecial   bool // add the start and end tokens that the file asks for
	ParseSpecial bool // read the text of a special token as that token, which lets whoever wrote the text use them
}

// New builds a tokenizer. The kinds of vocabulary (Config.Model) are those of GGUF files: "gpt2" is byte-level BPE, "gemma4"
// BPE over characters, "llama" SentencePiece BPE, "t5" SentencePiece unigram, "bert" WordPiece. New fails on a kind or a
// pre-tokeniser that it does not know, naming it and those it does, and on a vocabulary that contradicts itself.
func New(c Config) (*Tokenizer, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	t := &Tokenizer{types: make([]Type, len(c.Tokens)), bos: c.BOS, eos: c.EOS, end: endTokens(&c), fill: fillTokens(&c)}
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
	t.addAdded(&c)
	return t, nil
}

// build makes what depends on the kind of vocabulary.
func (t *Tokenizer) build(c *Config) (err error) {
	spaces := func(dst []byte, id int) []byte {
		if t.types[id] == Byte {
			if b, err := parseByte(c.Tokens[id]); err == nil { // those that are wrong are refused below
				return append(dst, b)
			}
		}
		return appendUnescaped(dst, c.Tokens[id])
	}
	addBOS, addEOS := false, false
	switch c.Model {
	case "gpt2":
		var pre preTokenizer
		if pre, err = preTokenizerOf(c.Pre); err != nil {
			return err
		}
		t.setTexts(c, func(dst []byte, id int) []byte { return appendBytes(dst, c.Tokens[id]) })
		var merges [][2]string
		if merges, err = cutMerges(c.Merges); err != nil {
			return err
		}
		addBOS = pre.addBOS
		t.model, err = newBPE(c.Tokens, func(id int) bool { return mergeable(c.typeOf(id)) }, merges, pre)
	case "gemma4":
		t.setTexts(c, spaces)
		addBOS = true
		t.model, err = gemma4FromGGUF(c)
	case "llama":
		t.setTexts(c, spaces)
		addBOS = true
		t.lead = lead{space: choose(c.AddSpacePrefix, true), again: true}
		t.model, err = newSPM(c)
	case "t5":
		t.setTexts(c, spaces)
		addEOS = true
		t.lead = lead{space: choose(c.AddSpacePrefix, false), again: true}
		t.model, err = t5FromGGUF(c)
	case "bert":
		t.setTexts(c, func(dst []byte, id int) []byte { return append(dst, tidy(string(spaces(nil, id)))...) })
		addBOS, addEOS = true, true
		t.lead.space = true
		t.model, err = bertFromGGUF(c)
	default:
		return fmt.Errorf("tokenizer: vocabularies of kind %q are not supported; supported are gpt2 (byte-level BPE), gemma4 (BPE over characters), "+
			"llama (SentencePiece BPE), t5 (SentencePiece unigram) and bert (WordPiece)", c.Model)
	}
	if err != nil {
		return err
	}
	if choose(c.AddBOS, addBOS) {
		if t.bos == None {
			return fmt.Errorf("tokenizer: the file wants a start token (add_bos_token) but names none; set bos_token_id")
		}
		t.before = []int32{t.bos}
	}
	if choose(c.AddEOS, addEOS) {
		if t.eos == None {
			return fmt.Errorf("tokenizer: the file wants an end token (add_eos_token) but names none; set eos_token_id")
		}
		t.after = []int32{t.eos}
	}
	return nil
}

// setTexts unescapes all tokens of a GGUF file. The text of special and added tokens is never escaped there.
func (t *Tokenizer) setTexts(c *Config, unescape func(dst []byte, id int) []byte) {
	t.fillTexts(c.Tokens, func(dst []byte, id int) []byte {
		switch t.types[id] {
		case Control, Unknown, UserDefined:
			return append(dst, c.Tokens[id]...)
		}
		return unescape(dst, id)
	})
}

// fillTexts sets the text of each token, which text appends.
func (t *Tokenizer) fillTexts(tokens []string, text func(dst []byte, id int) []byte) {
	size := 0
	for _, s := range tokens {
		size += len(s)
	}
	all := make([]byte, 0, size)
	t.ends = make([]uint32, len(tokens))
	for id := range tokens {
		all = text(all, id)
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
			r := a.rules[id]
			r.left = true
			a.rules[id] = r
		}
		for _, id := range c.RStrip {
			r := a.rules[id]
			r.right = true
			a.rules[id] = r
		}
	}
}

// Encode returns the tokens of a text. Any string has tokens; bytes that are not UTF-8 are encoded as bytes.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	ids := make([]int32, 0, len(text)/3+2)
	if o.AddSpecial {
		ids = append(ids, t.before...)
	}
	tokens := t.plain
	if o.ParseSpecial {
		tokens = t.special
	}
	for at := 0; at < len(text); {
		id, start, end := tokens.find(text, at)
		if start > at {
			ids = t.model.encode(ids, stretch{text[at:start], at == 0, o.ParseSpecial})
		}
		if id != None {
			ids = append(ids, id)
		}
		at = end
	}
	if o.AddSpecial {
		ids = append(ids, t.after...)
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
func (t *Tokenizer) AddsBOS() bool { return len(t.before) > 0 && t.before[0] == t.bos }

// AddsEOS tells whether Encode with AddSpecial ends with the end token.
func (t *Tokenizer) AddsEOS() bool { n := len(t.after); return n > 0 && t.after[n-1] == t.eos }
