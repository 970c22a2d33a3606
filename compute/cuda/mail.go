package cuda

import (
	"slices"
	"strings"
)

// Mail spares a program most of its phases: operands whose values say by themselves whether they have come (kernels/mail.cuh). Who reads only
// mail, and writes nothing that others may still use, waits for no gate.
//
// A tensor is mail if an operation that puts each of its values once makes it and only operations that can wait for values read it. Its memory must
// be absent then, so an instruction clears it: behind a gate since when nobody uses what was there, and before another one. That is why layers of few
// rows have many arenas in turn: gates are for a round of them.

// access says what an operation does with its arguments.
type access struct {
	writes []int
	puts   []put // those of writes that can be mail
	mail   []int // those that it can read as mail: bit i of instruction.mail says that it does
	any    bool  // it is not known: it may use all that its arguments name
}

// put is an argument that names a tensor, and the tensor's bytes. Of an operand `tile` is the argument that says how many rows its tiles have.
type put struct{ arg, bytes, tile int }

// ownTile says that an operand has the program's tiles, or as mail, with bit 1 of instruction.mail, the rows that are wanted.
const ownTile = -1

// completes is a bit of instruction.mail: see complete.
const completes = 8

// accesses of an instruction.
func (p *draft) accesses(in *instruction) (a access) {
	n := func(arg int) int { return int(in.args[arg]) }
	operand := func(arg, width, tile int) put { return put{arg, 2 * paddedK(width) * p.tile, tile} }
	switch name := operations[in.operation].name; {
	case name == "clear":
		return a
	case name == "add_norm":
		const rows, normed, x, width, tile = 1, 2, 3, 6, 7
		a = access{writes: []int{rows, normed}, puts: []put{operand(normed, n(width), tile)}, mail: []int{x}}
		if in.args[normAdded] != 0 {
			a.writes, a.mail = append(a.writes, normSum), []int{normAdded}
		}
		return a
	case strings.HasPrefix(name, "matmul_") && name != "matmul_f32":
		a.mail = []int{matmulOperand}
		if in.y != gatesNothing {
			a.puts = []put{operand(matmulGated, n(3), ownTile)}
		} else {
			for i := 0; i < maxSiblings && n(4*i+3) != 0; i++ {
				a.puts = append(a.puts, put{4 * i, 4 * n(matmulRows) * n(4*i+3), 0})
			}
		}
		for _, to := range a.puts {
			a.writes = append(a.writes, to.arg)
		}
		return a
	case name == "attend_f16":
		const kvHeads, group, tile = 11, 12, 13
		a = access{writes: []int{attendOut, attendPartials, attendArrivals}, puts: []put{operand(attendOut, n(kvHeads)*n(group)*p.dim, tile)}}
		if in.args[attendKeys] != 0 {
			a.writes, a.mail = append(a.writes, attendCache), []int{attendQueries, attendKeys, attendValues}
		}
		return a
	}
	return access{any: true}
}

// meetings gives works of attention that turns a place to meet without counters: one that is absent, of a layer for a while. Who merges leaves it so.
func (d *Device) meetings(p *draft) error {
	most := 0
	each := func(f func(in *instruction)) {
		for i := range p.list {
			if in := &p.list[i]; operations[in.operation].name == "attend_f16" && in.args[attendKeys] != 0 {
				f(in)
			}
		}
	}
	each(func(in *instruction) { most = max(most, p.extents[in.args[attendPartials]]) })
	if m := &d.met; most > m.bytes {
		at, err := d.alloc(layerArenas*most, "partial results of attention")
		if err != nil {
			return err
		}
		if err := check(d.driver, d.driver.memset(at, 0xff, layerArenas*most, d.stream), "cuMemsetD8Async(%d bytes)", layerArenas*most); err != nil {
			return d.broken(err)
		}
		m.at, m.bytes = at, most
	}
	each(func(in *instruction) {
		in.args[attendPartials], in.args[attendArrivals] = uint64(d.met.at)+uint64(d.met.bytes)*(in.args[attendLayer]%layerArenas), 0
		p.extents[in.args[attendPartials]] = d.met.bytes
	})
	return nil
}

// extents are the bytes behind the addresses of a step's tensors, at most.
type extents map[uint64]int

// span is an argument that names memory.
type span struct {
	arg     int
	at, end uint64
}

func (n span) overlaps(o span) bool { return n.at < o.end && o.at < n.end }

// mailing is a program while its operands become mail and its phases fewer.
type mailing struct {
	*draft
	list   []instruction
	names  [][]span // of each
	does   []access
	absent []absence
}

// absence is memory that a phase makes absent.
type absence struct {
	phase int32
	put
	at uint64
}

// mailed gives the instructions with mail, in fewer phases.
func (p *draft) mailed() []instruction {
	m := mailing{draft: p, list: slices.Clone(p.list)}
	m.spans()
	phase, since := int32(0), 0 // the instructions since the last gate
	for i := range m.list {
		for j := since; j < i; j++ {
			if p.list[j].phase != p.list[i].phase && m.conflict(j, i) {
				phase, since = phase+1, i
				break
			}
		}
		m.list[i].phase = phase
		m.send(i)
		m.complete(i)
	}
	return m.cleared()
}

