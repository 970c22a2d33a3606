package memra

import (
	"errors"
	"fmt"
	"strings"

	"memra/internal/synthetic"
)

// Synthetic is a model of a well-known shape with random weights. It computes at the speed of a real one, which is all that can be
// asked of it.
type Synthetic struct{ machine }

// OpenSynthetic makes a model: SyntheticNames lists the shapes, SyntheticFormats the formats of weights. No file is read or written.
func OpenSynthetic(name, format string, o Options) (*Synthetic, error) {
	src, err := synthetic.New(name, format)
	if err != nil {
		return nil, err
	}
	m := new(Synthetic)
	o.Draft = DraftOff // its tokens mean nothing
	if err := m.open(src, o, nil); err != nil {
		var large *sizeError
		if errors.As(err, &large) {
			err = fmt.Errorf("%w%s", err, m.alternatives(name))
		}
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// alternatives lists the formats in which a shape would fit the device.
func (m *Synthetic) alternatives(name string) string {
	var fitting []string
	for _, format := range synthetic.Formats() {
		if src, err := synthetic.New(name, format); err == nil && m.fits(src) == nil {
			fitting = append(fitting, fmt.Sprintf("%s (%d bytes)", format, src.Bytes()))
		}
	}
	if fitting == nil {
		return "; no format of it would fit"
	}
	return "; what would fit: " + strings.Join(fitting, ", ")
}

// SyntheticNames lists the shapes that OpenSynthetic knows.
func SyntheticNames() []string { return synthetic.Names() }

// SyntheticFormats lists the formats that it makes weights in.
func SyntheticFormats() []string { return synthetic.Formats() }
