package tokenizer

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsmap is SentencePiece's precompiled normaliser: a double-array trie of texts to replace, and what replaces each.
//
//	u32 size | u32 units [size/4] of the trie | replacements, each ended by a zero byte
//
// A unit holds its label in bits 0-7, whether a replacement follows in bit 8, and the distance to its children in bits 10-30,
// times 256 if bit 9 is set; with bit 31 set it is a replacement's offset.
type charsmap struct {
	units   []uint32
	targets string
}

// newCharsmap reads a map; without data it replaces nothing.
func newCharsmap(data []byte) (*charsmap, error) {
	if len(data) == 0 {
		return &charsmap{}, nil
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("tokenizer: precompiled_charsmap: %s; convert again", fmt.Sprintf(format, args...))
	}
	if len(data) < 4 {
		return nil, bad("%d bytes, want at least 4", len(data))
	}
	size := uint64(binary.LittleEndian.Uint32(data))
	if data = data[4:]; size > uint64(len(data)) || size%4 != 0 || size == 0 {
		return nil, bad("a trie of %d bytes in the %d that there are, want a multiple of 4", size, len(data))
	}
	c := &charsmap{units: make([]uint32, size/4), targets: string(data[size:])}
	if c.targets == "" || c.targets[len(c.targets)-1] != 0 {
		return nil, bad("the replacements do not end with a zero byte")
	}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
		if u := c.units[i]; u>>31 == 1 && int(u&^(1<<31)) >= len(c.targets) {
			return nil, bad("unit %d points behind the replacements", i)
		}
	}
	return c, nil
}

// longest returns the length of the longest replacement.
func (c *charsmap) longest() (n int) {
	for target := range strings.SplitSeq(c.targets, "\x00") {
		n = max(n, len(target))
	}
	return n
}

// find returns the replacement of the shortest, or the longest, text that s begins with and that has one; n is the length
// of that text, 0 for none.
func (c *charsmap) find(s string, longest bool) (target string, n int) {
	if len(c.units) == 0 {
		return "", 0
	}
	at := distance(c.units[0])
	for i := 0; i < len(s) && s[i] != 0; i++ {
		at ^= uint32(s[i])
		if int(at) >= len(c.units) {
			break
		}
		u := c.units[at]
		if u&(1<<31|0xFF) != uint32(s[i]) {
			break
		}
		at ^= distance(u)
		if u&(1<<8) == 0 || int(at) >= len(c.units) {
			continue
		}
		if offset := c.units[at] &^ (1 << 31); int(offset) < len(c.targets) {
			target, n = c.targets[offset:], i+1
			if !longest {
				break
			}
		}
	}
	if n > 0 {
		target = target[:strings.IndexByte(target, 0)]
	}
	return target, n
}

func distance(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// sentencePiece normalises as SentencePiece does: the longest text that has a replacement, left to right.
func (c *charsmap) sentencePiece(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if target, n := c.find(s[i:], true); n > 0 {
			b.WriteString(target)
			i += n
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

// graphemes normalises as Hugging Face does: grapheme by grapheme (of less than 6 bytes), else character by character, each
// replaced by what the shortest text that it begins with stands for.
func (c *charsmap) graphemes(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	state := -1
	for s != "" {
		var g string
		if s[0] < utf8.RuneSelf && (len(s) == 1 || s[1] < utf8.RuneSelf && s[0] != '\r') {
			g, s, state = s[:1], s[1:], -1
		} else {
			g, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		}
		if len(g) < 6 {
			if target, n := c.find(g, false); n > 0 {
				b.WriteString(target)
				continue
			}
		}
		for i := 0; i < len(g); {
			_, n := utf8.DecodeRuneInString(g[i:])
			if target, m := c.find(g[i:i+n], false); m > 0 {
				b.WriteString(target)
			} else {
				b.WriteString(g[i : i+n])
			}
			i += n
		}
	}
	return b.String()
}

// sentencePieceNormaliser replaces characters, and writes spaces as U+2581: one in front of the first word if prefix, and
// if trim one between words, none at the end.
func sentencePieceNormaliser(c *charsmap, prefix, trim bool) normaliser {
	return func(s string) string {
		if len(c.units) > 0 {
			s = c.sentencePiece(s)
		}
		var b strings.Builder
		b.Grow(len(s) + len(s)/4 + len(escapedSpace))
		first := true
		for i := 0; i < len(s); {
			if s[i] == ' ' {
				if !trim {
					b.WriteString(escapedSpace)
				}
				i++
				continue
			}
			end := len(s)
			if n := strings.IndexByte(s[i:], ' '); n >= 0 {
				end = i + n
			}
			if first && prefix || !first && trim {
				b.WriteString(escapedSpace)
			}
			b.WriteString(s[i:end])
			first, i = false, end
		}
		if trim { // also what was no space
			return strings.TrimRight(b.String(), escapedSpace)
		}
		return b.String()
	}
}
