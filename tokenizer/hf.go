package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// HFFiles are the files of a Hugging Face folder that describe its tokenizer.
type HFFiles struct {
	Tokenizer     []byte // tokenizer.json: the tokenizer itself
	Config        []byte // tokenizer_config.json: names of start and end tokens, more added tokens; nil if there is none
	SpecialTokens []byte // special_tokens_map.json: such names in older folders; nil if there is none
	Generation    []byte // generation_config.json, or config.json where there is none: more end tokens; nil if there is neither
}

// OpenHF reads the tokenizer of a Hugging Face folder.
func OpenHF(folder string) (*Tokenizer, error) {
	var f HFFiles
	for _, file := range []struct {
		name string
		data *[]byte
	}{{"tokenizer.json", &f.Tokenizer}, {"tokenizer_config.json", &f.Config}, {"special_tokens_map.json", &f.SpecialTokens},
		{"generation_config.json", &f.Generation}, {"config.json", &f.Generation}} {
		if *file.data != nil {
			continue
		}
		data, err := readFile(filepath.Join(folder, file.name))
		switch {
		case err == nil:
			*file.data = data
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("tokenizer: %w", err)
		case file.data == &f.Tokenizer:
			return nil, fmt.Errorf("tokenizer: %s has no tokenizer.json; save the tokenizer with AutoTokenizer.from_pretrained(..).save_pretrained(..)", folder)
		}
	}
	t, err := FromHF(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return t, nil
}

// mostFile bounds the files, in bytes: the largest known have 60 MB.
const mostFile = 256 << 20

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostFile {
		return nil, fmt.Errorf("%s: found a %s of %d bytes, want a regular file of at most %d", path, info.Mode().Type(), info.Size(), mostFile)
	}
	return os.ReadFile(path)
}

// FromHF builds the tokenizer that a Hugging Face folder describes. A component, a parameter or a regular expression that is
// not known here is refused by name.
func FromHF(f HFFiles) (*Tokenizer, error) {
	t, err := newHF(f)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %s", strings.TrimPrefix(err.Error(), "tokenizer: "))
	}
	return t, nil
}

// hfAdded is an added token.
type hfAdded struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// mostAdded bounds added tokens: known files have up to 6,500.
const mostAdded = 100_000

// newHF reads the parts of tokenizer.json in turn. How batches are filled and cut (padding, truncation) is the caller's affair.
func newHF(f HFFiles) (*Tokenizer, error) {
	if !json.Valid(f.Tokenizer) {
		return nil, json.Unmarshal(f.Tokenizer, new(any)) // says where
	}
	file, err := windows(f.Tokenizer)
	if err != nil {
		return nil, err
	}
	var added []hfAdded
	if raw, ok := file["added_tokens"]; ok {
		if n := bytes.Count(raw, []byte(`"content"`)); n > mostAdded {
			return nil, fmt.Errorf("%d added tokens, want at most %d", n, mostAdded)
		}
		if err := json.Unmarshal(raw, &added); err != nil {
			return nil, fmt.Errorf("added_tokens: %w", err)
		}
	}
	config, err := readHFConfig(f)
	if err != nil {
		return nil, err
	}
	vocab, err := readHFVocab(file["model"], append(added, config.added...))
	if err != nil {
		return nil, err
	}
	normalise, err := hfNormaliser(file["normalizer"])
	if err != nil {
		return nil, err
	}
	plan, err := hfPreTokenizer(file["pre_tokenizer"])
	if err != nil {
		return nil, err
	}
	decode, err := hfDecoder(file["decoder"])
	if err != nil {
		return nil, err
	}
	model, err := vocab.model(plan)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{types: vocab.types, lead: decode.lead, bos: None, eos: None}
	if decode.bytes {
		vocab.markBytes()
	}
	t.fillTexts(vocab.tokens, vocab.decoded(decode, normalise))
	p := newPipeline(normalise, plan.cutter(vocab.byteLevel), model)
	t.model = p
	t.addHFAdded(vocab, p)
	if t.bos, err = vocab.named("bos_token", config.bos); err != nil {
		return nil, err
	}
	if t.eos, err = vocab.named("eos_token", config.eos); err != nil {
		return nil, err
	}
	t.end = endTokens(&Config{Tokens: vocab.tokens, Types: vocab.types, EOS: t.eos, EOT: None, EOM: None})
	for _, id := range config.ends {
		t.end[id] = true
	}
	t.fill = fillTokens(&Config{Tokens: vocab.tokens})
	post := file["post_processor"]
	if t.before, t.after, err = hfPostProcessor(post, t.Vocab()); err != nil {
		return nil, err
	}
	if len(post) == 0 || string(post) == "null" { // else it alone decides, as in transformers
		if config.addBOS && t.bos != None {
			t.before = []int32{t.bos}
		}
		if config.addEOS && t.eos != None {
			t.after = []int32{t.eos}
		}
	}
	return t, nil
}

