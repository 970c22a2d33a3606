package cuda

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"memra/compute"
)

// A program is launches of a step with few rows that run as one: kernels/program.cuh says how, and why. Steps are recorded as ever;
// when a list of launches becomes a graph, runs of launches that a program knows become one launch (fuse).

// programTiles are the rows of an operand's tile that there are programs for: with more rows kernels of their own are faster.
var programTiles = []int{8, 16}

const (
	programRings    = 180 << 10 // bytes of shared memory of a block's rings and rows
	programStages   = 16        // of a ring of weights, at most
	programUsers    = 8         // warps that compute: USERS of kernels/program.cuh
	programBringers = 4         // warps that bring what those need
	programPages    = 10        // of the KV cache for each of its blocks, beyond which attention is faster as a kernel
)

// programLayouts are the packed forms that it multiplies by.
var programLayouts = []*layout{layoutQ8, layoutQ4, layoutQ4M, layoutQ5, layoutQ5M, layoutQ6, layoutF16}

// operation is what a program can do: a kernel of its name computes the same.
type operation struct {
	name   string // of kernels/program.cuh
	kernel string
	params int  // of the kernel, lest one be added that the program does not know
	perRow bool // launched by perRow: y of the grid is rows
}

// operations are EACH_OPERATION of kernels/program.cuh, in its order.
var operations = func() (all []operation) {
	add := func(name, kernel string, params int) {
		all = append(all, operation{name: name, kernel: kernel, params: params})
	}
	addPerRow := func(name string, params int) { all = append(all, operation{name, name, params, true}) }
	add("add_norm", "add_norm", 10)
	add("qk_norm_rope", "qk_norm_rope", 12)
	for _, f := range []string{"f16", "q8_0", "e4m3"} {
		add("append_kv_"+f, "append_kv_"+f, 10)
	}
	for _, f := range []string{"f16", "q8_0", "e4m3"} {
		add("rope_append_"+f, "rope_append_"+f, 19)
	}
	addPerRow("swiglu", 6)
	addPerRow("geglu", 6)
	addPerRow("to_operand", 5)
	addPerRow("to_rows", 5)
	addPerRow("gather", 6)
	addPerRow("add", 5)
	addPerRow("columns", 5)
	addPerRow("scale", 6)
	addPerRow("add_bias", 3)
	addPerRow("gated_norm", 9)
	addPerRow("ungated", 4)
	addPerRow("open_gates", 5)
	add("delta_few", "delta_convolve", 20)
	add("matmul_f32", "matmul_f32", 8)
	add("route", "route", 14)
	add("experts_add", "experts_add", 8)
	add("clear", "", 0) // no kernel: see mail.go
	for _, l := range programLayouts {
		add("matmul_"+l.name, "matmul_hopper_"+l.name, 23)
	}
	add("attend_f16", "attend_few_f16", 18)
	for _, l := range expertLayouts {
		add("experts_"+l.name, fmt.Sprintf("experts_%s_%d", l.name, fewPlaces), 19)
	}
	return all
}()

// Arguments of kernels that a program looks at.
const (
	normSum, normAdded                                                                                                         = 0, 4
	ropeKeys, ropePositions, ropeKVHeads, ropeDim                                                                              = 1, 2, 7, 8
	matmulOperand, matmulTiles, matmulRows                                                                                     = 16, 18, 19
	matmulGated, matmulGateScale, matmulEach, matmulDepth                                                                      = 17, 20, 21, 23         // what a kernel has there a program has no use for
	floatOut, floatOperand, floatWeight, floatOutputs, floatRows, floatTile, floatEnd, floatSecond                             = 0, 1, 2, 3, 5, 6, 8, 8 // of matmul_f32, and behind those y, w and n of a second
	attendOut, attendQueries, attendCache, attendTables, attendPartials, attendArrivals, attendLayer, attendHeads, attendGroup = 0, 1, 2, 4, 6, 7, 10, 11, 12
	attendKeys, attendValues, attendGains, attendTable, attendTurn                                                             = 18, 19, 20, 22, 23 // if it turns: what qk_norm_rope and append_kv have
	convolveOut, convolveMemory, convolveRows, convolveTables, convolveLayer, convolveDim                                      = 2, 9, 10, 11, 14, 17
)

// gatesNothing is what most matmuls of a program do; SwiGLU and GeGLU are the numbers behind it (Activation of kernels/strips.cuh). With an operand in
// tiles of programGates rows products are gated as they are added up: with one in tiles of more that takes longer than a phase of its own.
const (
	gatesNothing = 0
	programGates = 8
)

