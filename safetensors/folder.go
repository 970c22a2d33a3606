package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	indexName  = "model.safetensors.index.json"
	singleName = "model.safetensors"
	maxIndex   = 32 << 20 // bytes of an index
)

// ErrNoWeights is wrapped by OpenFolder's error where a folder has no safetensors files of a model.
var ErrNoWeights = errors.New("no weights")

// OpenFolder maps the weights of a model folder: the shards that model.safetensors.index.json lists; without it, all of
// model-0000i-of-0000n.safetensors; or model.safetensors. Other files, such as consolidated.safetensors, which repeat the weights
// under other names, are not read.
func OpenFolder(folder string) (*File, error) {
	shards, index, err := shardsOf(folder)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range shards {
		if _, err := os.Stat(filepath.Join(folder, name)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
		}
	}
	if n := len(missing); n > 0 {
		return nil, fmt.Errorf("safetensors: %s: %d of the model's %d files are missing: %s; download them: %w",
			folder, n, len(shards), strings.Join(few(missing), ", "), fs.ErrNotExist)
	}
	f := &File{Path: folder, byName: map[string]int{}}
	for _, name := range shards {
		if err := f.read(filepath.Join(folder, name)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err := f.agree(filepath.Join(folder, indexName), index); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// agree checks that the shards hold the tensors that the index puts there, and no other. A nil index agrees with all.
func (f *File) agree(path string, index map[string]string) error {
	if index == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		t, ok := f.Tensor(name)
		switch {
		case !ok:
			return fmt.Errorf("safetensors: %s: tensor %q is said to be in %s, which does not have it; the files are of different models", path, clip(name), index[name])
		case filepath.Base(t.File) != index[name]:
			return fmt.Errorf("safetensors: %s: tensor %q is said to be in %s, but %s has it; the files are of different models", path, clip(name), index[name], t.File)
		}
	}
	for i := range f.Tensors {
		if t := &f.Tensors[i]; index[t.Name] == "" {
			return fmt.Errorf("safetensors: %s: tensor %q of %s is not in the index; the files are of different models", path, clip(t.Name), t.File)
		}
	}
	return nil
}

// shardsOf returns the names of a folder's weight files, sorted, and its index if it has one.
func shardsOf(folder string) (shards []string, index map[string]string, err error) {
	list, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, fmt.Errorf("safetensors: %w", err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	switch {
	case slices.Contains(names, indexName):
		index, err = readIndex(filepath.Join(folder, indexName))
		if err != nil {
			return nil, nil, err
		}
		used := map[string]bool{}
		for _, name := range index {
			used[name] = true
		}
		return slices.Sorted(maps.Keys(used)), index, nil
	case slices.Contains(names, singleName):
		return []string{singleName}, nil, nil
	}
	for _, name := range names {
		if part := shardName.FindStringSubmatch(name); part != nil {
			count, _ := strconv.Atoi(part[1]) // five digits
			if count == 0 {
				continue
			}
			for i := range count {
				shards = append(shards, fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, count))
			}
			return shards, nil, nil
		}
	}
	return nil, nil, fmt.Errorf("safetensors: %s: %w: want %s, or %s with the files that it lists%s", folder, ErrNoWeights, singleName, indexName, others(names))
}

var shardName = regexp.MustCompile(`^model-\d{5}-of-(\d{5})\.safetensors$`)

// others says what a folder without weights has that may be meant.
func others(names []string) string {
	for _, name := range names {
		switch filepath.Ext(name) {
		case ".gguf":
			return "; it has " + name + ", name that file"
		case ".bin", ".pt", ".pth":
			return "; it has " + name + ", which is not read: save the model as safetensors"
		case ".safetensors":
			return "; it has " + name + ", which is no name of a whole model's weights"
		}
	}
	return ""
}

// readIndex reads weight_map of an index: the file of each tensor.
func readIndex(path string) (map[string]string, error) {
	fail := func(format string, args ...any) (map[string]string, error) {
		return nil, fmt.Errorf("safetensors: %s: "+format, append([]any{path}, args...)...)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxIndex {
		return fail("is no regular file of at most %d bytes", maxIndex)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if err := refuseLong(data); err != nil {
		return fail("%w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := expect(d, '{'); err != nil {
		return fail("%w", err)
	}
	memory := budget(spare)
	var index map[string]string
	for d.More() {
		key, err := next[string](d, "a name")
		if err != nil {
			return fail("%w", err)
		}
		if key != "weight_map" {
			if err := skip(d); err != nil {
				return fail("%q: %w", clip(key), err)
			}
			continue
		}
		if index != nil {
			return fail("weight_map is there twice")
		}
		if index, err = texts(d, &memory); err != nil {
			return fail("weight_map: %w", err)
		}
	}
	if err := expect(d, '}'); err != nil {
		return fail("%w", err)
	}
	if len(index) == 0 {
		return fail("found no weight_map with tensors; download it again")
	}
	for tensor, name := range index {
		if name == "." || name == ".." || name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || filepath.Ext(name) != ".safetensors" {
			return fail("tensor %q is said to be in %q, want the name of a .safetensors file in the same folder", clip(tensor), clip(name))
		}
	}
	return index, nil
}

// skip reads a value that does not matter.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > 32 {
				return errors.New("arrays and objects lie more than 32 deep in each other")
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// few is at most five names.
func few(names []string) []string {
	if len(names) > 5 {
		return append(names[:5:5], "...")
	}
	return names
}
