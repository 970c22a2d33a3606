package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"memra/internal/bounded"
)

// logged is what a folder says.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.FieldsFunc(l.text.String(), func(r rune) bool { return r == '\n' })
}

func open(t *testing.T, path string, limit int64) (*Folder, *logged) {
	t.Helper()
	l := new(logged)
	f, err := Open(path, limit, slog.New(slog.NewTextHandler(l, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, l
}

var root = Root("a model", "cpu", "f16", "")

// page is one after another, or after none.
func page(parent Key, kind int, tokens ...int32) Page { return Page{parent, tokens, kind} }

// queue has a page's content written behind.
func queue(f *Folder, p Page, size int) { f.Queue(p, size, func() []byte { return content(p, size) }) }

// content is a page's bytes.
func content(p Page, size int) []byte {
	data, key := make([]byte, size), p.id().key
	for i := range data {
		data[i] = key[i%len(key)] + byte(i>>5)
	}
	return data
}

func TestPagesOutliveTheFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "for it")
	f, _ := open(t, path, 1<<20)
	pages := []Page{page(root, 0, 1, 2), page(root, 0, 1, 3), page(root.Next([]int32{1, 2}), 2, 3), page(root, 1, 7)}
	next := func() {
		t.Helper()
		if got := f.Next(root, 0); len(got) != 2 || len(got[0]) != 2 || got[0][1]+got[1][1] != 5 {
			t.Errorf("what goes on from nothing is %v, want 1 2 and 1 3", got)
		}
	}
	for i, p := range pages {
		queue(f, p, 1000+i)
		if !f.Has(p) || !bytes.Equal(f.Load(p, 1000+i), content(p, 1000+i)) {
			t.Errorf("page %d is not there as soon as it is queued", i)
		}
	}
	next()
	f.Close()
	again, log := open(t, path, 1<<20)
	f = again
	for i, p := range pages {
		if !f.Has(p) || f.Has(page(p.Parent, p.Kind+3, p.Tokens...)) || !bytes.Equal(f.Load(p, 1000+i), content(p, 1000+i)) {
			t.Errorf("page %d is not there afterwards", i)
		}
		if info, err := os.Stat(f.at(p.id())); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("page %d: %v, %v: want a file for its owner alone", i, info, err)
		}
	}
	next()
	if f.Load(page(root, 0, 9), 1000) != nil || len(log.lines()) != 0 {
		t.Errorf("a page that was never kept is found, or logged: %q", log.lines())
	}
}

func TestKeysAreOfEverythingBeforeThem(t *testing.T) {
	keys := map[Key]string{}
	for _, parts := range [][]string{{}, {""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab"}, {"ab", ""}} {
		for _, tokens := range [][][]int32{{}, {{}}, {{1}}, {{1, 2}}, {{1}, {2}}, {{2, 1}}, {{-1}}} {
			k := Root(parts...)
			for _, page := range tokens {
				k = k.Next(page)
			}
			what := fmt.Sprintf("%q %v", parts, tokens)
			if before, ok := keys[k]; ok {
				t.Errorf("%s and %s have one key", before, what)
			}
			keys[k] = what
		}
	}
}

// A file that is not what its name says is a miss, with one line in the log, and is gone.
func TestBadFilesAreMissesAndAreRemoved(t *testing.T) {
	const size = 500
	one := page(root, 3, 1, 2)
	encoded := func(p Page) []byte {
		var b bytes.Buffer
		if err := encode(&b, p, content(one, size)); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := encoded(one)
	changed := func(at int, with ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name string
		file []byte
		word string
	}{
		{"nothing in it", nil, "0 bytes"},
		{"cut off", good[:len(good)-1], "cut off"},
		{"cut off in its head", good[:20], "cut off"},
		{"longer than it should be", append(bytes.Clone(good), 0), "want 848"},
		{"a changed byte of the page", changed(headBytes+17, 0xaa), "checksum"},
		{"a changed byte of the sum", changed(len(good)-1, good[len(good)-1]+1), "checksum"},
		{"no page", changed(0, 'G', 'G', 'U', 'F'), "it is no page"},
		{"a later version", changed(8, 2), "version 2, want 1"},
		{"an immense size", changed(308, binary.LittleEndian.AppendUint64(nil, 1<<60)...), "a page of 1152921504606846976"},
		{"an immense number of tokens", changed(48, 255, 255, 255, 255), "4294967295 tokens"},
		{"no tokens", changed(48, 0), "0 tokens"},
		{"another prefix's", encoded(page(root.Next([]int32{2}), 3, 1, 2)), "another page"},
		{"other tokens'", encoded(page(root, 3, 1, 3)), "another page"},
		{"another kind's", encoded(page(root, 2, 1, 2)), "another page"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, one.id().name()), c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			f, log := open(t, path, 1<<20)
			for range 2 {
				if data := f.Load(one, size); data != nil {
					t.Fatalf("%d bytes are taken for a page", len(data))
				}
			}
			if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], c.word) || !strings.Contains(lines[0], one.id().name()) {
				t.Errorf("the log says %q, want one line with %q and the file", lines, c.word)
			}
			if entries, _ := os.ReadDir(path); len(entries) != 0 || f.Bytes() != 0 || f.Has(one) || len(f.Next(root, 3)) != 0 {
				t.Errorf("%v is still there, %d bytes", entries, f.Bytes())
			}
			f.Save(one, content(one, size))
			if f.Load(one, size) == nil {
				t.Error("the page cannot be kept anew")
			}
		})
	}
}

