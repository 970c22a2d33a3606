package golden

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
)

// Tiny is a random model of a few hundred kilobytes and what float64 transformers computes from it.
type Tiny struct {
	Family  string
	Note    string // what the model is there to catch
	Vocab   int
	GGUF    []byte // the model file
	Prompts []Prompt
}

// Prompt is a text, and a tiny model's answer to it.
type Prompt struct {
	Text      string
	Tokens    []int32     // of Text, with a start token if the model wants one
	LogProbs  []float64   // of Tokens[1:], each given the tokens before it
	Positions []int       // ascending; where Logits were kept
	Logits    [][]float32 // [len(Positions)][Vocab], float64 rounded once; row i follows Tokens[:Positions[i]+1]
	Greedy    []int32     // the likeliest continuation of Tokens
	Margin    float64     // the least difference between the best and the second logit along Greedy
}

// LoadTiny reads path+".gguf.gz" and path+".json.gz", which tools/oracle/tiny.py wrote.
func LoadTiny(path string) (*Tiny, error) {
	gguf, err := unzip(path + ".gguf.gz")
	if err != nil {
		return nil, err
	}
	data, err := unzip(path + ".json.gz")
	if err != nil {
		return nil, err
	}
	var file struct {
		Family, Note, SHA256 string
		Vocab                int
		Prompts              []struct {
			Prompt
			Logits []byte // base64 in JSON, little-endian float32
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("golden: %s.json.gz: %w", path, err)
	}
	if sum := sha256.Sum256(gguf); hex.EncodeToString(sum[:]) != file.SHA256 {
		return nil, fmt.Errorf("golden: %s.gguf.gz: SHA-256 %x, want %s as the JSON beside it says; make both again with tools/oracle/tiny.py",
			path, sum, file.SHA256)
	}
	t := &Tiny{Family: file.Family, Note: file.Note, Vocab: file.Vocab, GGUF: gguf}
	for i, p := range file.Prompts {
		rowBytes := 4 * file.Vocab
		if len(p.Logits) != len(p.Positions)*rowBytes || len(p.LogProbs) != len(p.Tokens)-1 {
			return nil, fmt.Errorf("golden: %s.json.gz: prompt %d: %d bytes of logits, %d log-probabilities, want %d and %d",
				path, i, len(p.Logits), len(p.LogProbs), len(p.Positions)*rowBytes, len(p.Tokens)-1)
		}
		for r := range p.Positions {
			row := make([]float32, file.Vocab)
			for j := range row {
				row[j] = math.Float32frombits(binary.LittleEndian.Uint32(p.Logits[r*rowBytes+4*j:]))
			}
			p.Prompt.Logits = append(p.Prompt.Logits, row)
		}
		t.Prompts = append(t.Prompts, p.Prompt)
	}
	return t, nil
}
