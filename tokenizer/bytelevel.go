package tokenizer

// GPT-2's alphabet writes each byte as one printable character: the visible characters of Latin-1 stand for themselves,
// the other bytes, in order, for U+0100, U+0101 and so on (so that a space is "Ġ").

// visible tells whether a byte stands for itself in GPT-2's alphabet.
func visible(b int) bool {
	return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE && b <= 0xFF
}

// letterOf is GPT-2's character for each byte; byteOf the byte for each character below 0x144, or -1.
var letterOf, byteOf = func() (letters [256]rune, bytes [256 + 68]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !visible(b) {
			r, next = next, next+1
		}
		letters[b], bytes[r] = r, int16(b)
	}
	return letters, bytes
}()

// appendBytes appends the bytes that the characters of text stand for. A text with a character outside the alphabet was
// never escaped, and is appended as it is.
func appendBytes(dst []byte, text string) []byte {
	if raw, ok := unescapeBytes(text); ok {
		return append(dst, raw...)
	}
	return append(dst, text...)
}

// unescapeBytes returns the bytes that the characters of text stand for; ok is false if one is outside the alphabet.
func unescapeBytes(text string) (raw string, ok bool) {
	if plainBytes(text) {
		return text, true
	}
	b := make([]byte, 0, len(text))
	for _, r := range text {
		if int(r) >= len(byteOf) || byteOf[r] < 0 {
			return "", false
		}
		b = append(b, byte(byteOf[r]))
	}
	return string(b), true
}

// plainBytes tells whether all of a text stands for itself.
func plainBytes(text string) bool {
	for i := range len(text) {
		if text[i] < '!' || text[i] > '~' {
			return false
		}
	}
	return true
}
