package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// preTokenizer is a way to cut text into words before merging, with the habits of the vocabularies that use it.
type preTokenizer struct {
	split      []scanner
	wholeWords bool // a word that is a token is that token, whatever the merges say
	addBOS     bool // a text begins with the start token unless the file says otherwise
}

// preTokenizers holds what each name of tokenizer.ggml.pre means.
var preTokenizers = func() map[string]func() preTokenizer {
	m := map[string]func() preTokenizer{}
	name := func(p func() preTokenizer, names ...string) {
		for _, n := range names {
			m[n] = p
		}
	}
	chain := func(c func() []scanner) func() preTokenizer {
		return func() preTokenizer { return preTokenizer{split: c()} }
	}
	wholeWords := func(p func() preTokenizer) func() preTokenizer {
		return func() preTokenizer { q := p(); q.wholeWords = true; return q }
	}
	addBOS := func(p func() preTokenizer) func() preTokenizer {
		return func() preTokenizer { q := p(); q.addBOS = true; return q }
	}

	name(chain(func() []scanner { return []scanner{gpt2()} }),
		"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "modern-bert", "mellum", "gigachat", "a.x-4.0")
	name(chain(func() []scanner { return []scanner{isolate(run(number, 1)), gpt2()} }),
		"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2")

	byThree := chain(func() []scanner { return []scanner{words{digits: 3, letter: letter}.scanner()} })
	name(byThree, "dbrx", "smaug-bpe", "chatglm-bpe")
	name(wholeWords(byThree), "glm4", "glm5")
	name(addBOS(wholeWords(byThree)),
		"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano")
	name(chain(func() []scanner { return []scanner{words{digits: 1, letter: letter}.scanner()} }),
		"qwen2", "stablelm2", "hunyuan", "solar-open", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "grok-2")
	name(chain(func() []scanner { return []scanner{words{digits: 1, letter: letter | mark}.scanner()} }), "qwen35")

	o200k := chain(func() []scanner { return []scanner{casedWords{digits: 3, suffix: true}.scanner()} })
	name(o200k, "gpt-4o", "llama4", "kanana2", "minimax-m2")
	name(addBOS(wholeWords(chain(func() []scanner { return []scanner{casedWords{digits: 1}.scanner()} }))), "tekken")

	name(chain(deepseekLLM), "deepseek-llm")
	name(chain(deepseekCoder), "deepseek-coder")
	name(chain(deepseekV3), "deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4")
	return m
}()

// preTokenizerOf looks a pre-tokeniser up. There is no default: the wrong one gives a model text that it was not trained
// on, which nothing would report.
func preTokenizerOf(pre string) (preTokenizer, error) {
	if p, ok := preTokenizers[pre]; ok {
		return p(), nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(preTokenizers)), ", ")
	if pre == "" || pre == "default" {
		return preTokenizer{}, fmt.Errorf("tokenizer: the file names no pre-tokeniser (tokenizer.ggml.pre is %q), so its words cannot be cut as in training; "+
			"convert the model again, or set the key to the right one of: %s", pre, known)
	}
	return preTokenizer{}, fmt.Errorf("tokenizer: pre-tokeniser %q is not supported; supported are: %s", pre, known)
}
