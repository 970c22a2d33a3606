package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// hfDecoding is what a decoder does to each token, and to the first.
type hfDecoding struct {
	text  func(dst []byte, token string) []byte
	lead  lead
	bytes bool // <0xXX> is a byte
	level bool // text is spelled in GPT-2's alphabet
}

// decoded returns what appends the text of a token. A special token stands for the text by which prompts have it. An added
// token that is found in normalised text stands for that text; in GPT-2's alphabet it was never spelled, though Hugging Face
// reads it so.
func (v *hfVocab) decoded(d hfDecoding, normalise normaliser) func(dst []byte, id int) []byte {
	text := map[int]string{}
	for _, a := range v.added {
		if text[int(a.ID)] = a.Content; a.Normalized && !a.Special && normalise != nil {
			text[int(a.ID)] = normalise(a.Content)
		}
	}
	return func(dst []byte, id int) []byte {
		token := v.tokens[id]
		switch y := v.types[id]; {
		case y == Control || y == UserDefined && d.level:
			return append(dst, text[id]...)
		case y == UserDefined:
			token = text[id]
		case y == Byte:
			if b, err := parseByte(token); err == nil {
				return append(dst, b)
			}
		case y == Unused:
			return dst
		}
		return d.text(dst, token)
	}
}

// hfDecoder reads a decoder. Without one, tokens are words with spaces between them.
func hfDecoder(raw json.RawMessage) (hfDecoding, error) {
	d := &hfDecoderReader{growth: 1}
	if err := d.read(raw, 0); err != nil {
		return hfDecoding{}, err
	}
	if len(d.steps) == 0 && !d.any {
		d.lead.space = true
		d.steps = append(d.steps, func(s string) string { return " " + s })
	}
	steps := d.steps
	return hfDecoding{lead: d.lead, bytes: d.bytes, level: d.level, text: func(dst []byte, token string) []byte {
		for _, step := range steps {
			token = step(token)
		}
		return append(dst, token...)
	}}, nil
}

type hfDecoderReader struct {
	steps []func(string) string // on each token
	lead  lead
	bytes bool
	level bool
	fused bool // what follows is about all of the text
	any   bool // there is a decoder

	growth int // how many times as long a token could become
}

// mostTokenGrowth is how many times as long a token may become.
const mostTokenGrowth = 8

func (d *hfDecoderReader) read(raw json.RawMessage, depth int) error {
	kind, err := component(raw, depth)
	if err != nil || kind == "" {
		return err
	}
	d.any = true
	if err := d.readOf(kind, raw, depth); err != nil {
		return fmt.Errorf("decoder %s: %w", kind, err)
	}
	return nil
}

func (d *hfDecoderReader) step(s func(string) string) error {
	if d.fused {
		return errors.New("not supported after Fuse")
	}
	d.steps = append(d.steps, s)
	return nil
}