// programDims are the widths of heads that there are programs for; programTurned is the widest head that they turn.
var programDims = []int{64, 128, 256}

const programTurned = 256

// What kernels/delta_few.cuh can do: heads of one width, few rows of a sequence, for each eight of them read all of S and a chunk says where three pages are.
// With more works than so many a multiprocessor a kernel is faster, which computes four of them at a time.
const deltaFewDim, deltaFewRows, deltaFewWorks = 128, 16, 2

// instruction is Instruction of kernels/program.cuh.
type instruction struct {
	operation, mail int16 // mail: see access
	phase, x, y     int32
	args            [maxArgs]uint64
}

// draft is a program that is being put together.
type draft struct {
	blocks int       // that the program will have
	tile   int       // of its matmuls; 0: none yet
	dim    int       // of its attention's heads; 0: none yet
	deltas [2]uint64 // rows and page tables of its delta nets; 0: none yet
	crowd  crowdDraft
	list   []instruction
	of     []launch // what the instructions came from, a launch each but for delta rules that joined a convolution
	phase  int32
	rest   []launch // what comes after
	extents
}

// hasPrograms reports whether the GPU has them.
func (d *Device) hasPrograms() bool { return d.target == "sm_90a" }

// fuse puts programs in the place of runs of launches. What it allocates is freed with the device: captured launches know it.
func (d *Device) fuse(list []launch) ([]launch, []pointer, error) {
	if !d.hasPrograms() {
		return list, nil, nil
	}
	var out []launch
	var memory []pointer
	begin := draft{blocks: d.multiprocessors, extents: d.step.extents()}
	p := begin
	end := func() error {
		defer func() { p = begin }()
		if p.tile == 0 || len(p.of) < 2 || p.crowd.open {
			out = append(out, p.of...)
			return nil
		}
		l, at, err := d.program(&p)
		if err != nil {
			return err
		}
		out, memory = append(out, l), append(memory, at)
		return nil
	}
	for i := range list {
		p.rest = list[i+1:]
		if p.add(&list[i]) {
			continue
		}
		if err := end(); err != nil {
			return nil, memory, err
		}
		p.rest = list[i+1:]
		if !p.add(&list[i]) {
			out = append(out, list[i])
		}
	}
	err := end()
	return out, memory, err
}

// add appends a launch, if the program can have it.
func (p *draft) add(l *launch) bool {
	name, tile, dim := l.kernel.name, 0, 0
	if rest, ok := strings.CutPrefix(name, "matmul_hopper_"); ok {
		layout, rows, _ := strings.Cut(rest, "_")
		name, tile = "matmul_hopper_"+layout, atoi(rows)
	} else if name == "matmul_f32" {
		tile = int(l.args[floatTile])
	}
	if tile != 0 && (!slices.Contains(programTiles, tile) || p.tile != 0 && p.tile != tile) {
		return false
	}
	if rest, ok := strings.CutPrefix(name, "attend_few_"); ok {
		width, format, _ := strings.Cut(rest, "_")
		name, dim = "attend_few_"+format, atoi(width)
		if !slices.Contains(programDims, dim) || p.dim != 0 && p.dim != dim {
			return false
		}
	}
	if p.joinDelta(l) || p.joinSort(l) || p.joinGate(l) || p.joinRope(l, dim) || p.joinOpening(l) || p.joinFloat(l) {
		return true
	}
	op := slices.IndexFunc(operations, func(o operation) bool { return o.kernel == name && o.params == l.count })
	if op < 0 {
		return false
	}
	in := instruction{operation: int16(op), x: int32(l.grid[0]), y: int32(l.grid[1]), args: l.args}
	follows := false // it needs nothing that the instruction before makes in another block
	switch {
	case (name == "qk_norm_rope" || strings.HasPrefix(name, "rope_append_")) && l.args[ropeDim] > programTurned:
		return false
	case name == "delta_convolve":
		deltas := [2]uint64{l.args[convolveRows], l.args[convolveTables]}
		if in.y > deltaFewRows || l.args[convolveDim] != deltaFewDim || p.deltas[0] != 0 && p.deltas != deltas {
			return false
		}
		p.deltas = deltas
		in.x, in.y = in.y, 0 // rows; sequences, of which the rule knows
	case name == "add_norm":
		if l.args[normAdded] == 0 { // no sum, then
			in.args[normSum] = 0
		}
		follows = p.last("add_norm") && p.list[len(p.list)-1].x == in.x // rows stay with their blocks
	case name == "route":
		return p.route(in, l)
	case strings.HasPrefix(name, "experts_"):
		return p.experts(in, l)
	case dim != 0 && int(in.x*in.y) > p.blocks: // as a kernel it has more blocks at a time
		return false
	case dim != 0:
		p.dim = dim
	case tile != 0:
		p.tile = tile
		follows = p.last("matmul_") && p.list[len(p.list)-1].operand() == in.operand()
		if name != "matmul_f32" {
			p.cut(&in, gatesNothing, 0, p.blocks)
		}
	case name == "add_bias": // with others of its phase, however late somebody reads the sum
		in.x, in.phase = in.y, p.made(l.args[0])+1
		p.insert(p.end(in.phase), in, l)
		return true
	case operations[op].perRow:
		in.x = in.y // rows
	}
	if len(p.list) > 0 && !follows {
		p.phase++
	}
	in.phase = p.phase
	p.list, p.of = append(p.list, in), append(p.of, *l)
	return true
}

