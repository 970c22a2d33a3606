package cuda

import (
	"slices"
	"strings"
)

// Experts in a program (kernels/experts_few.cuh). Between route and experts_add, blocks know from their own shared memory who takes which
// expert: a crowd. So a program has all launches of a crowd, or none.

const (
	crowdRows  = 16      // at most
	crowdPairs = 32      // of rows and their experts, beyond which kernels are faster; at most PAIRS of kernels/experts_few.cuh
	crowdBytes = 4 << 10 // of shared memory: its Crowd fits
)

// expertLayouts are the packed forms that experts have in a program.
var expertLayouts = append(slices.Clone(programLayouts), layoutMX4)

// Arguments of the kernels of a crowd.
const (
	routeExperts, routeWeights, routeProducts, routeChosen, routeRows = 0, 1, 2, 7, 8
	sortWork, sortPlace, sortExperts, sortTile                        = 0, 1, 3, 7
	expertsOperand, expertsWork, expertsHidden, expertsProducts       = 6, 7, 14, 18
	expertsPairs                                                      = 19 // a program's own
	addProducts, addPlace, addWeights, addShared, addGate             = 1, 2, 3, 4, 5
)

// crowdDraft is the crowd that a draft has come to. What its launches name is how they know each other.
type crowdDraft struct {
	number                       int32 // in the program
	open                         bool  // experts_add is still to come
	phase                        int32 // since when blocks know it
	rows, pairs                  uint64
	experts, weights             uint64
	work, place, hidden, outputs uint64 // 0: the launch that names it is still to come
}

// route begins a crowd, as the first of its phase: the sooner rows have chosen, the sooner weights come.
func (p *draft) route(in instruction, l *launch) bool {
	rows, pairs := l.args[routeRows], l.args[routeRows]*l.args[routeChosen]
	if p.crowd.open || rows > crowdRows || pairs > crowdPairs {
		return false
	}
	in.x, in.y, in.phase = int32(rows), p.crowd.number, max(p.made(l.args[routeProducts])+1, p.crowd.phase)
	p.crowd = crowdDraft{number: p.crowd.number, open: true, phase: in.phase, rows: rows, pairs: pairs, experts: l.args[routeExperts], weights: l.args[routeWeights]}
	at := p.end(in.phase)
	for at > 0 && p.list[at-1].phase == in.phase && !strings.HasPrefix(operations[p.list[at-1].operation].name, "experts_") {
		at--
	}
	p.insert(at, in, l)
	return true
}

// joinSort makes sorting part of the routing before it.
func (p *draft) joinSort(l *launch) bool {
	c := &p.crowd
	if l.kernel.name != "sort_routes" || !c.open || c.work != 0 || l.args[sortExperts] != c.experts || l.args[sortTile] != fewPlaces {
		return false
	}
	c.work, c.place = l.args[sortWork], l.args[sortPlace]
	p.of = append(p.of, *l)
	return true
}

// experts is gates and values, downs, or experts_add of the crowd. It comes as soon as what it reads is there: before what has been recorded
// beside, like the down of a shared expert, which then waits with the others.
func (p *draft) experts(in instruction, l *launch) bool {
	c, args, reads := &p.crowd, &l.args, l.args[expertsOperand:][:1]
	switch {
	case !c.open || c.work == 0:
		return false
	case l.kernel.name == "experts_add":
		if c.outputs == 0 || args[addProducts] != c.outputs || args[addPlace] != c.place || args[addWeights] != c.weights {
			return false
		}
		c.open = false
		in.x, reads = int32(l.grid[1]), []uint64{args[addProducts], args[addShared], args[addGate]}
	case args[expertsWork] != c.work:
		return false
	case c.hidden == 0:
		c.hidden = args[expertsHidden]
	case c.outputs == 0 && args[expertsOperand] == c.hidden:
		c.outputs = args[expertsProducts]
	default:
		return false
	}
	if c.open {
		in.x, in.args[expertsPairs] = int32(c.rows), c.pairs
	}
	in.y, in.phase = c.number, c.phase
	for _, address := range reads {
		in.phase = max(in.phase, p.made(address)+1)
	}
	if !c.open {
		c.number, c.phase = c.number+1, in.phase
	}
	p.insert(p.end(in.phase), in, l)
	return true
}

// made is the last phase with an instruction that has an address for more than to multiply what lies there; -1: none.
func (p *draft) made(address uint64) int32 {
	for i := len(p.list) - 1; i >= 0 && address != 0; i-- {
		if in := &p.list[i]; slices.Contains(in.args[:], address) && in.operand() != address {
			return in.phase
		}
	}
	return -1
}

// end is where a phase ends in the list.
func (p *draft) end(phase int32) int {
	at := len(p.list)
	for at > 0 && p.list[at-1].phase > phase {
		at--
	}
	return at
}

func (p *draft) insert(at int, in instruction, l *launch) {
	p.phase = max(p.phase, in.phase)
	p.list, p.of = slices.Insert(p.list, at, in), append(p.of, *l)
}

// operand is what a matmul multiplies; 0: it is none.
func (in *instruction) operand() uint64 {
	switch name := operations[in.operation].name; {
	case name == "matmul_f32":
		return in.args[floatOperand]
	case strings.HasPrefix(name, "matmul_"):
		return in.args[matmulOperand]
	case strings.HasPrefix(name, "experts_") && name != "experts_add":
		return in.args[expertsOperand]
	}
	return 0
}
