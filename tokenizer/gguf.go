package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"memra/gguf"
)

// FromGGUF builds the tokenizer of a model file.
func FromGGUF(m *gguf.Metadata) (*Tokenizer, error) {
	c, err := configFromGGUF(m)
	if err != nil {
		return nil, err
	}
	return New(c)
}

const keys = "tokenizer.ggml."

// configFromGGUF reads the vocabulary that a file describes.
func configFromGGUF(m *gguf.Metadata) (Config, error) {
	var r reader
	name := strings.ToLower(maybe(&r, m.String, "general.name"))
	c := Config{
		Model:  need(&r, m.String, keys+"model"),
		Pre:    maybe(&r, m.String, keys+"pre"),
		Tokens: need(&r, m.Strings, keys+"tokens"),
		Types:  types(maybe(&r, m.Ints, keys+"token_type")),
		Scores: float32s(maybe(&r, m.Floats, keys+"scores")),
		Merges: maybe(&r, m.Strings, keys+"merges"),

		BOS: id(&r, m, "bos"), EOS: id(&r, m, "eos"), EOT: id(&r, m, "eot"), EOM: id(&r, m, "eom"),
		UNK: id(&r, m, "unknown"),
		Fill: &Fill{ // older files have other keys for them
			Prefix: or(id(&r, m, "fim_pre"), id(&r, m, "prefix")),
			Suffix: or(id(&r, m, "fim_suf"), id(&r, m, "suffix")),
			Middle: or(id(&r, m, "fim_mid"), id(&r, m, "middle")),
		},

		AddBOS:         flag(&r, m, "add_bos_token"),
		AddEOS:         flag(&r, m, "add_eos_token"),
		AddSpacePrefix: flag(&r, m, "add_space_prefix"),

		RemoveExtraSpaces: flag(&r, m, "remove_extra_whitespaces"),
		Lowercase:         flag(&r, m, "normalizer.lowercase"),
		StripAccents:      flag(&r, m, "normalizer.strip_accents"),
	}
	for _, b := range maybe(&r, m.Ints, keys+"precompiled_charsmap") {
		c.Charsmap = append(c.Charsmap, byte(b))
	}
	if c.Model == "bert" { // its start and end tokens have names of their own; one is misspelt
		c.BOS, c.EOS = or(id(&r, m, "cls"), c.BOS), or(id(&r, m, "seperator"), c.EOS)
	}
	if r.err != nil {
		return Config{}, fmt.Errorf("tokenizer: %w", r.err)
	}
	if c.Model == "llama" {
		sentencePieceIDs(&c)
	}
	if strings.Contains(name, "phi-3") || strings.Contains(name, "phi3") {
		phi3(&c)
	}
	return c, nil
}

// sentencePieceIDs sets the ids that SentencePiece gives <unk>, <s> and </s>, where an old converter left them out.
func sentencePieceIDs(c *Config) {
	for i, s := range []struct {
		id   *int32
		text string
	}{{&c.UNK, "<unk>"}, {&c.BOS, "<s>"}, {&c.EOS, "</s>"}} {
		if *s.id == None && i < len(c.Tokens) && c.Tokens[i] == s.text {
			*s.id = int32(i)
		}
	}
}

// phi3 marks Phi-3's added tokens, which swallow the white space after them; GGUF has no key for that.
func phi3(c *Config) {
	for id, s := range c.Tokens {
		switch y := c.typeOf(id); {
		case y != Control && y != UserDefined:
		case s == "<unk>" || s == "<s>" || s == "<|endoftext|>":
		default:
			c.RStrip = append(c.RStrip, int32(id))
		}
	}
}

// reader keeps the first error of several reads.
type reader struct{ err error }

func need[T any](r *reader, get func(key string) (T, error), key string) T {
	v, err := get(key)
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

// maybe reads a key that may be absent; then it returns the zero value.
func maybe[T any](r *reader, get func(key string) (T, error), key string) T {
	v, err := get(key)
	if err != nil && !errors.Is(err, gguf.ErrNoKey) && r.err == nil {
		r.err = err
	}
	return v
}

// id reads the id of a special token, None if the file has none.
func id(r *reader, m *gguf.Metadata, name string) int32 {
	key := keys + name + "_token_id"
	if _, ok := m.Get(key); !ok {
		return None
	}
	v := need(r, m.Int, key)
	if v < 0 || v > math.MaxInt32 {
		if v == math.MaxUint32 || v == -1 { // how writers say none
			return None
		}
		if r.err == nil {
			r.err = fmt.Errorf("%s is %d, which is no token id; convert again", key, v)
		}
		return None
	}
	return int32(v)
}

// or returns the first id unless it is None.
func or(id, other int32) int32 {
	if id != None {
		return id
	}
	return other
}

func flag(r *reader, m *gguf.Metadata, name string) *bool {
	if _, ok := m.Get(keys + name); !ok {
		return nil
	}
	v := need(r, m.Bool, keys+name)
	return &v
}

func types(v []int) []Type {
	if v == nil {
		return nil
	}
	t := make([]Type, len(v))
	for i, x := range v {
		t[i] = Type(x)
	}
	return t
}

func float32s(v []float64) []float32 {
	if v == nil {
		return nil
	}
	f := make([]float32, len(v))
	for i, x := range v {
		f[i] = float32(x)
	}
	return f
}
