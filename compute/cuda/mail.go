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
	puts   []put  // those of writes that can be mail
	mail   []read // what it can read as mail: bit i of instruction.mail says that it does
	any    bool   // it is not known: it may use all that its arguments name
}

// read is an argument that names a tensor. Of an operand there are the rows that are wanted, and the argument that says how many rows its tiles have.
type read struct{ arg, rows, tile int }

// reads is what is no operand.
func reads(args ...int) (all []read) {
	for _, arg := range args {
		all = append(all, read{arg: arg})
	}
	return all
}

// put is an argument that names a tensor, and the tensor's bytes. Of an operand `tile` is the argument that says how many rows its tiles have.
type put struct{ arg, bytes, tile int }

// ownTile says that an operand has the program's tiles, or as mail the rows that are wanted: who puts it has bit 1 of instruction.mail then.
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
		a = access{writes: []int{rows, normed}, puts: []put{operand(normed, n(width), tile)}, mail: reads(x)}
		if in.args[normAdded] != 0 {
			a.writes, a.mail = append(a.writes, normSum), reads(normAdded)
		}
		return a
	case strings.HasPrefix(name, "matmul_") && name != "matmul_f32":
		a.mail = []read{{matmulOperand, n(matmulRows), ownTile}}
		if in.gates() != gatesNothing {
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
			a.writes, a.mail = append(a.writes, attendCache), reads(attendQueries, attendKeys, attendValues)
		}
		return a
	case p.tile != 8: // of many rows so much is asked for by who waits that weights come later for it
		return access{any: true}
	case name == "swiglu" || name == "geglu":
		const out, gate, up, width, tile = 0, 1, 2, 3, 4
		return access{writes: []int{out}, puts: []put{operand(out, n(width), tile)}, mail: reads(gate, up)}
	case name == "gated_norm":
		const out, x, gates, width, tile = 0, 1, 2, 4, 6
		return access{writes: []int{out}, puts: []put{operand(out, n(width), tile)}, mail: reads(x, gates)}
	case name == "delta_few":
		const spare, x, beta, alpha, heads = 0, 3, 5, 6, 16
		return access{writes: []int{spare, convolveOut, convolveMemory}, puts: []put{{convolveOut, 4 * int(in.x) * n(heads) * deltaFewDim, 0}}, mail: reads(x, beta, alpha)}
	case name == "route":
		return access{mail: reads(routeProducts)}
	case name == "experts_add":
		const out, width = 0, 6
		return access{writes: []int{out}, puts: []put{{out, 4 * int(in.x) * n(width), 0}}, mail: reads(addProducts, addShared, addGate)}
	case strings.HasPrefix(name, "experts_"):
		const outputs, tile, gates = 9, 11, 13
		if n(gates) != 0 {
			return access{writes: []int{expertsHidden}, puts: []put{{expertsHidden, 2 * roundUp(n(expertsPairs), fewPlaces) * paddedK(n(outputs)), 0}}, mail: []read{{expertsOperand, int(in.x), tile}}}
		}
		return access{writes: []int{expertsProducts}, puts: []put{{expertsProducts, 4 * n(expertsPairs) * n(outputs), 0}}, mail: reads(expertsOperand)}
	case name == "matmul_f32":
		a.mail = []read{{floatOperand, n(floatRows), floatTile}}
		for _, weight := range []struct{ out, outputs int }{{floatOut, floatOutputs}, {floatSecond, floatSecond + 2}} {
			a.writes, a.puts = append(a.writes, weight.out), append(a.puts, put{weight.out, 4 * n(floatRows) * n(weight.outputs), 0})
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
	writes  bool // of an instruction: it does
	puts    bool // it puts what can be mail
	mail    int  // the bit of instruction.mail that says that it reads mail; -1: it cannot
}

