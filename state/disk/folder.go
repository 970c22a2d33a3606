package disk

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"memra/internal/atomic"
)

// Folder is pages on disk. Its methods are safe for concurrent use.
type Folder struct {
	path  string
	limit int64
	log   *slog.Logger

	mu      sync.Mutex
	files   map[id]*list.Element         // of *file
	next    map[Key]map[id]*list.Element // the same, by the prefix that they follow
	order   *list.List                   // used longest ago first
	bytes   int64
	waiting map[id]*waiting // to be written
	behind  int64           // bytes of them
	lost    int             // pages that were not written because too many waited
	broken  bool            // writing has failed
	closed  bool

	queue chan *waiting
	done  chan struct{}
}

// file is one that the folder knows of.
type file struct {
	id
	bytes  int64
	used   time.Time
	tokens []int32 // nil: not read
}

// waiting is a page to be written.
type waiting struct {
	Page
	data []byte
}

// mostBehind is how many bytes may wait to be written. What comes beyond is not kept.
const mostBehind = 1 << 30

// Open opens a folder, and makes it if there is none. It holds no more than limit bytes of files. An error says why nothing can be written
// there.
func Open(path string, limit int64, log *slog.Logger) (*Folder, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("disk: a prefix cache of %d bytes, want some", limit)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("disk: prefix cache: %w", err)
	}
	probe, err := os.CreateTemp(path, ".probe")
	if err != nil {
		return nil, fmt.Errorf("disk: prefix cache: %w", err)
	}
	probe.Close()
	os.Remove(probe.Name())
	f := &Folder{path: path, limit: limit, log: log, files: map[id]*list.Element{}, next: map[Key]map[id]*list.Element{}, order: list.New(),
		waiting: map[id]*waiting{}, queue: make(chan *waiting, 1<<16), done: make(chan struct{})}
	if err := f.scan(); err != nil {
		return nil, err
	}
	go f.write()
	return f, nil
}

// scan reads the folder's names, and removes what writers that were killed have left.
func (f *Folder) scan() error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return fmt.Errorf("disk: prefix cache: %w", err)
	}
	var files []*file
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if strings.HasPrefix(e.Name(), ".") && strings.Contains(e.Name(), suffix+".") && time.Since(info.ModTime()) > time.Hour {
			os.Remove(filepath.Join(f.path, e.Name()))
		}
		if i, ok := named(e.Name()); ok {
			files = append(files, &file{id: i, bytes: info.Size(), used: info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b *file) int { return a.used.Compare(b.used) })
	for _, file := range files {
		f.add(file)
	}
	f.shrink(0)
	return nil
}

// add notes a file as the one used last. The caller holds mu.
func (f *Folder) add(file *file) {
	f.forget(file.id)
	e := f.order.PushBack(file)
	f.files[file.id] = e
	if f.next[file.parent] == nil {
		f.next[file.parent] = map[id]*list.Element{}
	}
	f.next[file.parent][file.id] = e
	f.bytes += file.bytes
}

// forget is the opposite. The caller holds mu.
func (f *Folder) forget(i id) {
	e := f.files[i]
	if e == nil {
		return
	}
	f.bytes -= f.order.Remove(e).(*file).bytes
	delete(f.files, i)
	if delete(f.next[i.parent], i); len(f.next[i.parent]) == 0 {
		delete(f.next, i.parent)
	}
}

// shrink removes files until there is room for so many bytes. The caller holds mu.
func (f *Folder) shrink(room int64) {
	for f.bytes+room > f.limit && f.order.Len() > 0 {
		i := f.order.Front().Value.(*file).id
		os.Remove(f.at(i))
		f.forget(i)
	}
}

// Has reports whether the folder has a page, or is about to.
func (f *Folder) Has(p Page) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := p.id()
	return f.files[i] != nil || f.waiting[i] != nil
}

// mostNext is how many pages that follow a prefix are looked at, at most.
const mostNext = 256

// Next is the tokens of pages of a kind that follow a prefix, of so many of them.
func (f *Folder) Next(parent Key, kind int) (all [][]int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, e := range f.next[parent] {
		if i.kind != kind || len(all) == mostNext {
			continue
		}
		file := e.Value.(*file)
		if file.tokens == nil {
			head, err := read(f.at(i), headBytes)
			if err == nil {
				var p Page
				p, _, err = decodeHead(head, i)
				file.tokens = p.Tokens
			}
			if err != nil {
				f.reject(i, err)
				continue
			}
		}
		all = append(all, file.tokens)
	}
	for i, w := range f.waiting {
		if i.parent == parent && i.kind == kind {
			all = append(all, w.Tokens)
		}
	}
	return all
}

