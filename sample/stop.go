package sample

import (
	"fmt"
	"slices"
	"strings"
)

// A Stopper finds stop strings in text that arrives in pieces, wherever the pieces are cut.
//
// It is an Aho-Corasick automaton over bytes. The match that ends first wins; of those that end together, the one that
// starts first. Text is held back only while it is the beginning of a stop string. If pieces are whole code points and
// stop strings are valid UTF-8, what it returns is whole code points too.
type Stopper struct {
	stops []string
	nodes []stopNode
	state int32
	held  []byte // the text of the path from the root to state
	match int    // index into stops, -1 before a match
}

// stopNode is a beginning of a stop string.
type stopNode struct {
	next  []stopEdge
	depth int   // its length in bytes
	fail  int32 // the longest proper suffix that is a node too
	match int   // index of the longest stop string that ends here, -1 if none does
}

type stopEdge struct {
	b    byte
	node int32
}

// NewStopper returns a Stopper for any of stops; without any it passes all text through. An empty stop string is an
// error: it would end every answer before it begins.
func NewStopper(stops ...string) (*Stopper, error) {
	s := &Stopper{stops: slices.Clone(stops), nodes: []stopNode{{match: -1}}, match: -1}
	for i, stop := range stops {
		if stop == "" {
			return nil, fmt.Errorf("sample: stop string %d of %d is empty, want at least one byte; leave it out", i+1, len(stops))
		}
		at := int32(0)
		for _, b := range []byte(stop) {
			child := s.nodes[at].child(b)
			if child < 0 {
				child = int32(len(s.nodes))
				s.nodes = append(s.nodes, stopNode{depth: s.nodes[at].depth + 1, match: -1})
				s.nodes[at].next = append(s.nodes[at].next, stopEdge{b, child})
			}
			at = child
		}
		if s.nodes[at].match < 0 {
			s.nodes[at].match = i
		}
	}
	// Breadth first: a node's suffix is shorter, so it is complete before the node.
	queue := []int32{0}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, e := range s.nodes[parent].next {
			queue = append(queue, e.node)
			if parent == 0 {
				continue
			}
			n := &s.nodes[e.node]
			n.fail = s.step(s.nodes[parent].fail, e.b)
			if n.match < 0 {
				n.match = s.nodes[n.fail].match
			}
		}
	}
	return s, nil
}

// child returns the node one byte longer, or -1.
func (n *stopNode) child(b byte) int32 {
	for _, e := range n.next {
		if e.b == b {
			return e.node
		}
	}
	return -1
}

// step returns the longest suffix of state's text and b that is a node.
func (s *Stopper) step(state int32, b byte) int32 {
	for {
		if next := s.nodes[state].child(b); next >= 0 {
			return next
		}
		if state == 0 {
			return 0
		}
		state = s.nodes[state].fail
	}
}

// Feed takes the next piece of text and returns what may be emitted now. stopped says that a stop string was found: the
// text returned ends where that string begins, and from then on Feed and Flush return nothing more.
func (s *Stopper) Feed(piece string) (text string, stopped bool) {
	if s.match >= 0 {
		return "", true
	}
	s.held = append(s.held, piece...)
	start := len(s.held) - len(piece)
	for i := start; i < len(s.held); i++ {
		s.state = s.step(s.state, s.held[i])
		if m := s.nodes[s.state].match; m >= 0 {
			text = string(s.held[:i+1-len(s.stops[m])])
			s.match, s.held = m, s.held[:0]
			return text, true
		}
	}
	safe := len(s.held) - s.nodes[s.state].depth
	text = string(s.held[:safe])
	s.held = s.held[:copy(s.held, s.held[safe:])]
	return text, false
}

// Flush returns the text still held back, at the end of generation.
func (s *Stopper) Flush() string {
	text := string(s.held)
	s.held, s.state = s.held[:0], 0
	return text
}

// Matched returns the stop string that was found; ok is false if none was.
func (s *Stopper) Matched() (stop string, ok bool) {
	if s.match < 0 {
		return "", false
	}
	return strings.Clone(s.stops[s.match]), true
}

// Reset makes the Stopper ready for another text.
func (s *Stopper) Reset() { s.held, s.state, s.match = s.held[:0], 0, -1 }
