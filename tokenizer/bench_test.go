package tokenizer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
)

// realModels are the two files that tools/models brings.
var realModels = map[string]string{
	"bpe": "SmolLM2-135M-Instruct.Q4_1.gguf",
	"spm": "gemma-3-270m-q4_k_m.gguf",
}

// prose is ordinary text, 140 kB of it.
var prose = strings.Repeat("The contract is tested, not asserted: a property test draws random schedules (arrivals, chunk sizes,\n"+
	"batch mates) and compares every token with the request run alone. It's 27% faster; naïve readers don't notice.\n"+
	"\n\tfor i := 0; i < len(rows); i++ {\n\t\tsum += rows[i] * 0.5\n\t}\n", 500)

func BenchmarkLoad(b *testing.B) {
	for name, file := range realModels {
		b.Run(name, func(b *testing.B) {
			f, err := gguf.Open(modelPath(b, file))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			for b.Loop() {
				if _, err := FromGGUF(f.Meta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for name, file := range realModels {
		b.Run(name, func(b *testing.B) {
			tok := openVocab(b, modelPath(b, file), "")
			b.SetBytes(int64(len(prose)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Encode(prose, Options{})
			}
		})
	}
}

func BenchmarkEncodeAMillionEqualCharacters(b *testing.B) {
	for name, file := range realModels {
		b.Run(name, func(b *testing.B) {
			tok := openVocab(b, modelPath(b, file), "")
			text := strings.Repeat("a", 1_000_000)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, Options{})
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, file := range realModels {
		b.Run(name, func(b *testing.B) {
			tok := openVocab(b, modelPath(b, file), "")
			ids := tok.Encode(prose, Options{})
			b.SetBytes(int64(len(prose)))
			for b.Loop() {
				tok.Decode(ids)
			}
		})
	}
}

// BenchmarkHF encodes prose, and a million equal characters, with every kind of tokenizer.json.
func BenchmarkHF(b *testing.B) {
	toks := hfTokenizers(b)
	for _, name := range slices.Sorted(maps.Keys(toks)) {
		for text, s := range map[string]string{"prose": prose, "equal": strings.Repeat("a", 1_000_000), "spaces": strings.Repeat(" ", 1_000_000)} {
			b.Run(name+"/"+text, func(b *testing.B) {
				b.SetBytes(int64(len(s)))
				for b.Loop() {
					toks[name].Encode(s, Options{})
				}
			})
		}
	}
}
