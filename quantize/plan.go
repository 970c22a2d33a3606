package quantize

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"memra/gguf"
	"memra/model"
	"memra/quant"
)

// Options say what a file becomes. Mix is needed; the zero value of all else is right for most uses.
type Options struct {
	Mix        string           // such as "Q4_K_M": see Mixes
	Pure       bool             // one format for all matrices, without the mix's rules
	Requantize bool             // also matrices that are quantised already, which costs quality
	Overrides  []Override       // for some matrices; the first that matches counts
	Importance *Importance      // of columns; nil: all count alike
	Threads    int              // that encode; 0: one a processor
	Progress   func(values int) // told, now and then and from any goroutine, how many values more are done; nil: nobody asks
}

// Override gives matrices a format.
type Override struct {
	Name *regexp.Regexp // matches a part of a tensor's name
	Type gguf.Type
}

// ParseOverride reads "attn_v=q8_0": a regular expression for a part of a tensor's name, and a format's name in any case.
func ParseOverride(text string) (Override, error) {
	name, format, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return Override{}, fmt.Errorf("quantize: found %q, want NAME=TYPE, such as attn_v=q8_0", text)
	}
	pattern, err := regexp.Compile("(?i)" + name)
	if err != nil {
		return Override{}, fmt.Errorf("quantize: the name in %q: %w", text, err)
	}
	var written []string
	for t := range gguf.Type(256) {
		f, err := quant.For(t)
		if err != nil || f.Quantize == nil {
			continue
		}
		if strings.EqualFold(f.Name, format) {
			return Override{pattern, t}, nil
		}
		written = append(written, f.Name)
	}
	return Override{}, fmt.Errorf("quantize: no format that can be written is called %q, want one of %s", format, strings.Join(written, ", "))
}

// Choice is what a tensor becomes.
type Choice struct {
	Tensor *gguf.Tensor
	Type   gguf.Type
	Wanted gguf.Type // what the mix or an override asked for; another than Type where rows are no whole blocks of it
}

// Plan says what each tensor of a model file becomes, in the file's order. Every reason why it cannot be comes back as one error.
func Plan(src model.Source, o Options) ([]Choice, error) {
	m, err := mixOf(o.Mix)
	if err != nil {
		return nil, err
	}
	c := &chooser{mix: m, shape: shapeOf(src)}
	c.importance = o.Importance != nil
	tensors := src.Tensors()
	plan, order := make([]Choice, len(tensors)), make([]int, len(tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return byLayer(tensors[a].Name, tensors[b].Name) })
	var bad []string
	for _, i := range order {
		t := &tensors[i]
		wanted := t.Type
		if touches(t) {
			wanted = c.want(t, o)
		}
		plan[i] = Choice{Tensor: t, Type: wanted, Wanted: wanted}
		if wanted == t.Type {
			continue
		}
		plan[i].Type = fitting(wanted, t.Shape[len(t.Shape)-1])
		if block, _ := t.Type.Block(); block > 1 && plan[i].Type != t.Type && !o.Requantize {
			bad = append(bad, fmt.Sprintf("%s is %s", t.Name, t.Type))
		}
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("quantize: %s: %d tensors are quantised already (%s%s), which loses quality twice; "+
			"take the F16, BF16 or F32 file, or allow it (--allow-requantize)", src.Name(), len(bad), strings.Join(bad[:min(3, len(bad))], ", "), dots(len(bad) > 3))
	}
	return plan, nil
}

// want is the format that an override, or the mix, asks for.
func (c *chooser) want(t *gguf.Tensor, o Options) gguf.Type {
	for _, over := range o.Overrides {
		if over.Name.MatchString(t.Name) {
			return over.Type
		}
	}
	if o.Pure || !c.blocked() {
		return c.base
	}
	return c.choose(t)
}

func dots(are bool) string {
	if are {
		return ", ..."
	}
	return ""
}