// leastAddress parts addresses from numbers, which have 32 bits: the driver gives none that is less.
const leastAddress = 1 << 32

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
		in, a := &m.list[i], m.accesses(&m.list[i])
		var all []span
		for arg, at := range in.args {
			if at < leastAddress {
				continue
			}
			n := span{arg: arg, at: at, end: at + uint64(max(1, m.extents[at])), writes: a.any || slices.Contains(a.writes, arg),
				puts: slices.ContainsFunc(a.puts, func(p put) bool { return p.arg == arg }), mail: slices.IndexFunc(a.mail, func(r read) bool { return r.arg == arg })}
			if layer, ok := m.layerOf(i, arg); ok { // layers lie among each other
				n.at += layer
				n.end = n.at + 1
			}
			all = append(all, n)
		}
		m.names, m.does = append(m.names, all), append(m.does, a)
	}
}

// layerOf is the layer of a memory of all layers, if an argument names one.
func (m *mailing) layerOf(i, arg int) (uint64, bool) {
	switch {
	case arg == attendCache && m.is(i, "attend_f16"):
		return m.list[i].args[attendLayer], true
	case arg == convolveMemory && m.is(i, "delta_few"):
		return m.list[i].args[convolveLayer], true
	}
	return 0, false
}

// conflict reports whether instruction b may begin only when all blocks have done a, which comes before it.
func (m *mailing) conflict(a, b int) bool {
	if m.does[a].any || m.does[b].any {
		return true
	}
	if m.rowsStay(a, b) {
		return false
	}
	for _, to := range m.names[b] {
		waits := to.mail >= 0 && m.list[b].mail>>to.mail&1 != 0
		for _, from := range m.names[a] {
			if from.overlaps(to) && (to.writes || from.writes) && !(waits && (from.puts || !to.writes)) && !m.stays(a, b, from, to) {
				return true
			}
		}
	}
	return false
}

// rowsStay reports whether rows of instruction b are made by the blocks that made them in a: norms have a block for a row.
func (m *mailing) rowsStay(a, b int) bool {
	return m.is(a, "add_norm") && m.is(b, "add_norm") && m.list[a].x == m.list[b].x
}

// stays reports whether what both name stays with its block: the states that delta nets do not keep, for their works are the same in all layers.
func (m *mailing) stays(a, b int, from, to span) bool {
	return m.is(a, "delta_few") && m.is(b, "delta_few") && from.arg == 0 && to.arg == 0
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
		if in.phase-last < 2 {
			continue
		}
		readers, all := m.readers(i, tensor)
		if !all || to.tile != 0 && slices.ContainsFunc(readers, func(r reader) bool { return r.rows != readers[0].rows }) {
			continue
		}
		for _, r := range readers {
			r.in.mail |= 1 << r.bit
		}
		if to.tile != 0 { // who waits reads no more lines than it must
			rows := readers[0].rows
			to.bytes = to.bytes / m.tile * rows
			for _, r := range readers {
				if r.tile != ownTile {
					r.in.args[r.tile] = uint64(rows)
				}
			}
			if to.tile == ownTile {
				in.mail |= 2
			} else {
				in.args[to.tile] = uint64(rows)
			}
		}
		m.absent = append(m.absent, absence{last + 1, to, tensor.at})
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

// reader is an instruction that can read a tensor as mail.
type reader struct {
	read
	in  *instruction
	bit int
}

// readers are those that read a tensor of instruction i, if there are any and all can read it as mail.
func (m *mailing) readers(i int, tensor span) (all []reader, ok bool) {
	for j := i + 1; j < len(m.list); j++ {
		again := false // it is written
		for _, n := range m.names[j] {
			if !n.overlaps(tensor) {
				continue
			}
			switch {
			case m.does[j].any || n.at != tensor.at || n.mail < 0 && !n.writes:
				return nil, false
			case n.mail >= 0:
				all = append(all, reader{m.does[j].mail[n.mail], &m.list[j], n.mail})
			}
			again = again || n.writes
		}
		if again {
			break
		}
	}
	return all, len(all) > 0
}

// A place that is cleared is an address and, in the 16 bits above it, its bytes in units.
const clearedUnit, mostCleared = 16, 16 * (1<<16 - 1)

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
			for at, left := a.at, a.bytes; left > 0; {
				if n == maxArgs {
					add()
				}
				bytes := min(left, mostCleared)
				in.args[n], n = at|uint64(ceilDiv(bytes, clearedUnit))<<48, n+1
				at, left = at+uint64(bytes), left-bytes
			}
			return true
		})
		add()
	}
	return list
}