// joinDelta makes the delta rule part of the convolution before it.
func (p *draft) joinDelta(l *launch) bool {
	if l.kernel.name != fmt.Sprintf("delta_rule_%d", deltaFewDim) || !p.last("delta_few") {
		return false
	}
	in := &p.list[len(p.list)-1]
	if out, memory, inputs := l.args[0], l.args[1], l.args[2:4]; out != in.args[convolveOut] || memory != in.args[convolveMemory] || !slices.Equal(inputs, in.args[:2]) {
		return false
	}
	in.y, in.args[0], in.args[1] = int32(l.grid[2]), l.args[5], l.args[17]
	p.of = append(p.of, *l)
	return true
}

// joinRope makes the rotation before attention part of it, and the way of keys and values into their pages, if all rows are the attention's, its works
// have few partial results (meeting), and nobody else reads what would have been turned. The width of its heads add has looked at.
func (p *draft) joinRope(l *launch, dim int) bool {
	const queries, keys, gains, table, heads, kvHeads, width, dims, neighbour, eps, cache, values, tables, layer = 0, 1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 18 // of a rotation
	if dim == 0 || !p.last("rope_append_f16") || int(l.grid[0]*l.grid[1]) > p.blocks {
		return false
	}
	in := &p.list[len(p.list)-1]
	rope := in.args
	if l.args[attendQueries] != rope[queries] || l.args[attendCache] != rope[cache] || l.args[attendTables] != rope[tables] || l.args[attendLayer] != rope[layer] ||
		l.args[attendHeads] != rope[kvHeads] || l.args[attendHeads]*l.args[attendGroup] != rope[heads] || rope[width] != uint64(dim) || !p.ends(rope[queries]) || !p.ends(rope[keys]) ||
		p.extents[l.args[attendPartials]] == 0 {
		return false
	}
	p.dim = dim
	*in = instruction{operation: int16(slices.IndexFunc(operations, func(o operation) bool { return o.name == "attend_f16" })), phase: in.phase,
		x: int32(l.grid[0]), y: int32(l.grid[1]), args: l.args}
	in.args[attendKeys], in.args[attendValues] = rope[keys], rope[values]
	copy(in.args[attendGains:], rope[gains:table+1])
	in.args[attendTurn] = rope[dims]<<34 | rope[neighbour]<<32 | rope[eps]&math.MaxUint32
	p.of = append(p.of, *l)
	return true
}

// joinOpening makes the gates of attention part of it, and the queries' way out of their projection, if it turns them.
func (p *draft) joinOpening(l *launch) bool {
	const out, projection, width, dim = 0, 1, 2, 3 // arguments of both
	if l.kernel.name != "open_gates" || !p.last("attend_f16") {
		return false
	}
	in := &p.list[len(p.list)-1]
	if in.args[attendKeys] == 0 || l.args[out] != in.args[attendOut] || l.args[dim] != uint64(p.dim) {
		return false
	}
	at := len(p.list) - 2
	for at >= 0 && !slices.Contains(p.list[at].args[:], in.args[attendQueries]) {
		at--
	}
	if at < 0 || operations[p.list[at].operation].name != "ungated" || p.list[at].args[out] != in.args[attendQueries] || !slices.Equal(p.list[at].args[projection:dim+1], l.args[projection:dim+1]) {
		return false
	}
	in.args[attendQueries] = l.args[projection]
	in.args[attendTurn] |= 1 << 33
	p.list, p.of = slices.Delete(p.list, at, at+1), append(p.of, *l)
	return true
}

