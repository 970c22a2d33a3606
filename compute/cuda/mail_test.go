package cuda

import (
	"fmt"
	"slices"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// drafted is the first program of a step on a driver without a GPU, before its operands become mail and after.
func drafted(t *testing.T, d *Device, forward func(compute.Ops, *compute.Batch) compute.Tensor, b *compute.Batch) *mailing {
	t.Helper()
	s := &d.step
	s.reset(0)
	forward(s, b)
	if s.fillIn(); s.err != nil {
		t.Fatal(s.err)
	}
	p := &draft{blocks: d.multiprocessors, extents: s.extents()}
	for i := range s.launches {
		if p.rest = s.launches[i+1:]; !p.add(&s.launches[i]) && len(p.list) > 0 {
			break
		}
	}
	if err := d.meetings(p); err != nil {
		t.Fatal(err)
	}
	return &mailing{draft: p, list: p.mailed()}
}

func TestAProgramWaitsForAllThatIsNotMail(t *testing.T) {
	d := openFake(t, newFake())
	type forward = func(compute.Ops, *compute.Batch) compute.Tensor
	steps := map[string]forward{"oddments": newOddments(t, d, 16).forward}
	for _, formats := range [][]gguf.Type{{gguf.BF16}, {gguf.Q8_0, gguf.BF16, gguf.Q8_0}} {
		steps[fmt.Sprint(formats)] = newStack(t, d, formats, 256, 64, layerArenas+2, 16).forward
	}
	for _, shape := range mixtureShapes()[:3] {
		steps[shape.name] = newMixture(t, d, shape, 16).forward
	}
	steps["a hybrid"] = newHybrid(t, d, 16, true, 3*layerArenas).forward
	for name, forward := range steps {
		for _, rows := range []int{1, 16} {
			b := new(compute.Batch)
			for r := range rows {
				b.Add(int32(r), 3, r, true)
			}
			m := drafted(t, d, forward, b)
			m.spans()
			for i := range m.list {
				if m.is(i, "clear") { // wasAbsent looks at those
					continue
				}
				for _, is := range m.names[i] {
					m.waits(t, fmt.Sprintf("%s, %d rows", name, rows), i, is)
				}
			}
		}
	}
}

// waits tests one argument of instruction i: whoever used its memory before, and wrote it or is followed by a write, did so in an earlier phase, or
// the argument is mail. Mail has been made absent in a phase of its own since then.
func (m *mailing) waits(t *testing.T, name string, i int, is span) {
	mail := is.mail >= 0 && m.list[i].mail>>is.mail&1 != 0
	for j := i - 1; j >= 0; j-- {
		from := &m.does[j]
		for _, was := range m.names[j] {
			if !was.overlaps(is) || !is.writes && !was.writes || m.is(j, "clear") {
				continue
			}
			to := slices.IndexFunc(from.puts, func(p put) bool { return p.arg == was.arg })
			switch {
			case mail && to >= 0:
				m.wasAbsent(t, name, j, was, from.puts[to].bytes)
				return
			case m.rowsStay(j, i) || m.stays(j, i, was, is):
			case m.list[j].phase == m.list[i].phase && m.draftPhase(j) != m.draftPhase(i):
				t.Errorf("%s: instruction %d, %s, uses argument %d in the phase of %d, %s, which has it as %d", name, i, operations[m.list[i].operation].name, is.arg, j,
					operations[m.list[j].operation].name, was.arg)
			}
		}
	}
	if mail {
		t.Errorf("%s: instruction %d waits for mail that nobody sends", name, i)
	}
}

// wasAbsent tests that a tensor that instruction i puts was cleared in a phase between.
func (m *mailing) wasAbsent(t *testing.T, name string, i int, tensor span, bytes int) {
	cleared := int32(-1)
	for j := i - 1; j >= 0; j-- {
		if in := &m.list[j]; !m.is(j, "clear") {
			if slices.ContainsFunc(m.names[j], tensor.overlaps) {
				if in.phase >= cleared {
					t.Errorf("%s: what instruction %d puts was used in phase %d and cleared in %d", name, i, in.phase, cleared)
				}
				return
			}
		} else {
			for _, place := range in.args {
				if place<<16>>16 == tensor.at && clearedUnit*int(place>>48) >= min(bytes/8, mostCleared) && in.phase < m.list[i].phase && cleared < 0 {
					cleared = in.phase
				}
			}
		}
	}
	if cleared < 0 {
		t.Errorf("%s: what instruction %d puts was not cleared", name, i)
	}
}

// draftPhase is the phase in the draft of an instruction of the list; instructions that clear have none there.
func (m *mailing) draftPhase(i int) int32 {
	n := 0
	for j := range i {
		if !m.is(j, "clear") {
			n++
		}
	}
	return m.draft.list[n].phase
}

// Blocks meet twice in a round of layers' memory, whatever the model. With more than 8 rows little is mail.
func TestModelsHaveFewPhases(t *testing.T) {
	d := openFake(t, newFake())
	const layers = 3 * layerArenas
	experts := mixtureShapes()[0]
	experts.layers = layers
	for _, c := range []struct {
		name    string
		forward func(compute.Ops, *compute.Batch) compute.Tensor
	}{
		{"a decoder", newStack(t, d, []gguf.Type{gguf.BF16}, 256, 64, layers, 4).forward},
		{"a hybrid", newHybrid(t, d, 4, true, layers).forward},
		{"a mixture", newMixture(t, d, experts, 4).forward},
	} {
		for _, rows := range []int{1, 4} {
			m, want := drafted(t, d, c.forward, rowsFrom(3, 1, rows, 0)), int32(2*layers/layerArenas+3)
			if n := m.list[len(m.list)-1].phase; n > want {
				t.Errorf("%d layers of %s, %d rows, are %d phases, want %d at most", layers, c.name, rows, n, want)
			}
		}
	}
}