// addHFAdded sets which added tokens are found where: those that are not normalised in the text as it is, the others
// afterwards, in what is left of it once that is normalised.
func (t *Tokenizer) addHFAdded(v *hfVocab, p *pipeline) {
	t.plain, t.special = newAdded(), newAdded()
	p.plain, p.special = newAdded(), newAdded()
	for _, a := range v.added {
		plain, special, text := t.plain, t.special, a.Content
		if a.Normalized {
			plain, special = p.plain, p.special
			if p.normalise != nil {
				text = p.normalise(text)
			}
		}
		for _, to := range []*added{plain, special} {
			if to == special || !a.Special {
				to.insert(text, int32(a.ID))
				to.rules[int32(a.ID)] = rule{left: a.LStrip, right: a.RStrip, word: a.SingleWord}
			}
		}
	}
	if p.plain.empty() {
		p.plain = nil
	}
	if p.special.empty() {
		p.special = nil
	}
}

// hfConfig is what the other files say.
type hfConfig struct {
	bos, eos       string // "" for none
	addBOS, addEOS bool   // where there is no post-processor
	added          []hfAdded
	ends           hfIDs // more end tokens
}

func readHFConfig(f HFFiles) (c hfConfig, err error) {
	type names struct {
		BOS   hfName             `json:"bos_token"`
		EOS   hfName             `json:"eos_token"`
		Added map[string]hfAdded `json:"added_tokens_decoder"`

		AddBOS bool `json:"add_bos_token"`
		AddEOS bool `json:"add_eos_token"`
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{"special_tokens_map.json", f.SpecialTokens}, {"tokenizer_config.json", f.Config}} {
		if file.data == nil {
			continue
		}
		var n names
		if err := json.Unmarshal(file.data, &n); err != nil {
			return c, fmt.Errorf("%s: %w", file.name, err)
		}
		if n.BOS != "" {
			c.bos = string(n.BOS)
		}
		if n.EOS != "" {
			c.eos = string(n.EOS)
		}
		c.addBOS, c.addEOS = c.addBOS || n.AddBOS, c.addEOS || n.AddEOS
		if c.added, err = sortedAdded(n.Added); err != nil {
			return c, fmt.Errorf("%s: added_tokens_decoder: %w", file.name, err)
		}
	}
	if f.Generation != nil {
		var g struct {
			EOS hfIDs `json:"eos_token_id"`
		}
		if err := json.Unmarshal(f.Generation, &g); err != nil {
			return c, fmt.Errorf("generation_config.json: %w", err)
		}
		c.ends = g.EOS
	}
	return c, nil
}

// hfIDs is an id, several, or null.
type hfIDs []int32

func (ids *hfIDs) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]int32)(ids))
	}
	var one *int32
	err := json.Unmarshal(data, &one)
	if one != nil {
		*ids = hfIDs{*one}
	}
	return err
}

// hfName is the name of a token: a string, an added token, or null.
type hfName string

func (n *hfName) UnmarshalJSON(data []byte) error {
	var token struct{ Content string }
	if len(data) > 0 && data[0] == '{' {
		err := json.Unmarshal(data, &token)
		*n = hfName(token.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(n))
}
