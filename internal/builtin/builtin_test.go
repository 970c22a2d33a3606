package builtin

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"memra/gguf"
	"memra/tokenizer"
)

// file is a GGUF file with one tensor.
func file(t *testing.T) []byte {
	t.Helper()
	meta := new(gguf.Metadata)
	meta.Set("general.architecture", "test")
	var b bytes.Buffer
	if err := gguf.Encode(&b, meta, []gguf.Tensor{{Name: "a", Type: gguf.I8, Shape: []int{3}, Data: []byte{1, 2, 3}}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheModelOfAFolderOpensOrItsAbsenceIsSaid(t *testing.T) {
	whole := file(t)
	for _, c := range []struct {
		name string
		data []byte // nil: no file
		want string // of the error; "": none
	}{
		{"a model", whole, ""},
		{"no model", nil, "no built-in model"},
		{"a broken model", whole[:40], "gguf: builtin: key 0"},
	} {
		from := fstest.MapFS{"model/LICENSE.txt": {Data: []byte("free")}}
		if c.data != nil {
			from["model/model.gguf"] = &fstest.MapFile{Data: c.data}
		}
		f, err := open(from)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		case err == nil && string(f.Tensors[0].Data) != "\x01\x02\x03":
			t.Errorf("%s: found %v", c.name, f.Tensors[0].Data)
		}
	}
}

func TestOnlyTheNameAloneIsTheBuiltInModel(t *testing.T) {
	for _, path := range []string{"./builtin", "builtin.gguf", ""} {
		if _, err := GGUF(path); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%q: error %v, want that there is no such file", path, err)
		}
	}
}

func TestTheCardHasTheLicence(t *testing.T) {
	if !strings.Contains(Card(), "The Go Authors") {
		t.Error("the card does not have the Go authors' licence")
	}
}

func TestTheModelInTheProgramIsSmallAndFillsGaps(t *testing.T) {
	f, err := GGUF(Name)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for i := range f.Tensors {
		size += f.Tensors[i].Size()
	}
	if size > 12e6 {
		t.Errorf("the tensors have %d bytes, want at most 12 million: everybody's program has them", size)
	}
	tok, err := tokenizer.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tok.Fill(); !ok || !tok.AddsBOS() {
		t.Errorf("marks for a gap: %v, a start token: %v, want both", ok, tok.AddsBOS())
	}
	if !strings.Contains(Card(), "# ") {
		t.Error("there is no card")
	}
}