// spans finds what the instructions name.
func (m *mailing) spans() {
	m.names, m.does = nil, nil
	for i := range m.list {
		var all []span
		for arg, at := range m.list[i].args {
			if at != 0 {
				all = append(all, span{arg, at, at + uint64(max(1, m.extents[at]))})
			}
			if arg == attendCache && m.is(i, "attend_f16") { // layers lie among each other
				all[len(all)-1].at += m.list[i].args[attendLayer]
				all[len(all)-1].end = all[len(all)-1].at + 1
			}
		}
		m.names, m.does = append(m.names, all), append(m.does, m.accesses(&m.list[i]))
	}
}

// conflict reports whether instruction b may begin only when all blocks have done a, which comes before it.
func (m *mailing) conflict(a, b int) bool {
	first, then := &m.does[a], &m.does[b]
	if first.any || then.any {
		return true
	}
	if m.is(a, "add_norm") && m.is(b, "add_norm") && m.list[a].x == m.list[b].x { // rows stay with their blocks
		return false
	}
	for _, to := range m.names[b] {
		bit, writes := slices.Index(then.mail, to.arg), slices.Contains(then.writes, to.arg)
		waits := bit >= 0 && m.list[b].mail>>bit&1 != 0
		for _, from := range m.names[a] {
			put := slices.ContainsFunc(first.puts, func(p put) bool { return p.arg == from.arg })
			if from.overlaps(to) && (writes || slices.Contains(first.writes, from.arg)) && !(waits && (put || !writes)) {
				return true
			}
		}
	}
	return false
}

func (m *mailing) is(i int, operation string) bool {
	return operations[m.list[i].operation].name == operation
}

// send makes mail of what instruction i puts, where that can be.
func (m *mailing) send(i int) {
	in := &m.list[i]
	for _, to := range m.does[i].puts {
		n := slices.IndexFunc(m.names[i], func(n span) bool { return n.arg == to.arg })
		if n < 0 || to.tile != 0 && m.tile != 8 { // operands of 16 rows lie in registers: kernels/strips.cuh
			continue
		}
		tensor, last := m.names[i][n], int32(-1) // the phase that uses the memory before
		for j := i - 1; j >= 0 && last < 0; j-- {
			if slices.ContainsFunc(m.names[j], tensor.overlaps) {
				last = m.list[j].phase
			}
		}
		if in.phase-last >= 2 && m.readers(i, tensor, func(*instruction, int) {}) {
			rows := 0
			m.readers(i, tensor, func(reader *instruction, bit int) {
				reader.mail |= 1 << bit
				rows = int(reader.args[matmulRows])
			})
			if to.tile != 0 { // who waits reads no more lines than it must
				to.bytes = to.bytes / m.tile * rows
				if to.tile == ownTile {
					in.mail |= 2
				} else {
					in.args[to.tile] = uint64(rows)
				}
			}
			m.absent = append(m.absent, absence{last + 1, to, tensor.at})
		}
	}
}

// complete tells attention that turns whether nobody else in the program writes its pages: then no block waits for them.
func (m *mailing) complete(i int) {
	in := &m.list[i]
	if m.is(i, "attend_f16") && in.args[attendKeys] != 0 && !slices.ContainsFunc(m.list[:i], func(earlier instruction) bool {
		return slices.Contains(earlier.args[:], in.args[attendCache]) && (operations[earlier.operation].name != "attend_f16" || earlier.args[attendLayer] == in.args[attendLayer])
	}) {
		in.mail |= completes
	}
}

// readers calls f for those that read a tensor of instruction i, and reports whether there are any and all can read it as mail.
func (m *mailing) readers(i int, tensor span, f func(in *instruction, bit int)) (all bool) {
	for j := i + 1; j < len(m.list); j++ {
		a, again := &m.does[j], false // it is written
		for _, n := range m.names[j] {
			if !n.overlaps(tensor) {
				continue
			}
			bit, writes := slices.Index(a.mail, n.arg), slices.Contains(a.writes, n.arg)
			switch {
			case a.any || n.at != tensor.at || bit < 0 && !writes:
				return false
			case bit >= 0:
				f(&m.list[j], bit)
				all = true
			}
			again = again || writes
		}
		if again {
			return all
		}
	}
	return all
}

// cleared is the list with what makes memory absent: where most blocks wait for a norm, or at the end of the phase.
func (m *mailing) cleared() (list []instruction) {
	clear := int16(slices.IndexFunc(operations, func(o operation) bool { return o.name == "clear" }))
	for i := range m.list {
		list = append(list, m.list[i])
		phase := m.list[i].phase
		ends := i+1 == len(m.list) || m.list[i+1].phase != phase
		if !ends && !m.is(i, "add_norm") {
			continue
		}
		in := instruction{operation: clear, phase: phase}
		n := 0
		add := func() {
			if n > 0 {
				list, in.args, n = append(list, in), [maxArgs]uint64{}, 0
			}
		}
		m.absent = slices.DeleteFunc(m.absent, func(a absence) bool {
			if a.phase != phase {
				return false
			}
			if n == maxArgs {
				add()
			}
			in.args[n], in.args[n+1], n = a.at, uint64(a.bytes), n+2
			return true
		})
		add()
	}
	return list
}