func TestOthersFilesAreNobodysBusiness(t *testing.T) {
	path := t.TempDir()
	one, two := page(root, 0, 1), page(root, 0, 2)
	hex := strings.TrimSuffix(one.id().name(), ".0.page")
	theirs := []string{"notes.txt", "x.page", hex + ".page", hex + ".-1.page", hex[1:] + ".0.page", strings.ToUpper(hex) + ".0.page", ".hidden.page.tmp"}
	for _, name := range theirs {
		if err := os.WriteFile(filepath.Join(path, name), make([]byte, 5000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(path, page(root, 7, 1).id().name()), 0o700); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(path, "."+page(root, 1, 1).id().name()+".12345") // by a writer that was killed
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	f, log := open(t, path, 1000)
	f.Save(one, content(one, 500))
	f.Save(two, content(two, 500))
	for _, name := range theirs {
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what a killed writer left is still there")
	}
	if f.Has(page(root, 7, 1)) || f.Bytes() > 1000 || len(log.lines()) > 0 {
		t.Errorf("%d bytes; a folder is a page: %v; the log says %q", f.Bytes(), f.Has(page(root, 7, 1)), log.lines())
	}
}

func TestWhatWasUsedLongestAgoMakesRoom(t *testing.T) {
	path := t.TempDir()
	const size = 1000
	room := int64(3 * (headBytes + size + sumBytes))
	f, _ := open(t, path, room)
	at := func(i int) Page { return page(root, 0, int32(i)) }
	save := func(i int) { f.Save(at(i), content(at(i), size)) }
	has := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := f.Has(at(i)); got != w {
				t.Errorf("page %d is there: %v, want %v", i, got, w)
			}
		}
		if f.Bytes() > room {
			t.Errorf("%d bytes, want at most %d", f.Bytes(), room)
		}
	}
	save(0)
	save(1)
	save(2)
	f.Use(at(0))
	save(3)
	has(true, false, true, true)
	f.Close()
	f, _ = open(t, path, room) // the order is that of the files' times
	save(4)
	has(true, false, false, true, true)
	f.Save(at(9), content(at(9), int(room)+1)) // larger than all: not kept, and nothing goes for it
	has(true, false, false, true, true)
	f, _ = open(t, path, room-1)
	has(false, false, false, true, true)
}

func TestAFolderThatCannotBeUsedSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		limit int64
		word  string
	}{{file, 1, "file"}, {filepath.Join(file, "below"), 1, "file"}, {t.TempDir(), 0, "0 bytes"}} {
		if _, err := Open(c.path, c.limit, slog.Default()); err == nil || !strings.Contains(err.Error(), c.word) || !strings.HasPrefix(err.Error(), "disk: ") {
			t.Errorf("%s, %d bytes: %v, want an error that says %q", c.path, c.limit, err, c.word)
		}
	}
	path := filepath.Join(t.TempDir(), "folder")
	f, log := open(t, path, 1<<20)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		f.Save(page(root, 0, int32(i)), []byte("page"))
		queue(f, page(root, 0, int32(i)), 100)
	}
	f.Close()
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "no more of it is kept") {
		t.Errorf("the log says %q, want one line", lines)
	}
}

func TestASlowDiskIsNotReadFor(t *testing.T) {
	f, log := open(t, t.TempDir(), 1<<40)
	read := 0
	for i := range 3 {
		f.Queue(page(root, 0, int32(i)), mostBehind/2+1, func() []byte { read++; return nil })
	}
	f.mu.Lock()
	f.behind = mostBehind / 2 // waits
	f.mu.Unlock()
	f.Queue(page(root, 0, 9), mostBehind/2+1, func() []byte { read++; return nil })
	if f.Close(); read != 3 || len(log.lines()) != 1 || !strings.Contains(log.lines()[0], "pages=1") {
		t.Errorf("%d pages were read, want 3; the log says %q, want that one was not kept", read, log.lines())
	}
}

func TestManyMayUseAFolder(t *testing.T) {
	f, log := open(t, t.TempDir(), 20000)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 200 {
				p := page(root, 0, int32((worker*7+i)%40))
				if data := f.Load(p, 1000); data != nil && !bytes.Equal(data, content(p, 1000)) {
					t.Error("a page is another's")
				} else if data == nil {
					queue(f, p, 1000)
				} else {
					f.Use(p)
					f.Next(root, 0)
				}
			}
		})
	}
	wait.Wait()
	f.Close()
	if f.Bytes() > 20000 || len(log.lines()) > 0 {
		t.Errorf("%d bytes, and the log says %q", f.Bytes(), log.lines())
	}
}

func FuzzDecode(f *testing.F) {
	one := page(root, 3, 1, 2)
	var good bytes.Buffer
	if err := encode(&good, one, content(one, 70)); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:30])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		var data []byte
		var err error
		bounded.Read(t, len(file), func() { data, err = decode(file, one.id(), 70) })
		if (err == nil) != bytes.Equal(file, good.Bytes()) {
			t.Errorf("%d bytes are taken for a page: %v", len(file), err)
		}
		if err == nil && !bytes.Equal(data, content(one, 70)) {
			t.Error("it is another page")
		}
	})
}
