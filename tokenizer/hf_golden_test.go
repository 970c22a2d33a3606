package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// hfGolden is a tokenizer, and what Hugging Face's library makes of texts; tools/oracle/tokenizers_hf.py writes it.
type hfGolden struct {
	Files map[string]json.RawMessage
	Hash  []byte               // a u16 for each text
	Full  []json.RawMessage    // of every 100th text
	full  func(i int) fullCase // of text i*100
}

// fullCase is tokens of a text read as text, its tokens as a prompt, and what those decode to.
type fullCase struct {
	plain, prompt []int32
	text          string
}

func readHFGolden(t testing.TB, name string) *hfGolden {
	g := golden[hfGolden](t, "hf/"+name+".json.gz")
	g.full = func(i int) (c fullCase) {
		parts := []any{&c.plain, &c.prompt, &c.text}
		if err := json.Unmarshal(g.Full[i], &parts); err != nil {
			t.Fatal(err)
		}
		return c
	}
	return &g
}

func (g *hfGolden) open(t testing.TB) *Tokenizer {
	tok, err := FromHF(HFFiles{Tokenizer: g.Files["tokenizer.json"], Config: g.Files["tokenizer_config.json"]})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// hfTexts makes the texts that the goldens are about: up to 24 picks from one table, or each from any, some repeated, some
// followed by a space.
var hfTexts = sync.OnceValue(func() []string {
	var t testing.T
	tables := golden[[][]string](&t, "hf/parts.json.gz")
	texts := make([]string, 10_000)
	for i := range texts {
		x := uint32(i)*2654435761 + 12345
		draw := func(n int) int {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			return int(x % uint32(n))
		}
		mode := draw(len(tables) + 5)
		var b strings.Builder
		for range 1 + draw(24) {
			table := mode
			if mode >= len(tables) {
				table = draw(len(tables))
			}
			pick, times := tables[table][draw(len(tables[table]))], 1
			if draw(8) == 0 {
				times = 1 + draw(20)
			}
			b.WriteString(strings.Repeat(pick, times))
			if draw(4) == 0 {
				b.WriteByte(' ')
			}
		}
		texts[i] = b.String()
	}
	return texts
})

// lossless are the kinds that give back all bytes.
var lossless = map[string]bool{"gpt2": true, "llama3": true, "gpt-oss": true, "tekken": true, "deepseek-v3": true, "cl100k": true, "smollm": true, "falcon": true}

// hfTokenizers opens all tokenizers of testdata/hf, by name.
func hfTokenizers(t testing.TB) map[string]*Tokenizer {
	toks := map[string]*Tokenizer{}
	paths, err := filepath.Glob("testdata/hf/*.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		if name == "parts" || name == "sentencepiece" {
			continue
		}
		if g := readHFGolden(t, name); g.Files != nil {
			toks[name] = g.open(t)
		}
	}
	return toks
}

func hash16(plain, prompt []int32) uint16 {
	h := uint32(2166136261)
	for _, id := range slices.Concat(plain, []int32{-1}, prompt) {
		for _, b := range binary.LittleEndian.AppendUint32(nil, uint32(id)) {
			h = (h ^ uint32(b)) * 16777619
		}
	}
	return uint16(h ^ h>>16)
}

// TestTokenizersAgreeWithHuggingFace compares 10,000 texts for every kind of tokenizer.json.
func TestTokenizersAgreeWithHuggingFace(t *testing.T) {
	paths, err := filepath.Glob("testdata/hf/*.json.gz")
	if err != nil || len(paths) < 20 {
		t.Fatal(len(paths), "goldens", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		if name == "parts" || name == "sentencepiece" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := readHFGolden(t, name)
			if g.Files != nil {
				g.compare(t, g.open(t), Options{AddSpecial: true, ParseSpecial: true})
				return
			}
			path := filepath.Join(vocabFolder, "ggml-vocab-"+name+".gguf")
			if file, ok := map[string]string{"smollm2": realModels["bpe"], "gemma3": realModels["spm"]}[name]; ok {
				path = modelPath(t, file)
			}
			g.compare(t, openVocab(t, path, ""), Options{ParseSpecial: true})
		})
	}
}

