package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// regex is a compiled pattern. It matches by backtracking, as Oniguruma does: alternatives in order, repetition as its mode
// says. Where a choice has failed at some place it would fail again, whatever led there; that is remembered, for all matches
// in a text. So a text takes time in proportion to its length times the number of choices in the pattern.
type regex struct {
	code    []instruction
	choices int // number of opChoice
	scratch sync.Pool
}

type instruction struct {
	op       opcode
	set      *charset
	x, y     int           // opChoice: try x, then y; opJump: x; opRun: at least x characters, at most y (-1: any)
	choice   int           // opChoice: which
	look     [][]regexNode // opLook: what may follow, each a sequence of charsets and anchors
	not      bool          // opLook: must not
	anchorAt regexAnchor   // opAnchor
}

type opcode uint8

const (
	opSet    opcode = iota // a character of set
	opRun                  // as many of set as there are
	opChoice               //
	opJump                 //
	opLook                 // what follows, without taking it
	opAnchor               //
	opMatch                //
)

// backtracker is what matching in a text needs: reused, never shared by two calls at once.
type backtracker struct {
	failed []uint64 // a bit for each place and choice
	stack  []resume
}

type resume struct{ pc, pos int }

func compileRegex(pattern string) (*regex, error) {
	fail := func(err error) (*regex, error) {
		return nil, fmt.Errorf("tokenizer: pattern %.100q: %w", pattern, err)
	}
	if len(pattern) > regexLength {
		return fail(fmt.Errorf("it has %d bytes, want at most %d", len(pattern), regexLength))
	}
	n, err := parseRegex(pattern)
	if err != nil {
		return fail(err)
	}
	if matchesEmpty(n) {
		return fail(errors.New("it may match nothing at all, which is not supported"))
	}
	r := &regex{}
	if err := r.emit(n); err != nil {
		return fail(err)
	}
	r.add(instruction{op: opMatch})
	r.scratch.New = func() any { return new(backtracker) }
	return r, nil
}

func (r *regex) add(i instruction) int {
	if i.op == opChoice {
		i.choice = r.choices
		r.choices++
	}
	r.code = append(r.code, i)
	return len(r.code) - 1
}

func (r *regex) emit(n regexNode) error {
	if len(r.code) > regexSize || r.choices > regexChoices {
		return fmt.Errorf("it is too large: more than %d steps or %d choices", regexSize, regexChoices)
	}
	switch n := n.(type) {
	case *charset:
		r.add(instruction{op: opSet, set: n})
	case regexAnchor:
		r.add(instruction{op: opAnchor, anchorAt: n})
	case regexCat:
		for _, x := range n {
			if err := r.emit(x); err != nil {
				return err
			}
		}
	case regexAlt:
		return r.emitAlt(n)
	case regexRepeat:
		return r.emitRepeat(n)
	case regexLook:
		alt, ok := n.node.(regexAlt)
		if !ok {
			alt = regexAlt{n.node}
		}
		i := instruction{op: opLook, not: n.not}
		for _, branch := range alt {
			steps, ok := straight(branch)
			if !ok {
				return errors.New("lookahead at anything but a fixed number of characters is not supported")
			}
			i.look = append(i.look, steps)
		}
		r.add(i)
	}
	return nil
}

func (r *regex) emitAlt(alt regexAlt) error {
	var ends []int
	for i, branch := range alt {
		choice := -1
		if i < len(alt)-1 {
			choice = r.add(instruction{op: opChoice, x: len(r.code) + 1})
		}
		if err := r.emit(branch); err != nil {
			return err
		}
		if choice >= 0 {
			ends = append(ends, r.add(instruction{op: opJump}))
			r.code[choice].y = len(r.code)
		}
	}
	for _, i := range ends {
		r.code[i].x = len(r.code)
	}
	return nil
}