// Load reads a page of so many bytes. nil: there is none, or none that can be used, which the log has then heard. The data belongs to
// nobody: it is not to be changed.
func (f *Folder) Load(p Page, size int) []byte {
	i := p.id()
	f.mu.Lock()
	waiting, known := f.waiting[i], f.files[i] != nil
	f.mu.Unlock()
	if waiting != nil && len(waiting.data) == size {
		return waiting.data
	}
	if !known {
		return nil
	}
	file, err := read(f.at(i), headBytes+size+sumBytes+1) // one more, to see that there is none
	var data []byte
	if err == nil {
		data, err = decode(file, i, size)
	}
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.reject(i, err)
	}
	return data
}

// reject removes a file that cannot be used. The caller holds mu.
func (f *Folder) reject(i id, err error) {
	f.forget(i)
	if !errors.Is(err, fs.ErrNotExist) { // then another process has removed it
		f.log.Warn("a page of the prefix cache cannot be used, and is removed", "file", f.at(i), "reason", err)
		os.Remove(f.at(i))
	}
}

// at is where a page's file is.
func (f *Folder) at(i id) string { return filepath.Join(f.path, i.name()) }

// Use notes that a page was of use.
func (f *Folder) Use(p Page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.files[p.id()]; e != nil {
		f.touch(e)
	}
}

// touch makes a file the one used last. The caller holds mu.
func (f *Folder) touch(e *list.Element) {
	file, now := e.Value.(*file), time.Now()
	file.used = now
	f.order.MoveToBack(e)
	os.Chtimes(f.at(file.id), now, now) // fails where another process has removed it
}

// Queue has a page of so many bytes written by and by. read gives them, or nil, and is not called where the page is there already, or too
// much waits: then it is forgotten. What it gives is the folder's from here on.
func (f *Folder) Queue(p Page, bytes int, read func() []byte) {
	if !f.wants(p.id(), int64(bytes)) {
		return
	}
	data := read()
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &waiting{p, data}
	if len(data) == bytes && !f.closed {
		select {
		case f.queue <- w:
			f.waiting[p.id()] = w
			return
		default:
			f.lost++
		}
	}
	f.behind -= int64(bytes)
}

// wants reports whether a page is to be written, and counts its bytes as waiting if it is.
func (f *Folder) wants(i id, bytes int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.broken || f.files[i] != nil || f.waiting[i] != nil {
		return false
	}
	if f.behind+bytes > mostBehind {
		f.lost++
		return false
	}
	f.behind += bytes
	return true
}

// write is the goroutine that writes.
func (f *Folder) write() {
	defer close(f.done)
	for w := range f.queue {
		f.Save(w.Page, w.data)
		f.mu.Lock()
		delete(f.waiting, w.id())
		f.behind -= int64(len(w.data))
		f.mu.Unlock()
	}
}

// Save writes a page at once.
func (f *Folder) Save(p Page, data []byte) {
	i, size := p.id(), int64(headBytes+len(data)+sumBytes)
	f.mu.Lock()
	needless := f.broken || f.files[i] != nil || size > f.limit
	if !needless {
		f.shrink(size)
	}
	f.mu.Unlock()
	if needless {
		return
	}
	err := atomic.WritePrivate(f.at(i), func(w io.Writer) error { return encode(w, p, data) })
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.add(&file{id: i, bytes: size, tokens: p.Tokens})
		f.touch(f.files[i]) // a file system's clock may be coarser than ours
	case !f.broken:
		f.broken = true
		f.log.Warn("the prefix cache cannot be written to, and no more of it is kept on disk", "folder", f.path, "reason", err)
	}
}

// Close waits until all that was queued is written.
func (f *Folder) Close() {
	f.mu.Lock()
	closed, lost := f.closed, f.lost
	f.closed = true
	f.mu.Unlock()
	if closed {
		return
	}
	close(f.queue)
	<-f.done
	if lost > 0 {
		f.log.Info("some pages of the prefix cache were not kept on disk, which was slower than they came", "folder", f.path, "pages", lost)
	}
}

// Bytes is what the folder's files take, and Limit the most that they may.
func (f *Folder) Bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// Limit is the most bytes that the folder's files may take.
func (f *Folder) Limit() int64 { return f.limit }
