package hf

import (
	"fmt"
	"strings"
)

// preNames are the pre-tokenisers that GGUF has a name for, as the parts that tokenizer.json has before byte-level BPE. Where
// names share their parts, the one whose habits (whole words are tokens whatever the merges say) are the file's is right.
var preNames = map[string]string{
	"":             "gpt-2",
	"digits":       "smollm",
	words("{1,3}"): "dbrx",
	words(""):      "qwen2",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "qwen35",
	casedWords(`\p{N}{1,3}`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`):                                                                    "gpt-4o",
	casedWords(`\p{N}`, ""): "tekken",
	`\p{N}{1,3}` + "\n" + "[一-龥\u3040-ゟ゠-ヿ]+" + "\n" + `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "deepseek-v3",
}

// words is the pattern of GPT-4's first tokenizer and its many children, which differ in how many digits stand together.
func words(digits string) string {
	return `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + digits + `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
}

// casedWords is the pattern of GPT-4o's tokenizer, which cuts where small letters become large ones.
func casedWords(digits, suffix string) string {
	const up, low, head = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`, `[^\r\n\p{L}\p{N}]?`
	return head + up + "*" + low + "+" + suffix + "|" + head + up + "+" + low + "*" + suffix + "|" + digits +
		`| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
}

// wholeWords names the pre-tokenisers of preNames again for vocabularies in which a word that is a token is that token, whatever
// the merges say (ignore_merges).
var wholeWords = map[string]string{"dbrx": "llama-bpe", "tekken": "tekken"}

// preName finds GGUF's name of a pre-tokeniser.
func preName(parts []component, ignoreMerges bool) (string, error) {
	var keys []string
	bytes := false
	for i, p := range parts {
		switch {
		case p.Type == "Split" && strings.EqualFold(p.Behavior, "isolated") && !p.Invert && p.Pattern.Regex != "":
			keys = append(keys, p.Pattern.Regex)
		case p.Type == "Split" && strings.EqualFold(p.Behavior, "removed") && p.Invert && p.Pattern.Regex != "": // what does not match is nothing
			keys = append(keys, p.Pattern.Regex)
		case p.Type == "Digits" && p.Individual:
			keys = append(keys, "digits")
		case p.Type == "ByteLevel" && i == len(parts)-1 && !p.AddPrefixSpace:
			bytes = true
			if own := p.UseRegex == nil || *p.UseRegex; own == (len(keys) > 0 && keys[len(keys)-1] != "digits") {
				return "", fmt.Errorf("ByteLevel with its own pattern %v after %d others: not supported", own, len(keys))
			}
		default:
			return "", fmt.Errorf("found %q (behavior %q, add_prefix_space %v) as part %d, want Split by a pattern, Digits one by one, and ByteLevel last", clip(p.Type), clip(p.Behavior), p.AddPrefixSpace, i)
		}
	}
	name, ok := preNames[strings.Join(keys, "\n")]
	if !bytes || !ok {
		return "", fmt.Errorf("GGUF has no name for the patterns %q", clip(strings.Join(keys, "\n")))
	}
	if ignoreMerges {
		whole, ok := wholeWords[name]
		if !ok {
			return "", fmt.Errorf("ignore_merges with the pre-tokeniser %s: GGUF has no name for the two together", name)
		}
		return whole, nil
	}
	if name == "tekken" {
		return "", fmt.Errorf("the pre-tokeniser tekken without ignore_merges: GGUF has no name for the two together")
	}
	return name, nil
}