// ends reports whether the next launch but one that names a tensor makes it anew, as a product or of one, if there is one: the next is the attention itself.
func (p *draft) ends(tensor uint64) bool {
	for i := range p.rest {
		l := &p.rest[i]
		if strings.HasPrefix(l.kernel.name, "attend_many_") && l.args[attendQueries] == tensor {
			return false
		}
		if at := slices.Index(l.args[:l.count], tensor); at >= 0 {
			return strings.HasPrefix(l.kernel.name, "matmul_") && at%4 == 0 && at < 4*maxSiblings || l.kernel.name == "ungated" && at == 0
		}
	}
	return true
}

// joinFloat makes a product with a float32 weight part of the one before it, of the same operand.
func (p *draft) joinFloat(l *launch) bool {
	if l.kernel.name != "matmul_f32" || !p.last("matmul_f32") {
		return false
	}
	in := &p.list[len(p.list)-1]
	if in.args[floatSecond] != 0 || l.args[floatOperand] != in.args[floatOperand] || !slices.Equal(l.args[floatOutputs+1:floatEnd], in.args[floatOutputs+1:floatEnd]) {
		return false
	}
	in.args[floatSecond], in.args[floatSecond+1], in.args[floatSecond+2] = l.args[floatOut], l.args[floatWeight], l.args[floatOutputs]
	p.of = append(p.of, *l)
	return true
}

// joinGate makes a gated activation part of the two products before it, where a chunk of kernels/strips.cuh has room for both.
func (p *draft) joinGate(l *launch) bool {
	kind := slices.Index([]string{"swiglu", "geglu"}, l.kernel.name)
	if kind < 0 || !p.last("matmul_") || p.last("matmul_f32") {
		return false
	}
	const out, gate, up, width, tile, scale = 0, 1, 2, 3, 4, 5 // its arguments
	in := &p.list[len(p.list)-1]
	n := l.args[width]
	for i, y := range []uint64{l.args[gate], l.args[up], 0, 0} { // the two, and no others
		if in.args[4*i] != y || y != 0 && in.args[4*i+3] != n {
			return false
		}
	}
	if p.tile != programGates || int(l.args[tile]) != p.tile || n%tileK != 0 || !p.cut(in, int32(kind+1), 0, p.blocks) {
		return false
	}
	in.args[matmulGated], in.args[matmulGateScale] = l.args[out], l.args[scale]
	p.of = append(p.of, *l)
	return true
}

// cut says what a block does of a matmul, if so many from one on take part: Strips and Chunks of kernels/strips.cuh. It reports whether there is room
// for that, and leaves the instruction alone where there is not.
func (p *draft) cut(in *instruction, gates int32, first, blocks int) bool {
	const sums = 16 << 10 // CHUNK: bytes; there are two of them
	lanes := 64           // that have sums of rows that are wanted, of 16 bytes
	if p.tile == 8 {
		lanes = 8 << bits.Len(uint(min(4, ceilDiv(int(in.args[matmulRows]), 2))-1))
	}
	pair := 1
	if gates != gatesNothing {
		pair = 2
	}
	strips, room, segments := in.strips(), sums/16/lanes, ceilDiv(int(in.args[matmulTiles]), hopperSegment/tileK)
	most := pair * (32 * programUsers / lanes) // a thread adds up one sum, or a pair
	each, depth := pair*ceilDiv(strips/pair, blocks), segments
	if each > most || each*segments > 2*room { // it takes several chunks, of a segment for each warp if there is one, so that it loads its rows of x once
		depth = min(segments, programUsers)
		if pair > 1 {
			depth = segments // they are gated when they are added up
		}
		if each = min(each, most, room/depth) / pair * pair; each == 0 {
			return false
		}
		depth = min(segments, room/each)
	}
	share, more := strips/pair/blocks, strips/pair%blocks
	in.x, in.y = int32(share|more<<16), gates|int32(first)<<8|int32(blocks)<<20
	in.args[matmulEach], in.args[matmulDepth] = uint64(each), uint64(depth)
	return true
}

// strips are the strips of a matmul's weights.
func (in *instruction) strips() (n int) {
	for i := range maxSiblings {
		n += ceilDiv(int(in.args[4*i+3]), 16)
	}
	return n
}

// gates is what becomes of a matmul's products.
func (in *instruction) gates() int32 { return in.y & 0xff }