func (d *hfDecoderReader) readOf(kind string, raw json.RawMessage, depth int) error {
	switch kind {
	case "Sequence":
		var p struct {
			Type     string
			Decoders []json.RawMessage
		}
		if err := strict(raw, &p); err != nil {
			return err
		}
		for _, raw := range p.Decoders {
			if err := d.read(raw, depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		d.level = true
		return d.step(func(s string) string { return string(appendBytes(nil, s)) })
	case "ByteFallback":
		d.bytes = true
		return nil
	case "Fuse":
		d.fused = true
		return nil
	case "Metaspace":
		m, err := readMetaspace(raw)
		if err != nil {
			return err
		}
		d.lead.all = m.prefix != "never"
		return d.step(func(s string) string { return strings.ReplaceAll(s, m.mark, " ") })
	case "Replace":
		var p struct {
			Type, Content string
			Pattern       hfPattern
		}
		if err := strict(raw, &p); err != nil {
			return err
		}
		m, err := p.Pattern.matcher()
		if err != nil {
			return err
		}
		if d.growth *= p.Pattern.growth(p.Content); d.growth > mostTokenGrowth {
			return fmt.Errorf("with those before it, it could make a token %d times as long, want at most %d", d.growth, mostTokenGrowth)
		}
		return d.step(func(s string) string { return replace(s, m, p.Content) })
	case "Strip":
		var p struct {
			Type, Content string
			Start, Stop   int
		}
		if err := strict(raw, &p); err != nil {
			return err
		}
		if !d.fused || p.Content != " " || p.Start < 0 || p.Start > 1 || p.Stop != 0 {
			return errors.New("supported is one space at the start, after Fuse")
		}
		d.lead.space = d.lead.space || p.Start == 1
		return nil
	case "WordPiece":
		var p struct {
			Type, Prefix string
			Cleanup      bool
		}
		if err := strict(raw, &p); err != nil {
			return err
		}
		d.lead.space = true
		return d.step(func(s string) string {
			rest, ok := strings.CutPrefix(s, p.Prefix)
			if !ok || p.Prefix == "" {
				rest = " " + s
			}
			if p.Cleanup {
				rest = tidy(rest)
			}
			return rest
		})
	}
	return errors.New("not supported; supported are ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip and WordPiece")
}

// hfPostProcessor reads what is put before and after a text.
func hfPostProcessor(raw json.RawMessage, vocab int) (before, after []int32, err error) {
	if before, after, err = hfPostProcessorAt(raw, 0); err != nil {
		return nil, nil, err
	}
	for _, ids := range [][]int32{before, after} {
		for _, id := range ids {
			if id < 0 || int(id) >= vocab {
				return nil, nil, fmt.Errorf("post_processor: token %d, the vocabulary has %d", id, vocab)
			}
		}
	}
	return before, after, nil
}

func hfPostProcessorAt(raw json.RawMessage, depth int) (before, after []int32, err error) {
	kind, err := component(raw, depth)
	if err != nil || kind == "" {
		return nil, nil, err
	}
	switch kind {
	case "ByteLevel": // is about offsets
	case "Sequence":
		var p struct {
			Type       string
			Processors []json.RawMessage
		}
		err = strict(raw, &p)
		for _, raw := range p.Processors {
			b, a, err := hfPostProcessorAt(raw, depth+1)
			if err != nil {
				return nil, nil, err
			}
			before, after = append(b, before...), append(after, a...)
		}
	case "BertProcessing", "RobertaProcessing":
		var p struct {
			Type   string
			CLS    hfTokenID `json:"cls"`
			SEP    hfTokenID `json:"sep"`
			Trim   bool      `json:"trim_offsets"`
			Prefix bool      `json:"add_prefix_space"` // of offsets
		}
		err = strict(raw, &p)
		before, after = []int32{int32(p.CLS)}, []int32{int32(p.SEP)}
	case "TemplateProcessing":
		before, after, err = hfTemplate(raw)
	default:
		err = errors.New("not supported; supported are BertProcessing, ByteLevel, RobertaProcessing, Sequence and TemplateProcessing")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("post_processor %s: %w", kind, err)
	}
	return before, after, nil
}

// hfTemplate reads the template for one text.
func hfTemplate(raw json.RawMessage) (before, after []int32, err error) {
	type part struct {
		ID string
	}
	var p struct {
		Type   string
		Single []struct {
			SpecialToken *part
			Sequence     *part
		}
		Pair    json.RawMessage                  // for two texts
		Special map[string]struct{ IDs []int32 } `json:"special_tokens"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, nil, err
	}
	texts := 0
	for _, s := range p.Single {
		switch {
		case s.Sequence != nil && s.Sequence.ID == "A":
			texts++
		case s.SpecialToken != nil:
			token, ok := p.Special[s.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("token %q is not in special_tokens", s.SpecialToken.ID)
			}
			if texts == 0 {
				before = append(before, token.IDs...)
			} else {
				after = append(after, token.IDs...)
			}
		default:
			return nil, nil, errors.New("a part of single is neither a special token nor the text A")
		}
	}
	if texts != 1 {
		return nil, nil, fmt.Errorf("single has the text %d times, want once", texts)
	}
	return before, after, nil
}

// hfTokenID is a token as a pair of text and id.
type hfTokenID int32

func (id *hfTokenID) UnmarshalJSON(data []byte) error {
	var text string
	pair := []any{&text, (*int32)(id)}
	return json.Unmarshal(data, &pair)
}
