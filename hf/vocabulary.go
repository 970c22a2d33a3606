package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"memra/tokenizer"
)

// maxTokenizer bounds tokenizer.json: the largest have 35 MB.
const maxTokenizer = 256 << 20

// vocab is a vocabulary on its way to metadata.
type vocab struct {
	kind   string // tokenizer.ggml.model
	pre    string
	tokens []string
	types  []tokenizer.Type
	scores []float32
	merges []string
	prefix *bool // a text gets a space in front
}

// tokenizerJSON is what is read of tokenizer.json.
type tokenizerJSON struct {
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Model         struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       json.RawMessage `json:"merges"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
		UnkToken     *string         `json:"unk_token"`
		Prefix       *string         `json:"continuing_subword_prefix"`
		Suffix       *string         `json:"end_of_word_suffix"`
	} `json:"model"`
}

type addedToken struct {
	ID      int    `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// component is a part of tokenizer.json: a normaliser, a pre-tokeniser, a post-processor.
type component struct {
	Type           string      `json:"type"`
	Normalizers    []component `json:"normalizers"`
	Pretokenizers  []component `json:"pretokenizers"`
	Processors     []component `json:"processors"`
	Prepend        string      `json:"prepend"`
	Content        string      `json:"content"`
	Pattern        pattern     `json:"pattern"`
	Behavior       string      `json:"behavior"`
	Invert         bool        `json:"invert"`
	Individual     bool        `json:"individual_digits"`
	AddPrefixSpace bool        `json:"add_prefix_space"`
	UseRegex       *bool       `json:"use_regex"`
	PrependScheme  string      `json:"prepend_scheme"`
	Split          *bool       `json:"split"`
	Single         []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
}

type pattern struct {
	String string `json:"String"`
	Regex  string `json:"Regex"`
}

// flat returns the component's parts in order, or the component itself.
func (c *component) flat() []component {
	if c == nil {
		return nil
	}
	if c.Type != "Sequence" {
		return []component{*c}
	}
	var out []component
	for _, part := range slices.Concat(c.Normalizers, c.Pretokenizers, c.Processors) {
		out = append(out, part)
	}
	return out
}

// vocabulary reads a folder's tokenizer and sets GGUF's keys.
func vocabulary(folder string, t *translation) error {
	config, err := maybeObject(folder, "tokenizer_config.json", t.faults)
	if err != nil {
		return err
	}
	var file tokenizerJSON
	path := filepath.Join(folder, "tokenizer.json")
	data, err := readFile(path, maxTokenizer)
	whole := err == nil
	switch {
	case whole:
		if err := json.Unmarshal(data, &file); err != nil {
			return fmt.Errorf("hf: %s: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		file.AddedTokens = decoderTokens(config)
	}
	var v *vocab
	switch m := &file.Model; {
	case t.family.characters && whole && m.Type == "BPE" && m.ByteFallback:
		v, err = characters(path, &file)
	case !whole || m.Type == "BPE" && m.ByteFallback:
		v, err = sentencePiece(folder, path, &file, whole)
	case m.Type == "BPE":
		v, err = byteLevel(path, &file)
	default:
		err = fmt.Errorf("hf: %s: model: found the type %q, want BPE", path, clip(m.Type))
	}
	if err != nil {
		return err
	}
	if err := v.add(path, file.AddedTokens, t.int("vocab_size", len(v.tokens))); err != nil {
		return err
	}
	if t.family.characters {
		v.show(visible)
	}
	v.set(t)
	return t.special(folder, config, &file, v)
}

// decoderTokens reads the added tokens from tokenizer_config.json, for folders without tokenizer.json.
func decoderTokens(config object) []addedToken {
	var out []addedToken
	list := config.object("added_tokens_decoder")
	for key := range list.value {
		o := list.object(key)
		id, ok := toInt(json.Number(key))
		if !ok {
			list.fail(clip(key), "want a token's id")
			continue
		}
		out = append(out, addedToken{id, o.text("content", ""), o.bool("special", false)})
	}
	slices.SortFunc(out, func(a, b addedToken) int { return a.ID - b.ID })
	return out
}

// byId lists a vocabulary's texts by id; ids that no text has are empty.
func byID(texts map[string]int) ([]string, error) {
	tokens := make([]string, len(texts))
	for text, id := range texts {
		if id < 0 || id >= 2*len(texts)+1<<16 {
			return nil, fmt.Errorf("token %q has the id %d, want 0 to about %d, the size of the vocabulary", clip(text), id, len(texts))
		}
		for id >= len(tokens) {
			tokens = append(tokens, "")
		}
		if tokens[id] != "" {
			return nil, fmt.Errorf("tokens %q and %q have the same id %d", clip(tokens[id]), clip(text), id)
		}
		tokens[id] = text
	}
	return tokens, nil
}

// byteLevel is BPE over bytes, as GPT-2, Llama 3 and Qwen have it.
func byteLevel(path string, file *tokenizerJSON) (*vocab, error) {
	m := &file.Model
	fail := func(format string, args ...any) (*vocab, error) {
		return nil, fmt.Errorf("hf: %s: "+format, append([]any{path}, args...)...)
	}
	if m.Prefix != nil && *m.Prefix != "" || m.Suffix != nil && *m.Suffix != "" {
		return fail("model: marks of parts of words (continuing_subword_prefix, end_of_word_suffix) are not supported")
	}
	for _, n := range file.Normalizer.flat() {
		if n.Type != "NFC" {
			return fail("normalizer: found %q, want none, or NFC", clip(n.Type))
		}
	}
	v := &vocab{kind: "gpt2"}
	var err error
	if v.pre, err = preName(file.PreTokenizer.flat(), m.IgnoreMerges); err != nil {
		return fail("pre_tokenizer: %w", err)
	}
	texts := map[string]int{}
	if err := json.Unmarshal(m.Vocab, &texts); err != nil {
		return fail("model: vocab: %w", err)
	}
	if v.tokens, err = byID(texts); err != nil {
		return fail("model: vocab: %w", err)
	}
	pairs, err := merges(m.Merges)
	if err != nil {
		return fail("model: merges: %w", err)
	}
	for _, p := range pairs {
		v.merges = append(v.merges, p[0]+" "+p[1])
	}
	v.types = make([]tokenizer.Type, len(v.tokens))
	for id := range v.types {
		v.types[id] = tokenizer.Normal
	}
	return v, nil
}

// merges reads both forms of merges: "a b" and ["a", "b"].
func merges(data json.RawMessage) ([][2]string, error) {
	var pairs [][2]string
	if json.Unmarshal(data, &pairs) == nil {
		return pairs, nil
	}
	var lines []string
	if err := json.Unmarshal(data, &lines); err != nil {
		return nil, fmt.Errorf("want an array of pairs, or of texts with a space between two parts: %w", err)
	}
	pairs = make([][2]string, len(lines))
	for i, line := range lines {
		left, right, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(right, " ") {
			return nil, fmt.Errorf("merge %d is %q, want two parts with a space between", i, clip(line))
		}
		pairs[i] = [2]string{left, right}
	}
	return pairs, nil
}

// add puts the added tokens in, and fills the vocabulary up to the rows of the embedding.
func (v *vocab) add(path string, added []addedToken, size int) error {
	for len(v.tokens) < size {
		v.tokens = append(v.tokens, "")
		v.types = append(v.types, tokenizer.Unused)
		if v.scores != nil {
			v.scores = append(v.scores, -10000)
		}
	}
	for _, a := range added {
		if a.ID < 0 || a.ID >= len(v.tokens) {
			return fmt.Errorf("hf: %s: added token %q has the id %d, but the model has %d tokens", path, clip(a.Content), a.ID, len(v.tokens))
		}
		text, kind := a.Content, tokenizer.Control
		if !a.Special && !looksSpecial(text) {
			text, kind = strings.ReplaceAll(text, "\u2581", " "), tokenizer.UserDefined
		}
		if v.types[a.ID] == tokenizer.Unknown {
			kind = tokenizer.Unknown
		}
		v.tokens[a.ID], v.types[a.ID] = text, kind
		if v.scores != nil {
			v.scores[a.ID] = -1000
		}
	}
	for id, text := range v.tokens {
		if text == "" {
			v.tokens[id], v.types[id] = fmt.Sprintf("[PAD%d]", id), tokenizer.Unused
		}
	}
	return nil
}

// looksSpecial reports whether an added token is a mark for the model though its file does not say so, as converters judge.
func looksSpecial(text string) bool {
	between := func(open, end string) bool { return strings.HasPrefix(text, open) && strings.HasSuffix(text, end) }
	return slices.Contains([]string{"<pad>", "<mask>", "<2mass>", "[@BOS@]"}, text) ||
		between("<|", "|>") || between("<｜", "｜>") || between("<unused", ">")
}

// set writes the vocabulary's keys.
func (v *vocab) set(t *translation) {
	const key = "tokenizer.ggml."
	types := make([]int32, len(v.types))
	for i, y := range v.types {
		types[i] = int32(y)
	}
	t.meta.Set(key+"model", v.kind)
	if v.pre != "" {
		t.meta.Set(key+"pre", v.pre)
	}
	t.meta.Set(key+"tokens", v.tokens)
	if v.scores != nil {
		t.meta.Set(key+"scores", v.scores)
	}
	t.meta.Set(key+"token_type", types)
	if v.merges != nil {
		t.meta.Set(key+"merges", v.merges)
	}
	if v.prefix != nil {
		t.meta.Set(key+"add_space_prefix", *v.prefix)
	}
}