// last reports whether the last instruction is an operation whose name begins like this.
func (p *draft) last(name string) bool {
	return len(p.list) > 0 && strings.HasPrefix(operations[p.list[len(p.list)-1].operation].name, name)
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// program brings a draft to the device.
func (d *Device) program(p *draft) (launch, pointer, error) {
	if d.gate == 0 {
		var err error
		if d.gate, err = d.alloc(256, "a program's counter"); err != nil {
			return launch{}, 0, err
		}
		if err := check(d.driver, d.driver.memset(d.gate, 0, 256, d.stream), "cuMemsetD8Async(256 bytes)"); err != nil {
			return launch{}, 0, d.broken(err)
		}
	}
	if err := d.meetings(p); err != nil {
		return launch{}, 0, err
	}
	p.sideBySide()
	list := p.mailed()
	code := unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), len(list)*int(unsafe.Sizeof(instruction{})))
	at, err := d.alloc(len(code), "a program of %d instructions", len(list))
	if err != nil {
		return launch{}, 0, err
	}
	host, err := d.code.room(d, len(code))
	if err != nil {
		return launch{}, at, err
	}
	copy(host, code)
	if err := check(d.driver, d.driver.copyIn(at, unsafe.Pointer(&host[0]), len(code), d.stream), "cuMemcpyHtoDAsync(%d bytes)", len(code)); err != nil {
		return launch{}, at, d.broken(err)
	}
	if err := check(d.driver, d.driver.streamSynchronize(d.stream), "cuStreamSynchronize"); err != nil {
		return launch{}, at, d.broken(err)
	}
	r := p.rings()
	sh := shape{grid: grid(p.blocks, 1), block: 32 * (programUsers + programBringers), shared: r.bytes()}
	l := newLaunch(d.kernel(fmt.Sprintf("program_%d_%d", p.tile, cmp.Or(p.dim, programDims[0]))), sh,
		at.arg(), i32(len(list)), d.gate.arg(), i32(r.page), i32(r.pages), i32(r.strip), i32(r.strips), i32(r.runs), i32(r.rows))
	l.cooperative = true
	return l, at, nil
}

// rings are where pages of the KV cache and weights pass: bytes of a stage, and stages; of weights, of each using warp. A stage of weights
// is a piece of a strip (layout.piece). A warp may wait for two at a time. Behind the rings each using warp has so many runs of the rows of an
// operand of up to 8, two where that is little; at the end is a crowd, if there are experts.
type rings struct{ page, pages, strip, strips, runs, rows, crowd int }

func (r rings) bytes() int {
	return r.page*r.pages + programUsers*(r.strip*r.strips+r.rowBytes()) + r.crowd
}

// rowBytes is a warp's part of operands: 512 bytes a row of a run.
func (r rings) rowBytes() int { return r.runs * r.rows * 512 }

// programRoom is what rings and rows may have: what heads of 256 need beside is not theirs.
func programRoom(dim int) int {
	if dim == 256 {
		return programRings - 3<<10
	}
	return programRings
}

// rings gives the weights what stages of pages, and the rows, leave.
func (p *draft) rings() (r rings) {
	for i := range p.list {
		name := operations[p.list[i].operation].name
		if name == "attend_f16" {
			r.page, r.pages = compute.Page*compute.KVF16.RowBytes(p.dim), 2
			if p.tile == 16 && r.page <= 16<<10 { // a block has many pages to go through
				r.pages = 4
			}
		}
		if name == "route" {
			r.rows, r.crowd = max(r.rows, min(2, int(p.list[i].x))), crowdBytes
		}
		if name, ok := strings.CutPrefix(name, "experts_"); ok && name != "add" {
			l := expertLayouts[slices.IndexFunc(expertLayouts, func(l *layout) bool { return l.name == name })]
			r.strip = max(r.strip, l.piece()*l.bytes/4)
		}
		if l := programLayout(&p.list[i]); l != nil {
			r.strip = max(r.strip, l.piece()*l.bytes/4)
			if p.tile == 8 {
				r.rows = max(r.rows, min(8, int(p.list[i].args[matmulRows])))
			}
		}
	}
	r.runs = 1
	if r.rows <= 4 {
		r.runs = 2
	}
	if r.strip == 0 { // float32 weights alone pass none
		return r
	}
	r.strips = min(programStages, ((programRoom(p.dim)-r.page*r.pages-r.crowd)/programUsers-r.rowBytes())/r.strip)
	return r
}
