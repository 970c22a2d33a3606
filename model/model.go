package model

import (
	"fmt"
	"slices"
	"strings"

	"memra/compute"
	"memra/internal/nearest"
	"memra/state"
)

// Family is a kind of model: configuration and weights, bound by their tags, and what they compute.
type Family interface {
	// State says what the model remembers of each position.
	State() state.Layout

	// Forward computes the rows of b, appends them to s, and returns a logits row, [vocab], for each row of b that asks for
	// one. A row's result does not depend on the other rows.
	Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor
}

var families = map[string]func() Family{}

// Register adds a family under the name that model files give it (general.architecture).
func Register(name string, make func() Family) { families[name] = make }

var mixtures = map[string]func() Family{}

// RegisterMixture adds a family with experts under a name that files give to one without, too.
func RegisterMixture(name string, make func() Family) { mixtures[name] = make }

// Families lists the names of the families, sorted.
func Families() []string {
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Model is a family bound to the weights of one file on one device.
type Model struct {
	Family
	Name    string // of the family
	Vocab   int    // rows of logits
	Context int    // positions that the model was made for; 0: the file does not say
	Bytes   int    // that a token's matmuls read
}

// Open binds a model file to a device. Its error lists everything that is wrong with the file.
func Open(src Source, d compute.Device) (*Model, error) {
	m, b, err := bound(src)
	if err != nil {
		return nil, err
	}
	if m.Bytes, err = b.pack(d); err != nil {
		return nil, err
	}
	src.Release()
	return m, nil
}

// Check binds a model file to no device, and returns the rows of its logits: its error lists everything that is wrong with the
// configuration and with the tensors' names and shapes.
func Check(src Source) (vocab int, err error) {
	m, _, err := bound(src)
	if err != nil {
		return 0, err
	}
	return m.Vocab, nil
}

// bound is a model whose weights are found, and not packed yet.
func bound(src Source) (*Model, *binder, error) {
	name, err := src.Metadata().String("general.architecture")
	if err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	make, ok := families[name]
	if n, err := src.Metadata().Int(name + ".expert_count"); err == nil && n > 0 && mixtures[name] != nil {
		make = mixtures[name]
	}
	if !ok {
		hint := ""
		if n := nearest.To(name, Families()); n != "" {
			hint = fmt.Sprintf("; the nearest is %s, which computes something else", n)
		}
		return nil, nil, fmt.Errorf("model: %s: family %q is not supported, want one of %s%s", src.Name(), name, strings.Join(Families(), ", "), hint)
	}
	m := &Model{Family: make(), Name: name}
	b := newBinder(src, name)
	if err := b.bind(m.Family); err != nil {
		return nil, nil, err
	}
	m.Vocab = b.dims["Vocab"]
	if n, err := src.Metadata().Int(name + ".context_length"); err == nil {
		m.Context = n
	}
	return m, b, nil
}
