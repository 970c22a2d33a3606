package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// hfDepth is how deep sequences of components may nest, and hfParts how many components there may be: each reads all of a text.
const (
	hfDepth = 20
	hfParts = 64
)

// component returns the type of a component, "" for none.
func component(raw json.RawMessage, depth int) (string, error) {
	if depth > hfDepth {
		return "", fmt.Errorf("sequences within sequences, %d deep", depth)
	}
	if n := bytes.Count(raw, []byte(`"type"`)); depth == 0 && n > hfParts {
		return "", fmt.Errorf("a sequence of %d components, want at most %d", n, hfParts)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var head struct{ Type *string }
	if err := json.Unmarshal(raw, &head); err != nil {
		return "", err
	}
	if head.Type == nil {
		return "", fmt.Errorf("%.80s has no type", raw)
	}
	return *head.Type, nil
}

// hfPattern is what Split and Replace look for.
type hfPattern struct {
	String *string
	Regex  *string
}

// matcher compiles a pattern.
func (p hfPattern) matcher() (matcher, error) {
	switch {
	case p.String != nil && *p.String != "":
		return literal(*p.String), nil
	case p.Regex != nil:
		r, err := compileRegex(*p.Regex)
		if err != nil {
			return nil, err
		}
		return r.matches, nil
	}
	return nil, fmt.Errorf("a pattern that is neither a text nor a regular expression")
}

// growth returns how many times as long a text can become when content takes the place of what the pattern matches.
func (p hfPattern) growth(content string) int {
	least := 1
	if p.String != nil {
		least = len(*p.String)
	}
	return max(1, (len(content)+least-1)/least)
}

// hfNormalisers builds normalisers.
type hfNormalisers struct {
	growth float64 // how many times as long a text could become
}

// mostGrowth is how many times as long a text may become: a file could ask for replacements of replacements without end.
const mostGrowth = 100_000

// hfNormaliser builds a normaliser; nil if there is none.
func hfNormaliser(raw json.RawMessage) (normaliser, error) {
	return (&hfNormalisers{growth: 1}).build(raw, 0)
}

// grow notes that a component could make a text so many times as long.
func (h *hfNormalisers) grow(times int) error {
	if h.growth *= float64(max(1, times)); h.growth > mostGrowth {
		return fmt.Errorf("with those before it, it could make a text %.3g times as long, want at most %d", h.growth, mostGrowth)
	}
	return nil
}

func (h *hfNormalisers) build(raw json.RawMessage, depth int) (normaliser, error) {
	kind, err := component(raw, depth)
	if err != nil || kind == "" {
		return nil, err
	}
	n, err := h.buildKind(kind, raw, depth)
	if err != nil {
		return nil, fmt.Errorf("normalizer %s: %w", kind, err)
	}
	return n, nil
}

func (h *hfNormalisers) buildKind(kind string, raw json.RawMessage, depth int) (normaliser, error) {
	switch kind {
	case "Sequence":
		var p struct {
			Type        string
			Normalizers []json.RawMessage
		}
		if err := strict(raw, &p); err != nil {
			return nil, err
		}
		var all []normaliser
		for _, raw := range p.Normalizers {
			n, err := h.build(raw, depth+1)
			if err != nil {
				return nil, err
			}
			if n != nil {
				all = append(all, n)
			}
		}
		return inTurn(all), nil
	case "NFC":
		return form(norm.NFC), nil
	case "NFD":
		return form(norm.NFD), nil
	case "NFKC":
		return form(norm.NFKC), nil
	case "NFKD":
		return form(norm.NFKD), nil
	case "Lowercase":
		return lowercase, nil
	case "StripAccents":
		return stripAccents, nil
	case "Strip":
		var q struct {
			Type  string
			Left  bool `json:"strip_left"`
			Right bool `json:"strip_right"`
		}
		err := strict(raw, &q)
		return func(s string) string {
			if q.Left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if q.Right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}, err
	case "Prepend":
		var p struct{ Type, Prepend string }
		if err := strict(raw, &p); err != nil {
			return nil, err
		}
		return func(s string) string {
			if s == "" {
				return s
			}
			return p.Prepend + s
		}, h.grow(1 + len(p.Prepend))
	case "Replace":
		var p struct {
			Type, Content string
			Pattern       hfPattern
		}
		if err := strict(raw, &p); err != nil {
			return nil, err
		}
		m, err := p.Pattern.matcher()
		if err != nil {
			return nil, err
		}
		return func(s string) string { return replace(s, m, p.Content) }, h.grow(p.Pattern.growth(p.Content))
	case "BertNormalizer":
		var p struct {
			Type    string
			Clean   bool  `json:"clean_text"`
			Chinese bool  `json:"handle_chinese_chars"`
			Accents *bool `json:"strip_accents"`
			Lower   bool  `json:"lowercase"`
		}
		err := strict(raw, &p)
		return bertNormaliser{p.Clean, p.Chinese, choose(p.Accents, p.Lower), p.Lower}.normalise, err
	case "Precompiled":
		var p struct {
			Type     string
			Charsmap []byte `json:"precompiled_charsmap"` // base64
		}
		if err := strict(raw, &p); err != nil {
			return nil, err
		}
		c, err := newCharsmap(p.Charsmap)
		if err != nil {
			return nil, err
		}
		return c.graphemes, h.grow(c.longest())
	}
	return nil, fmt.Errorf("not supported; supported are BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Precompiled, Prepend, Replace, Sequence, " +
		"Strip and StripAccents")
}

// replace puts content in the place of what a matcher finds.
func replace(s string, m matcher, content string) string {
	var b strings.Builder
	at := 0
	m(s, func(start, end int) {
		b.WriteString(s[at:start])
		b.WriteString(content)
		at = end
	})
	if at == 0 {
		return s
	}
	b.WriteString(s[at:])
	return b.String()
}

// cutPlan is what a pre-tokeniser does, step by step.
type cutPlan struct {
	steps   []cutStep
	bytes   bool // the model sees bytes
	escaped bool // written in GPT-2's alphabet, for steps that follow
}

// cutStep has either a scanner or a cutter.
type cutStep struct {
	scan scanner
	cut  cutter
}

// cutter makes one cutter of the steps. The model wants bytes as they are if raw, else in GPT-2's alphabet.
func (p *cutPlan) cutter(raw bool) cutter {
	steps := p.steps
	if p.bytes && raw == p.escaped {
		rewrite := escapeBytes
		if raw {
			rewrite = func(s string) string { return string(appendBytes(nil, s)) }
		}
		steps = append(steps, cutStep{cut: func(s string, first bool, emit func(string, bool)) { emit(rewrite(s), first) }})
	}
	var all []cutter
	for i := 0; i < len(steps); {
		if steps[i].cut != nil {
			all = append(all, steps[i].cut)
			i++
			continue
		}
		var chain []scanner
		for ; i < len(steps) && steps[i].scan != nil; i++ {
			chain = append(chain, steps[i].scan)
		}
		all = append(all, scanned(chain...))
	}
	return inSeries(all)
}

func (p *cutPlan) scan(s scanner) { p.add(cutStep{scan: s}) }
func (p *cutPlan) cut(c cutter)   { p.add(cutStep{cut: c}) }

func (p *cutPlan) add(s cutStep) {
	if p.bytes && !p.escaped {
		p.escaped = true
		p.steps = append(p.steps, cutStep{cut: func(s string, first bool, emit func(string, bool)) { emit(escapeBytes(s), first) }})
	}
	p.steps = append(p.steps, s)
}

// hfPreTokenizer reads a pre-tokeniser.
func hfPreTokenizer(raw json.RawMessage) (*cutPlan, error) {
	p := &cutPlan{}
	return p, p.read(raw, 0)
}

func (p *cutPlan) read(raw json.RawMessage, depth int) error {
	kind, err := component(raw, depth)
	if err != nil || kind == "" {
		return err
	}
	if err := p.readOf(kind, raw, depth); err != nil {
		return fmt.Errorf("pre_tokenizer %s: %w", kind, err)
	}
	return nil
}

func (p *cutPlan) readOf(kind string, raw json.RawMessage, depth int) error {
	switch kind {
	case "Sequence":
		var q struct {
			Type          string
			Pretokenizers []json.RawMessage
		}
		if err := strict(raw, &q); err != nil {
			return err
		}
		for _, raw := range q.Pretokenizers {
			if err := p.read(raw, depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		q := struct {
			Type   string
			Prefix bool `json:"add_prefix_space"`
			Trim   bool `json:"trim_offsets"` // of offsets, which we do not have
			Words  bool `json:"use_regex"`
		}{Words: true}
		if err := strict(raw, &q); err != nil {
			return err
		}
		if p.bytes {
			return fmt.Errorf("it comes twice")
		}
		switch {
		case q.Prefix:
			p.cut(byteLevel(true, q.Words))
		case q.Words:
			p.scan(gpt2())
		}
		p.bytes = true
		return nil
	case "Split":
		return p.readSplit(raw)
	case "Digits":
		var q struct {
			Type string
			Each bool `json:"individual_digits"`
		}
		if err := strict(raw, &q); err != nil {
			return err
		}
		most := 0
		if q.Each {
			most = 1
		}
		p.scan(isolate(run(number, most)))
		return nil
	case "Punctuation":
		q := struct{ Type, Behavior string }{Behavior: isolated}
		if err := strict(raw, &q); err != nil {
			return err
		}
		if err := knownBehaviour(q.Behavior); err != nil {
			return err
		}
		p.cut(each(bertPunctuation).cutAt(q.Behavior, false))
		return nil
	case "CharDelimiterSplit":
		var q struct{ Type, Delimiter string }
		if err := strict(raw, &q); err != nil {
			return err
		}
		if utf8.RuneCountInString(q.Delimiter) != 1 {
			return fmt.Errorf("delimiter %q, want one character", q.Delimiter)
		}
		p.cut(literal(q.Delimiter).cutAt(removed, false))
		return nil
	case "Metaspace":
		m, err := readMetaspace(raw)
		if err != nil {
			return err
		}
		p.cut(m.cut)
		return nil
	case "Whitespace":
		p.cut(whitespace)
		return nil
	case "WhitespaceSplit":
		p.cut(whitespaceSplit)
		return nil
	case "BertPreTokenizer":
		p.cut(bertCut)
		return nil
	}
	return fmt.Errorf("not supported; supported are BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Sequence, Split, " +
		"Whitespace and WhitespaceSplit")
}

func (p *cutPlan) readSplit(raw json.RawMessage) error {
	var q struct {
		Type, Behavior string
		Pattern        hfPattern
		Invert         bool
	}
	if err := strict(raw, &q); err != nil {
		return err
	}
	if err := knownBehaviour(q.Behavior); err != nil {
		return err
	}
	if q.Pattern.Regex != nil {
		// Dropping what is not matched drops nothing where the pattern matches all of any text.
		k, ok := knownPatterns[*q.Pattern.Regex]
		if ok && (q.Behavior == isolated && !q.Invert || q.Behavior == removed && q.Invert && k.whole) {
			p.scan(k.scanner())
			return nil
		}
	}
	m, err := q.Pattern.matcher()
	if err != nil {
		return err
	}
	p.cut(m.cutAt(q.Behavior, q.Invert))
	return nil
}

func knownBehaviour(b string) error {
	switch b {
	case removed, isolated, mergedWithPrevious, mergedWithNext, contiguous:
		return nil
	}
	return fmt.Errorf("behavior %q is not supported", b)
}

// readMetaspace reads the component that is a pre-tokeniser and a decoder.
func readMetaspace(raw json.RawMessage) (metaspace, error) {
	q := struct {
		Type    string
		Mark    string `json:"replacement"`
		Text    string `json:"str_rep"` // the same, in old files
		Prefix  *bool  `json:"add_prefix_space"`
		Scheme  string `json:"prepend_scheme"`
		Divides bool   `json:"split"`
	}{Divides: true}
	if err := strict(raw, &q); err != nil {
		return metaspace{}, err
	}
	if q.Scheme == "" {
		q.Scheme = "always"
		if !choose(q.Prefix, true) {
			q.Scheme = "never"
		}
	}
	if q.Scheme != "always" && q.Scheme != "first" && q.Scheme != "never" {
		return metaspace{}, fmt.Errorf("prepend_scheme %q is not supported", q.Scheme)
	}
	if utf8.RuneCountInString(q.Mark) != 1 {
		return metaspace{}, fmt.Errorf("replacement %q, want one character", q.Mark)
	}
	return metaspace{q.Mark, q.Scheme, q.Divides}, nil
}

// The parts of the patterns in knownPatterns.
const (
	patternEnding = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	patternSpaces = `\s*[\r\n]+|\s+(?!\S)|\s+`
	patternUpper  = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	patternLower  = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
)

// knownPattern is a regular expression that has a scanner.
type knownPattern struct {
	scanner func() scanner
	whole   bool // it matches all of any text
}

// knownPatterns are the regular expressions of the families we know.
var knownPatterns = func() map[string]knownPattern {
	m := map[string]knownPattern{
		`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: {gpt2, true},

		// Qwen 3.5
		patternEnding + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + patternSpaces: {words{digits: 1, letter: letter | mark}.scanner, true},

		// DeepSeek V3, after its numbers and Chinese
		`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` + patternSpaces: {
			func() scanner { return isolate(deepseekV3Word) }, false},
	}
	for digits, most := range map[string]int{`\p{N}`: 1, `\p{N}{1,3}`: 3} {
		// Qwen 2 and 3; Llama 3, GLM 4, SmolLM 3
		m[patternEnding+`|[^\r\n\p{L}\p{N}]?\p{L}+|`+digits+`| ?[^\s\p{L}\p{N}]+[\r\n]*|`+patternSpaces] = knownPattern{words{digits: most, letter: letter}.scanner, true}
		// gpt-oss has the endings, Mistral's Tekken has not
		for ending, suffix := range map[string]bool{patternEnding + "?": true, "": false} {
			m[`[^\r\n\p{L}\p{N}]?`+patternUpper+"*"+patternLower+"+"+ending+`|[^\r\n\p{L}\p{N}]?`+patternUpper+"+"+patternLower+"*"+ending+"|"+
				digits+`| ?[^\s\p{L}\p{N}]+[\r\n/]*|`+patternSpaces] = knownPattern{casedWords{digits: most, suffix: suffix}.scanner, true}
		}
	}
	return m
}()
