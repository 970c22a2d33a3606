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
	Family  string // GGUF's name of it
	Note    string // what the model is there to catch
	Vocab   int
	Keys    []string // of GGUF, without the family, that say more than its converter does
	GGUF    []byte   // the model file, as llama.cpp's converter writes it
	Saved   bool     // transformers has words for the model: Unpack it
	MXFP4   bool     // experts are stored so; all else is float32
	Prompts []Prompt

	path string
}

// Prompt is a text, and a tiny model's answer to it.
type Prompt struct {
	Text      string
	Tokens    []int32     // of Text, with a start token if the model wants one
	LogProbs  []float64   // of Tokens[1:], each given the tokens before it
	Positions []int       // ascending; where Logits and Hidden were kept
	Logits    [][]float32 // [len(Positions)][Vocab], float64 rounded once; row i follows Tokens[:Positions[i]+1]
	// Hidden are the residual stream's rows, [layers+1][len(Positions)][width]: as each layer begins, and normalised at the end.
	Hidden [][][]float32
	Greedy []int32 // the likeliest continuation of Tokens
	Margin float64 // the least difference between the best and the second logit along Greedy
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
		Vocab, States, Width int
		Keys                 []string
		Saved, MXFP4         bool
		Prompts              []struct {
			Prompt
			Logits, Hidden []byte // base64 in JSON, little-endian float32
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("golden: %s.json.gz: %w", path, err)
	}
	if sum := sha256.Sum256(gguf); hex.EncodeToString(sum[:]) != file.SHA256 {
		return nil, fmt.Errorf("golden: %s.gguf.gz: SHA-256 %x, want %s as the JSON beside it says; make both again with tools/oracle/tiny.py",
			path, sum, file.SHA256)
	}
	t := &Tiny{Family: file.Family, Note: file.Note, Vocab: file.Vocab, Keys: file.Keys, GGUF: gguf, Saved: file.Saved, MXFP4: file.MXFP4, path: path}
	for i, p := range file.Prompts {
		n := len(p.Positions)
		if len(p.Logits) != 4*n*file.Vocab || len(p.Hidden) != 4*n*file.States*file.Width || len(p.LogProbs) != len(p.Tokens)-1 {
			return nil, fmt.Errorf("golden: %s.json.gz: prompt %d: %d bytes of logits, %d of states, %d log-probabilities, want %d, %d and %d",
				path, i, len(p.Logits), len(p.Hidden), len(p.LogProbs), 4*n*file.Vocab, 4*n*file.States*file.Width, len(p.Tokens)-1)
		}
		p.Prompt.Logits = rows(p.Logits, n, file.Vocab)
		for range file.States {
			p.Prompt.Hidden = append(p.Prompt.Hidden, rows(p.Hidden, n, file.Width))
			p.Hidden = p.Hidden[4*n*file.Width:]
		}
		t.Prompts = append(t.Prompts, p.Prompt)
	}
	return t, nil
}

// rows are the first n rows of little-endian float32 values.
func rows(data []byte, n, width int) [][]float32 {
	out := make([][]float32, n)
	for r := range out {
		out[r] = make([]float32, width)
		for i := range out[r] {
			out[r][i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*(r*width+i):]))
		}
	}
	return out
}

// Unpack brings the model as transformers saved it, path+".zip", into a folder that is there.
func (t *Tiny) Unpack(folder string) error { return Folder(t.path+".zip", folder) }