func (r *regex) emitRepeat(n regexRepeat) error {
	if n.mode == possessive {
		r.add(instruction{op: opRun, set: n.node.(*charset), x: n.min, y: n.max})
		return nil
	}
	for range n.min {
		if err := r.emit(n.node); err != nil {
			return err
		}
	}
	// A choice between the body, which follows it, and what follows the repetition.
	var leave []int
	body := func() error {
		leave = append(leave, r.add(instruction{op: opChoice}))
		return r.emit(n.node)
	}
	if n.max < 0 {
		again := len(r.code)
		if err := body(); err != nil {
			return err
		}
		r.add(instruction{op: opJump, x: again})
	}
	for range n.max - n.min {
		if err := body(); err != nil {
			return err
		}
	}
	for _, i := range leave {
		c := &r.code[i]
		if c.x, c.y = i+1, len(r.code); n.mode == lazy {
			c.x, c.y = c.y, c.x
		}
	}
	return nil
}

// straight returns the steps of a pattern without choices.
func straight(n regexNode) (steps []regexNode, ok bool) {
	switch n := n.(type) {
	case *charset, regexAnchor:
		return []regexNode{n}, true
	case regexCat:
		for _, x := range n {
			more, ok := straight(x)
			if !ok {
				return nil, false
			}
			steps = append(steps, more...)
		}
		return steps, true
	case regexRepeat:
		more, ok := straight(n.node)
		if !ok || n.min != n.max || len(more)*n.min > regexSize {
			return nil, false
		}
		return slices.Repeat(more, n.min), true
	}
	return nil, false
}

// matches is a matcher.
func (r *regex) matches(text string, match func(start, end int)) {
	b := r.scratch.Get().(*backtracker)
	defer r.scratch.Put(b)
	words := ((len(text)+1)*r.choices + 63) / 64
	b.failed = slices.Grow(b.failed[:0], words)[:words]
	clear(b.failed)
	t := classes()
	for start := 0; start < len(text); {
		if end := r.match(text, start, b); end > start {
			match(start, end)
			start = end
			continue
		}
		_, _, n := at(t, text, start)
		start += n
	}
}

// match returns the end of the match that starts at a place, -1 if there is none.
func (r *regex) match(text string, start int, b *backtracker) int {
	t := classes()
	b.stack = b.stack[:0]
	for pc, pos := 0, start; ; {
		ok := true
		switch i := &r.code[pc]; i.op {
		case opSet:
			c, class, n := at(t, text, pos)
			if ok = n > 0 && i.set.has(c, class); ok {
				pos, pc = pos+n, pc+1
			}
		case opRun:
			count := 0
			for ; count != i.y; count++ {
				c, class, n := at(t, text, pos)
				if n == 0 || !i.set.has(c, class) {
					break
				}
				pos += n
			}
			ok = count >= i.x
			pc++
		case opChoice:
			bit := pos*r.choices + i.choice
			if ok = b.failed[bit/64]>>(bit%64)&1 == 0; ok {
				b.failed[bit/64] |= 1 << (bit % 64)
				b.stack = append(b.stack, resume{i.y, pos})
				pc = i.x
			}
		case opJump:
			pc = i.x
		case opLook:
			ok = follows(i.look, text, pos) != i.not
			pc++
		case opAnchor:
			ok = i.anchorAt.holds(text, pos)
			pc++
		case opMatch:
			// The choices on the way here did not fail; of them only those at the match's end can come again.
			for bit := pos * r.choices; bit < (pos+1)*r.choices; bit++ {
				b.failed[bit/64] &^= 1 << (bit % 64)
			}
			return pos
		}
		if !ok {
			n := len(b.stack)
			if n == 0 {
				return -1
			}
			pc, pos = b.stack[n-1].pc, b.stack[n-1].pos
			b.stack = b.stack[:n-1]
		}
	}
}

// follows tells whether one of some sequences is at a place.
func follows(look [][]regexNode, text string, start int) bool {
	t := classes()
branches:
	for _, steps := range look {
		pos := start
		for _, s := range steps {
			switch s := s.(type) {
			case *charset:
				c, class, n := at(t, text, pos)
				if n == 0 || !s.has(c, class) {
					continue branches
				}
				pos += n
			case regexAnchor:
				if !s.holds(text, pos) {
					continue branches
				}
			}
		}
		return true
	}
	return false
}

func (a regexAnchor) holds(text string, pos int) bool {
	switch a {
	case '^':
		return pos == 0 || text[pos-1] == '\n' && pos < len(text)
	case '$':
		return pos == len(text) || text[pos] == '\n'
	case 'A':
		return pos == 0
	}
	return pos == len(text)
}
