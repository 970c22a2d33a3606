package hf

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
)

// special sets the ids of special tokens, whether a text gets a start and an end token, and the chat template.
func (t *translation) special(folder string, config object, file *tokenizerJSON, v *vocab) error {
	names, err := maybeObject(folder, "special_tokens_map.json", t.faults)
	if err != nil {
		return err
	}
	generation, err := maybeObject(folder, "generation_config.json", t.faults)
	if err != nil {
		return err
	}
	ids := map[string]int{}
	for id, text := range v.tokens {
		ids[text] = id
	}
	for _, a := range file.AddedTokens {
		ids[a.Content] = a.ID
	}
	text := map[string]string{} // of each special token
	id := map[string]int{}
	for _, name := range []string{"bos", "eos", "unk", "pad"} {
		text[name] = tokenText(config, name+"_token")
		if text[name] == "" {
			text[name] = tokenText(names, name+"_token")
		}
		if n, ok := ids[text[name]]; ok && text[name] != "" {
			id[name] = n
		} else if list := t.ints(name + "_token_id"); list != nil {
			id[name] = list[0]
		} else if list := generation.ints(name + "_token_id"); list != nil {
			id[name] = list[0]
		}
	}
	const key = "tokenizer.ggml."
	for _, k := range [][2]string{{"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"pad", "padding"}} {
		if n, ok := id[k[0]]; ok {
			t.meta.Set(key+k[1]+"_token_id", uint32(n))
		}
	}
	ends := append(generation.ints("eos_token_id"), t.ints("eos_token_id")...)
	others := []string{"eot", "eom"}
	for i, n := range ends {
		if n == id["eos"] || slices.Contains(ends[:i], n) {
			continue
		}
		if len(others) == 0 {
			generation.fail("eos_token_id", "found %v, want at most two beside the tokenizer's own %d", ends, id["eos"])
			break
		}
		t.meta.Set(key+others[0]+"_token_id", uint32(n))
		others = others[1:]
	}
	first, last := ends2(file.PostProcessor)
	for _, side := range []struct{ name, mark string }{{"bos", first}, {"eos", last}} {
		switch set, ok := config.get("add_" + side.name + "_token"); {
		case side.mark != "":
			t.meta.Set(key+"add_"+side.name+"_token", side.mark != none && side.mark == text[side.name])
		case ok && set != nil:
			t.meta.Set(key+"add_"+side.name+"_token", config.bool("add_"+side.name+"_token", false))
		}
	}
	template, err := template(folder, config)
	if template != "" {
		t.meta.Set("tokenizer.chat_template", template)
	}
	return err
}

// none stands for a post-processor that adds nothing at a side of a text.
const none = "\x00"

// ends2 returns the special tokens that a post-processor puts at the ends of a text, none where it says that it puts none there,
// and "" where it says nothing.
func ends2(c *component) (first, last string) {
	for _, p := range c.flat() {
		switch {
		case p.Type == "ByteLevel":
			if first == "" {
				first = none
			}
			if last == "" {
				last = none
			}
		case p.Type == "TemplateProcessing" && len(p.Single) > 1:
			if s := p.Single[0].SpecialToken; s != nil {
				first = s.ID
			}
			if s := p.Single[len(p.Single)-1].SpecialToken; s != nil {
				last = s.ID
			}
		}
	}
	return first, last
}

// tokenText is a token as tokenizer_config.json names it: a text, or an object with its content.
func tokenText(o object, key string) string {
	switch v := o.value[key].(type) {
	case string:
		return v
	case map[string]any:
		return o.object(key).text("content", "")
	}
	return ""
}

// template returns the chat template of a folder, "" if it has none: of several with names, the default one.
func template(folder string, config object) (string, error) {
	data, err := readFile(filepath.Join(folder, "chat_template.jinja"), maxJSON)
	if err == nil {
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	file, err := maybeObject(folder, "chat_template.json", config.faults)
	if err != nil {
		return "", err
	}
	if _, ok := file.get("chat_template"); !ok {
		file = config
	}
	list, ok := file.value["chat_template"].([]any)
	if !ok {
		return file.text("chat_template", ""), nil
	}
	for _, item := range list {
		if m, ok := item.(map[string]any); ok && m["name"] == "default" {
			return object{file.path + ": chat_template", m, config.faults}.text("template", ""), nil
		}
	}
	file.fail("chat_template", "found %d templates, want one with the name default", len(list))
	return "", nil
}