func (g *hfGolden) compare(t *testing.T, tok *Tokenizer, prompt Options) {
	wrong := 0
	for i, text := range hfTexts() {
		if i%thin != 0 {
			continue
		}
		plain, special := tok.Encode(text, Options{}), tok.Encode(text, prompt)
		if i%100 == 0 {
			want := g.full(i / 100)
			if got := tok.Decode(special); g.Files != nil && got != want.text {
				t.Errorf("text %d, %q decodes to\n %q, want\n %q", i, text, got, want.text)
			}
			if !slices.Equal(plain, want.plain) || !slices.Equal(special, want.prompt) {
				t.Errorf("text %d, %q:\n got %v\nwant %v\nand as a prompt\n got %v\nwant %v", i, text, plain, want.plain, special, want.prompt)
			}
		}
		if got, want := hash16(plain, special), binary.LittleEndian.Uint16(g.Hash[2*i:]); got != want {
			if wrong++; wrong <= 3 {
				t.Errorf("text %d, %q has other tokens: %v", i, text, plain)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d texts have other tokens", wrong, len(hfTexts()))
	}
}

// TestByteLevelTokenizersGiveBackAllBytes holds for texts that Hugging Face's library cannot be asked about, too.
func TestByteLevelTokenizersGiveBackAllBytes(t *testing.T) {
	for name := range lossless {
		tok := readHFGolden(t, name).open(t)
		for i, text := range hfTexts()[:2000/thin] {
			if i%2 == 0 && len(text) > 2 { // no longer UTF-8
				text = text[1:len(text)-1] + "\xff" + text[:len(text)/2] + "\xf0\x9f"
			}
			var raw []byte
			ids := tok.Encode(text, Options{})
			for _, id := range ids {
				raw = append(raw, tok.Piece(id)...)
			}
			if got := string(raw); got != text && !strings.Contains(text, "<tool>") { // which swallows white space
				t.Errorf("%s: %q comes back as %q", name, text, got)
			}
			if utf8.ValidString(text) && tok.Decode(ids) != string(raw) {
				t.Errorf("%s: %q decodes to %q", name, text, tok.Decode(ids))
			}
		}
	}
}

// TestUnigramVocabulariesOfGGUFGiveSentencePiecesTokens compares 10,000 texts, invalid ones aside.
func TestUnigramVocabulariesOfGGUFGiveSentencePiecesTokens(t *testing.T) {
	g := golden[struct {
		Config Config
		Hash   []byte
	}](t, "hf/sentencepiece.json.gz")
	tok, err := New(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i, text := range hfTexts() {
		if i%thin != 0 {
			continue
		}
		got := tok.Encode(text, Options{})
		if hash16(got, nil) != binary.LittleEndian.Uint16(g.Hash[2*i:]) {
			if wrong++; wrong <= 5 {
				t.Errorf("text %d, %q has other tokens: %v", i, text, got)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d texts have other tokens", wrong, len(hfTexts()))
	}
}

// TestGemma4IsBPEOverCharacters makes a vocabulary of that kind of a tokenizer.json. Only line breaks, which GGUF's merges cannot
// have, are another matter.
func TestGemma4IsBPEOverCharacters(t *testing.T) {
	g := readHFGolden(t, "gemma")
	var file struct {
		Model struct {
			Vocab  map[string]int32
			Merges [][2]string
		}
	}
	if err := json.Unmarshal(g.Files["tokenizer.json"], &file); err != nil {
		t.Fatal(err)
	}
	c := absent()
	c.Model, c.UNK, c.BOS = "gemma4", 0, 1
	c.Tokens, c.Types = make([]string, len(file.Model.Vocab)), make([]Type, len(file.Model.Vocab))
	for text, id := range file.Model.Vocab {
		c.Tokens[id], c.Types[id] = text, Normal
		if _, err := parseByte(text); err == nil {
			c.Types[id] = Byte
		}
	}
	c.Types[0], c.Types[1], c.Types[2] = Unknown, Control, Control
	for _, m := range file.Model.Merges {
		if !strings.Contains(m[0]+m[1], "\n") {
			c.Merges = append(c.Merges, m[0]+" "+m[1])
		}
	}
	tok, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	want := g.open(t)
	compared := 0
	for _, text := range hfTexts() {
		ids := want.Encode(text, Options{})
		if strings.Contains(text, "\n") || strings.Contains(text, "word") || slices.ContainsFunc(ids, func(id int32) bool { return int(id) >= len(c.Tokens) }) {
			continue
		}
		if compared++; compared%thin != 0 {
			continue
		}
		if got := tok.Encode(text, Options{}); !slices.Equal(got, ids) {
			t.Fatalf("%q is %v, want %v", text, got, ids)
		}
	}
	if compared < 5000 {
		t.Errorf("only %d texts compared", compared)
	}
	breaks := c
	breaks.Tokens = append(slices.Clone(c.Tokens), "\n\n\n")
	breaks.Types = append(slices.Clone(c.Types), Normal)
	if tok, err = New(breaks); err != nil {
		t.Fatal(err)
	}
	if ids := tok.Encode("a\n\n\nb", Options{}); len(ids) != 3 || int(ids[1]) != len(c.Tokens) {
		t.Errorf("three line breaks, which are a token, are %v", ids)
	}
}
