package memra

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"memra/model"
	"memra/spec"
	"memra/state"
)

// Values of Options.Draft that are no path.
const (
	DraftAuto   = "auto"   // lookup, and beside it the model's own layer where it has one
	DraftMTP    = "mtp"    // a layer of the model's that guesses (multi-token prediction)
	DraftLookup = "lookup" // what followed the same tokens before, in the prompt or the answer
	DraftOff    = "off"
)

// ErrVocabulary is wrapped by the error of a draft model whose tokens are not the model's.
var ErrVocabulary = errors.New("the draft model has another vocabulary")

// DefaultDraftMax is Options.DraftMax unless given: with the row before them as many rows as a step of few has on any device. Only texts that
// repeat make so deep drafts pay.
const DefaultDraftMax = 15

// drafting is what guesses tokens ahead.
type drafting struct {
	kind   string // of Options.Draft, and "draft" for a model
	most   int
	file   io.Closer    // of the draft model
	small  *model.Model // the draft model; nil: none
	layout state.Layout // what it remembers of each position
	bytes  int          // and what it takes beside that
	drafts *spec.Speculator
}

// openDraft finds out what guesses for a model that is open, and opens that. small is the draft model's file, nil where none is named.
func (m *machine) openDraft(o Options, small file) (err error) {
	d := &m.drafting
	if d.most = cmp.Or(o.DraftMax, DefaultDraftMax); d.most < 0 || d.most > spec.MostDepth {
		return fmt.Errorf("memra: up to %d tokens guessed ahead, want 1 to %d, or 0 for %d", d.most, spec.MostDepth, DefaultDraftMax)
	}
	layer, ok := m.model.Family.(model.Drafter)
	has := ok && len(layer.DraftState()) > 0
	switch d.kind = cmp.Or(o.Draft, DraftAuto); d.kind {
	case DraftAuto:
		if !has {
			d.kind = DraftLookup
		}
	case DraftMTP:
		if !has {
			return fmt.Errorf("memra: %s has no layer that guesses tokens ahead (nextn_predict_layers); name a draft model, or let %q choose", m.facts.File, DraftAuto)
		}
	case DraftLookup, DraftOff:
	default:
		d.kind = "draft"
		if d.small, err = model.Open(fileSource{small}, m.device); err != nil {
			return fmt.Errorf("memra: the draft model: %w", err)
		}
		d.layout = d.small.State()
	}
	if d.kind == DraftMTP || d.kind == DraftAuto {
		d.layout, d.bytes = layer.DraftState(), spec.ChosenBytes(layer)
	}
	return nil
}

// cacheBytes is what the caches of a size take: the model's, and that of what guesses.
func (m *machine) cacheBytes(c state.Config) int { return m.model.State().Bytes(c) + m.layout.Bytes(c) }

// draftsOf makes what guesses for sequences of a cache's size.
func (m *machine) draftsOf(c state.Config) error {
	d := &m.drafting
	var drafter spec.Drafter
	var err error
	switch d.kind {
	case DraftOff:
		return nil
	case DraftLookup:
		drafter = spec.NewLookup(m.model)
	case DraftMTP, DraftAuto:
		var head *spec.Head
		head, err = spec.NewHead(m.device, m.model, c, d.most)
		if drafter = head; d.kind == DraftAuto && err == nil {
			drafter = spec.NewBoth(head, spec.NewLookup(m.model))
		}
	default:
		drafter, err = spec.NewSmall(m.device, d.small, m.model, c, d.most)
	}
	if err != nil {
		return err
	}
	d.drafts = spec.New(drafter, d.most, m.device.Padded)
	d.kind = d.drafts.Kind()
	return nil
}

// close gives back what guesses.
func (d *drafting) close() (err error) {
	if d.drafts != nil {
		err = d.drafts.Close()
	}
	if d.file != nil {
		err = errors.Join(err, d.file.Close())
	}
	return err
}

// draftModel opens the file that Options.Draft names, if it names one, and compares its vocabulary.
func (m *Model) draftModel(o Options) (file, error) {
	if slices.Contains([]string{"", DraftAuto, DraftMTP, DraftLookup, DraftOff}, o.Draft) {
		return nil, nil
	}
	f, err := openFile(o.Draft)
	if err != nil {
		return nil, fmt.Errorf("memra: the draft model: %w (a file, or one of %q, %q, %q, %q)", err, DraftAuto, DraftMTP, DraftLookup, DraftOff)
	}
	m.drafting.file = f
	t, err := newTokenizer(f)
	if err != nil {
		return nil, fmt.Errorf("memra: the draft model: %w", err)
	}
	return f, m.Tokenizer.agrees(t, o.Draft)
}

// agrees compares the tokens of a draft model with the model's own. The larger vocabulary may have more, at its end.
func (t *Tokenizer) agrees(draft *Tokenizer, path string) error {
	ours, theirs := t.tokenizer.Vocab(), draft.tokenizer.Vocab()
	for i := range int32(min(ours, theirs)) {
		if a, b := t.Piece(i), draft.Piece(i); string(a) != string(b) {
			return fmt.Errorf("memra: %s: %w: its token %d is %q, the model's %q; take a model of the same family", path, ErrVocabulary, i, b, a)
		}
	}
	if few := min(ours, theirs); 10*few < 9*max(ours, theirs) {
		return fmt.Errorf("memra: %s: %w: it has %d tokens, the model %d; take a model of the same family", path, ErrVocabulary, theirs, ours)
	}
	return nil
}

// Drafts is what became of the tokens that were guessed ahead so far, of all requests; Kind is what guesses them.
type Drafts struct {
	Kind     string // "mtp+lookup", "mtp", "lookup", "draft" or "off"
	Rounds   int    // steps of a sequence with guesses
	Drafted  []int  // guesses by depth: the first is the token after the next
	Accepted []int  // of which so many were what was drawn
}

// Drafts is what became of the tokens that were guessed ahead.
func (m *machine) Drafts() (d Drafts) {
	d.Kind = m.kind
	m.between(func() error {
		if m.drafts != nil {
			s := m.drafts.Stats()
			d.Rounds, d.Drafted, d.Accepted = s.Rounds, s.Drafted, s.Accepted
		}
		return nil
	})
	return d
}
