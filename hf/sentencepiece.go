package hf

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"memra/tokenizer"
)

const space = "\u2581" // how SentencePiece writes a space

// sentencePiece is BPE over characters with bytes for what it lacks, as Llama 2 and Gemma have it. tokenizer.model has its scores;
// without it they are made of the merges of tokenizer.json.
func sentencePiece(folder, path string, file *tokenizerJSON, whole bool) (*vocab, error) {
	data, err := readFile(filepath.Join(folder, "tokenizer.model"), maxTokenizer)
	if err == nil {
		v, err := readSentencePiece(data)
		if err != nil {
			return nil, fmt.Errorf("hf: %s: %w", filepath.Join(folder, "tokenizer.model"), err)
		}
		return v, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !whole {
		return nil, fmt.Errorf("hf: %s: neither tokenizer.json nor tokenizer.model is there; download one: %w", folder, err)
	}
	v, err := scoresOfMerges(file)
	if err != nil {
		return nil, fmt.Errorf("hf: %s: %w", path, err)
	}
	return v, nil
}

// scoresOfMerges undoes what converters to tokenizer.json do: from pieces with scores they make, the best piece first, a merge for
// every way to cut a piece in two. So a piece's place in that order is its score.
func scoresOfMerges(file *tokenizerJSON) (*vocab, error) {
	m := &file.Model
	prefix, err := dummyPrefix(file)
	if err != nil {
		return nil, err
	}
	ids := map[string]int{}
	if err := json.Unmarshal(m.Vocab, &ids); err != nil {
		return nil, fmt.Errorf("model: vocab: %w", err)
	}
	v := &vocab{kind: "llama", pre: "default", prefix: &prefix}
	if v.tokens, err = byID(ids); err != nil {
		return nil, fmt.Errorf("model: vocab: %w", err)
	}
	pairs, err := merges(m.Merges)
	if err != nil {
		return nil, fmt.Errorf("model: merges: %w", err)
	}
	v.types = make([]tokenizer.Type, len(v.tokens))
	v.scores = make([]float32, len(v.tokens))
	for id, text := range v.tokens {
		v.types[id] = tokenizer.Normal
		switch {
		case m.UnkToken != nil && text == *m.UnkToken:
			v.types[id] = tokenizer.Unknown
		case len(text) == 6 && strings.HasPrefix(text, "<0x") && text[5] == '>':
			v.types[id] = tokenizer.Byte
		}
	}
	order := float32(0)
	for i := 0; i < len(pairs); {
		piece := pairs[i][0] + pairs[i][1]
		id, ok := ids[piece]
		switch {
		case !ok:
			return nil, fmt.Errorf("model: merge %d makes %q, which is no token", i, clip(piece))
		case v.scores[id] != 0:
			return nil, fmt.Errorf("model: merge %d makes %q, as an earlier one does with others between: these merges are not SentencePiece's, so no scores give the same tokens", i, clip(piece))
		}
		order--
		v.scores[id] = order
		n := 0
		for ; i < len(pairs) && pairs[i][0]+pairs[i][1] == piece; i++ {
			n++
		}
		if ways := cuts(piece, ids); ways != n {
			return nil, fmt.Errorf("model: %d merges make %q, which can be cut into two tokens in %d ways: these merges are not SentencePiece's, so no scores give the same tokens", n, clip(piece), ways)
		}
	}
	return v, nil
}

// cuts counts the ways to cut a piece into two tokens.
func cuts(piece string, ids map[string]int) (n int) {
	for i := range piece {
		if _, ok := ids[piece[:i]]; !ok || i == 0 {
			continue
		}
		if _, ok := ids[piece[i:]]; ok {
			n++
		}
	}
	return n
}

// dummyPrefix tells whether a text gets a space in front, and refuses normalisers and pre-tokenisers that do anything but that
// and write spaces as SentencePiece does.
func dummyPrefix(file *tokenizerJSON) (prefix bool, err error) {
	spaces := false
	for _, n := range file.Normalizer.flat() {
		switch {
		case n.Type == "Prepend" && n.Prepend == space:
			prefix = true
		case n.Type == "Replace" && n.Pattern.String == " " && n.Content == space:
			spaces = true
		default:
			return false, fmt.Errorf("normalizer: found %q, want Prepend and Replace of spaces alone", clip(n.Type))
		}
	}
	for _, p := range file.PreTokenizer.flat() {
		switch {
		case p.Type == "Metaspace" && p.Split != nil && !*p.Split:
			spaces = true
			prefix = prefix || p.PrependScheme == "first" || p.PrependScheme == "always"
		case p.Type == "Split" && p.Pattern.String == " " && spaces: // there are no spaces any more
		default:
			return false, fmt.Errorf("pre_tokenizer: found %q, want none, or Metaspace that does not split", clip(p.Type))
		}
	}
	if !spaces {
		return false, errors.New("normalizer: spaces stay as they are, want them replaced by U+2581")
	}
	return prefix, nil
}

// readSentencePiece reads tokenizer.model, a protocol buffer:
//
//	1: piece, repeated { 1: text, 2: score, 3: type, as GGUF numbers it }
//	2: trainer         { 3: kind, 2 is BPE }
//	3: normaliser      { 2: table, 3: space in front, 4: runs of spaces become one }
func readSentencePiece(data []byte) (*vocab, error) {
	prefix, merging := true, true // what absent fields mean
	v := &vocab{kind: "llama", pre: "default", prefix: &prefix}
	kind := uint64(1)
	err := fields(data, func(field, value uint64, inner []byte) error {
		switch field {
		case 1:
			text, score, y := "", float32(0), uint64(1)
			if err := fields(inner, func(field, value uint64, inner []byte) error {
				switch field {
				case 1:
					text = string(inner)
				case 2:
					score = math.Float32frombits(uint32(value))
				case 3:
					y = value
				}
				return nil
			}); err != nil {
				return fmt.Errorf("piece %d: %w", len(v.tokens), err)
			}
			if !utf8.ValidString(text) || y < 1 || y > 6 || score != score {
				return fmt.Errorf("piece %d: text %q, type %d, score %v: not a piece", len(v.tokens), clip(text), y, score)
			}
			v.tokens, v.scores, v.types = append(v.tokens, text), append(v.scores, score), append(v.types, tokenizer.Type(y))
		case 2:
			return fields(inner, func(field, value uint64, _ []byte) error {
				if field == 3 {
					kind = value
				}
				return nil
			})
		case 3:
			return fields(inner, func(field, value uint64, inner []byte) error {
				switch field {
				case 2:
					if len(inner) > 0 {
						return errors.New("normaliser: found a table of characters, want none: normalising is not supported with BPE")
					}
				case 3:
					prefix = value != 0
				case 4:
					merging = value != 0
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(v.tokens) == 0:
		return nil, errors.New("found no pieces; this is no SentencePiece model")
	case kind != 2:
		return nil, fmt.Errorf("found the kind %d, want 2, BPE", kind)
	case merging:
		return nil, errors.New("normaliser: runs of spaces become one (remove_extra_whitespaces), which is not supported")
	}
	return v, nil
}

// fields calls visit for each field of a protocol buffer: with its value where that is a number, with its bytes otherwise.
func fields(data []byte, visit func(field, value uint64, inner []byte) error) error {
	errCut := errors.New("the file ends within a field; it is truncated, or no SentencePiece model")
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return errCut
		}
		data = data[n:]
		var value uint64
		var inner []byte
		size := 0
		switch tag & 7 {
		case 0:
			if value, size = binary.Uvarint(data); size <= 0 {
				return errCut
			}
		case 1:
			if size = 8; len(data) >= 8 {
				value = binary.LittleEndian.Uint64(data)
			}
		case 2:
			length, n := binary.Uvarint(data)
			if n <= 0 || length > uint64(len(data)-n) {
				return errCut
			}
			size = n + int(length)
			inner = data[n:size]
		case 5:
			if size = 4; len(data) >= 4 {
				value = uint64(binary.LittleEndian.Uint32(data))
			}
		default:
			return fmt.Errorf("found a field of the kind %d, want 0, 1, 2 or 5; this is no SentencePiece model", tag&7)
		}
		if size > len(data) {
			return errCut
		}
		data = data[size:]
		if err := visit(tag>>3, value, inner); err != nil {
			return err
		}
	}
	return nil
}
