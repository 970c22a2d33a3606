package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memra/gguf"
	"memra/internal/nearest"
	"memra/safetensors"
	"memra/tokenizer"
)

// Folder is an open model folder, with a GGUF file's metadata and tensors. It is a model.Source.
type Folder struct {
	path    string
	meta    *gguf.Metadata
	tensors []gguf.Tensor
	file    *safetensors.File
	unsaid  error // why the metadata says nothing of the tokenizer; nil: it does
}

// Open reads a folder's configuration and tokenizer, and maps its weights. Its error lists everything that is wrong with them,
// but for the tokenizer: a model can be looked at without one, so that Vocabulary says what is wrong with it.
func Open(path string) (*Folder, error) {
	f := &Folder{path: path}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Name returns the folder's path.
func (f *Folder) Name() string { return f.path }

// Metadata returns what GGUF's keys say of the model.
func (f *Folder) Metadata() *gguf.Metadata { return f.meta }

// Tensors returns the weights, in the order of the files.
func (f *Folder) Tensors() []gguf.Tensor { return f.tensors }

// Vocabulary returns why Metadata has no keys of the tokenizer: the folder has none, or one that GGUF has no words for. It is nil
// where it has them.
func (f *Folder) Vocabulary() error { return f.unsaid }

// Tokenizer builds the folder's tokenizer: what tokenizer.json means, or where there is none, the vocabulary that Metadata has of
// a tokenizer.model.
func (f *Folder) Tokenizer() (*tokenizer.Tokenizer, error) {
	if _, err := os.Stat(filepath.Join(f.path, "tokenizer.json")); err == nil {
		return tokenizer.OpenHF(f.path)
	}
	if f.unsaid != nil {
		return nil, f.unsaid
	}
	t, err := tokenizer.FromGGUF(f.meta)
	if err != nil {
		return nil, fmt.Errorf("hf: %s: %w", f.path, err)
	}
	return t, nil
}

// Release tells the system that the weights' pages are not needed for now.
func (f *Folder) Release() { f.file.Release() }

// Close unmaps the weights: data of tensors must not be touched any more, nor made.
func (f *Folder) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

func (f *Folder) open() error {
	var faults []error
	config, fam, err := readConfig(f.path, &faults)
	if err != nil {
		return err
	}
	if f.file, err = safetensors.OpenFolder(f.path); err != nil {
		return err
	}
	t := &translation{object: config, family: fam, meta: new(gguf.Metadata), file: f.file}
	t.meta.Set("general.architecture", fam.name)
	t.meta.Set("general.type", "model")
	t.meta.Set("general.name", nameOf(f.path))
	fam.config(t)
	if len(faults) == 0 { // what follows depends on the sizes
		f.unsaid = f.describeTokenizer(t)
		f.translate(t)
	}
	f.meta = t.meta
	return errors.Join(faults...)
}

// describeTokenizer sets the metadata's keys of the tokenizer, all or none, and the chat template.
func (f *Folder) describeTokenizer(t *translation) error {
	var faults []error
	own := *t
	own.object.faults, own.meta = &faults, new(gguf.Metadata)
	err := errors.Join(append([]error{vocabulary(f.path, &own)}, faults...)...)
	if err != nil {
		return err
	}
	for key, value := range own.meta.All() {
		t.meta.Set(key, value)
	}
	return nil
}

// readConfig reads config.json and finds the family.
func readConfig(folder string, faults *[]error) (object, *family, error) {
	if info, err := os.Stat(folder); err != nil {
		return object{}, nil, fmt.Errorf("hf: %w", err)
	} else if !info.IsDir() {
		return object{}, nil, fmt.Errorf("hf: %s: is a file, want a model's folder", folder)
	}
	config, err := readObject(filepath.Join(folder, "config.json"), faults)
	if errors.Is(err, fs.ErrNotExist) {
		return object{}, nil, notAModel(folder)
	}
	if err != nil {
		return object{}, nil, err
	}
	config = config.over("text_config")
	kind := config.text("model_type", "")
	fam := families[kind]
	if fam == nil {
		hint := ""
		if n := nearest.To(clip(kind), slices.Sorted(maps.Keys(families))); n != "" {
			hint = fmt.Sprintf("; the nearest is %s, which computes something else", n)
		}
		return object{}, nil, fmt.Errorf("hf: %s: model_type: found %q, want one of %s%s", config.path, clip(kind), kinds(), hint)
	}
	for key, value := range fam.defaults {
		if _, ok := config.value[key]; !ok {
			config.value[key] = value
		}
	}
	return config, fam, nil
}

// notAModel says what a folder lacks, and what else it may have that was meant.
func notAModel(folder string) error {
	hint := ""
	if list, err := os.ReadDir(folder); err == nil {
		for _, e := range list {
			if filepath.Ext(e.Name()) == ".gguf" {
				hint = "; it has " + e.Name() + ", name that file"
				break
			}
		}
	}
	return fmt.Errorf("hf: %s: is a folder without config.json, want a model's folder (config.json, *.safetensors, tokenizer.json) or a .gguf file%s", folder, hint)
}

// nameOf is the folder's own name.
func nameOf(folder string) string {
	if full, err := filepath.Abs(folder); err == nil {
		folder = full
	}
	return filepath.Base(folder)
}

// elsewhere are parts of names of towers for pictures and sound, and of tables that are computed.
var elsewhere = []string{"vision_tower.", "vision_model.", "visual.", "multi_modal_projector.", "audio_tower.", "embed_vision.", "embed_audio.",
	"vision_embedder."}

// skipped reports whether a tensor is none that the family computes with: of a tower, of a table, or of layers after the last, which
// draft.
func (t *translation) skipped(name string) bool {
	if rest, ok := strings.CutPrefix(name, "model.layers."); ok {
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err == nil && t.layers > 0 && n >= t.layers {
			return true
		}
	}
	return strings.HasSuffix(name, ".rotary_emb.inv_freq") ||
		slices.ContainsFunc(elsewhere, func(part string) bool { return strings.HasPrefix(strings.TrimPrefix(name, "model."), part) })
}

// translate makes GGUF's tensors.
func (f *Folder) translate(t *translation) {
	tied := t.bool("tie_word_embeddings", false)
	f.tensors = t.extra
	seen, stacks := map[string]string{}, map[string]*stack{}
	for _, w := range t.weights(f.file) {
		from := w.Name
		name, expert := t.nameOf(from)
		switch {
		case name != "" && expert >= 0:
			s := stacks[name]
			if s == nil {
				s = &stack{name: name, from: from, parts: map[int]weight{}}
				stacks[name] = s
				f.tensors = append(f.tensors, gguf.Tensor{Name: name}) // its place
			}
			s.parts[expert] = w
			continue
		case name == "":
			t.fault(from, "is not known to models of type %s", t.text("model_type", ""))
			continue
		case seen[name] != "":
			t.fault(from, "means the same as %s", clip(seen[name]))
			continue
		}
		seen[name] = from
		if name == "output.weight" && tied {
			continue // the embedding it is, whatever the file holds
		}
		parts, err := t.parts(name, w)
		if err != nil {
			t.fault(from, "%w", err)
			continue
		}
		for _, part := range parts {
			f.tensors = append(append(f.tensors, part.Tensor), scalesOf(part)...)
		}
	}
	for i := range f.tensors {
		if s := stacks[f.tensors[i].Name]; s != nil {
			var err error
			if f.tensors[i], err = s.joined(); err != nil {
				t.fault(s.from, "%w", err)
			}
		}
	}
	if !tied && seen["output.weight"] == "" {
		t.fail("tie_word_embeddings", "the output matrix is not the embedding, but no tensor lm_head.weight is in the files; download them again")
	}
}

// scalesOf are the factors that a weight keeps apart.
func scalesOf(w weight) (scales []gguf.Tensor) {
	for _, s := range []struct {
		name  string
		value float32
	}{{".scale", w.factor}, {".input_scale", w.input}} {
		if s.value != 1 {
			scale := gguf.Tensor{Name: strings.TrimSuffix(w.Name, ".weight") + s.name, Shape: []int{1}}
			scales = append(scales, ofFloats(weight{Tensor: scale}, []float32{s.value}).Tensor)
		}
	}
	return scales
}

// weights are the folder's, those that are several in one taken apart.
func (t *translation) weights(file *safetensors.File) (list []weight) {
	for _, w := range readWeights(file, t.object, t.skipped) {
		if t.family.fused != nil {
			list = append(list, t.family.fused(w)...)
		} else {
			list = append(list, w)
		}
	}
	return list
}

func (t *translation) fault(tensor, format string, args ...any) {
	*t.faults = append(*t.faults, fmt.Errorf("hf: %s: tensor %s: %w", filepath.Dir(t.path), clip(tensor), fmt.Errorf(format, args...)))
}

// nameOf translates a tensor's name, as ggufName does.
func (t *translation) nameOf(name string) (string, int) {
	if t.family.rename != nil {
		name = t.family.rename(t, name)
	}
	return ggufName(name, t.family)
}

// parts makes GGUF's tensors of one, of which the first has the name.
func (t *translation) parts(name string, w weight) ([]weight, error) {
	if t.family.parts != nil {
		return t.family.parts(t, name, w)
	}
	w, err := t.adapt(name, w)
	w.Name = name
	return []weight{w}, err
}

// adapt changes values and orders to what GGUF files of the family have.
func (t *translation) adapt(name string, w weight) (weight, error) {
	stem := strings.TrimSuffix(strings.TrimSuffix(name, ".weight"), ".bias")
	norm := strings.HasSuffix(stem, "_norm")
	switch {
	case norm && t.family.gains:
		return gain(w)
	case t.family.neighbours && strings.HasSuffix(stem, ".attn_q"):
		if err := t.neighbours(&w, t.heads); err != nil {
			return w, err
		}
	case t.family.neighbours && strings.HasSuffix(stem, ".attn_k"):
		if err := t.neighbours(&w, t.kvHeads); err != nil {
			return w, err
		}
	}
	return asIs(w)
}

// asIs is a weight that GGUF has alike, but for vectors, which are F32 there.
func asIs(w weight) (weight, error) {
	if len(w.Shape) == 1 && w.Type != gguf.F32 {
		v, err := vector(w)
		if err != nil {
			return w, err
		}
		return ofFloats(w, v), nil
	}
	return w, nil
}

// neighbours moves the rows of a matrix, or the values of a bias, such that a rotary pair (j, j+d/2) of a head's first d rows
// becomes (2j, 2j+1).
func (t *translation) neighbours(w *weight, heads int) error {
	if len(w.Shape) == 0 || w.Shape[0] != heads*t.headDim {
		return fmt.Errorf("shape %v, want %d rows (%d heads x %d)", w.Shape, heads*t.headDim, heads, t.headDim)
	}
	source := w.Tensor
	size := source.Size() / max(w.Shape[0], 1) // of a row
	dim, half := t.headDim, t.rotated/2
	w.Data, w.Drop = nil, nil
	w.Make = func() ([]byte, error) {
		data, err := source.Bytes()
		if err != nil {
			return nil, err
		}
		out := make([]byte, 0, len(data))
		for r := range heads * dim {
			from := r
			if in := r % dim; in < 2*half {
				from = r - in + in/2 + in%2*half
			}
			out = append(out, data[from*size:][:size]...)
		}
		source.Release(0, len(source.Data))
		return out, nil
	}
	return nil
}

// ggufName translates a tensor's name; "" if the family has none of that name. A name that ends in a dot is all of GGUF's. A tensor of
// one expert has its number, others have -1.
func ggufName(name string, fam *family) (string, int) {
	name = strings.Replace(name, "language_model.", "", 1)
	if strings.HasPrefix(name, "model.text_model.") {
		name = "model." + strings.TrimPrefix(name, "model.text_model.")
	}
	if name == "lm_head.weight" || strings.HasPrefix(name, "model.") {
		stem, end := name, ""
		for _, e := range []string{".weight", ".bias"} {
			if s, ok := strings.CutSuffix(name, e); ok {
				stem, end = s, e
			}
		}
		if to, ok := outside[stem]; ok && end != "" {
			return to + end, -1
		}
		rest, ok := strings.CutPrefix(stem, "model.layers.")
		layer, part, _ := strings.Cut(rest, ".")
		part, expert := expertOf(part)
		to, whole := strings.CutSuffix(fam.layer[part], ".")
		if n, err := strconv.Atoi(layer); ok && err == nil && strconv.Itoa(n) == layer && to != "" && whole == (end == "") {
			return "blk." + layer + "." + to + end, expert
		}
	}
	return "", -1
}
