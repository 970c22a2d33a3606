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
	files   map[string]*list.Element // by name, of *file
	order   *list.List               // used longest ago first
	bytes   int64
	waiting map[string]*page // to be written
	behind  int64            // bytes of them
	lost    int              // pages that were not written because too many waited
	broken  bool             // writing has failed
	closed  bool

	queue chan *page
	done  chan struct{}
}

// file is one that the folder knows of.
type file struct {
	name  string
	bytes int64
	used  time.Time
}

// page is one to be written.
type page struct {
	key  Key
	kind int
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
	f := &Folder{path: path, limit: limit, log: log, files: map[string]*list.Element{}, order: list.New(), waiting: map[string]*page{},
		queue: make(chan *page, 1<<16), done: make(chan struct{})}
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
		if named(e.Name()) {
			files = append(files, &file{e.Name(), info.Size(), info.ModTime()})
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
	f.forget(file.name)
	f.files[file.name] = f.order.PushBack(file)
	f.bytes += file.bytes
}

// forget is the opposite. The caller holds mu.
func (f *Folder) forget(name string) {
	if e := f.files[name]; e != nil {
		f.bytes -= f.order.Remove(e).(*file).bytes
		delete(f.files, name)
	}
}

// shrink removes files until there is room for so many bytes. The caller holds mu.
func (f *Folder) shrink(room int64) {
	for f.bytes+room > f.limit && f.order.Len() > 0 {
		name := f.order.Front().Value.(*file).name
		os.Remove(filepath.Join(f.path, name))
		f.forget(name)
	}
}

// Has reports whether the folder has a page, or is about to.
func (f *Folder) Has(key Key, kind int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := name(key, kind)
	return f.files[n] != nil || f.waiting[n] != nil
}

// Load reads a page of so many bytes. nil: there is none, or none that can be used, which the log has then heard. The data belongs to
// nobody: it is not to be changed.
func (f *Folder) Load(key Key, kind, size int) []byte {
	n := name(key, kind)
	f.mu.Lock()
	waiting, known := f.waiting[n], f.files[n] != nil
	f.mu.Unlock()
	if waiting != nil && len(waiting.data) == size {
		return waiting.data
	}
	if !known {
		return nil
	}
	path := filepath.Join(f.path, n)
	data, err := read(path, key, kind, size)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.forget(n)
		if !errors.Is(err, fs.ErrNotExist) { // then another process has removed it
			f.log.Warn("a page of the prefix cache cannot be used, and is removed", "file", path, "reason", err)
			os.Remove(path)
		}
		return nil
	}
	return data
}

// Use notes that a page was of use.
func (f *Folder) Use(key Key, kind int) {
	n := name(key, kind)
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.files[n]; e != nil {
		f.touch(e)
	}
}

// touch makes a file the one used last. The caller holds mu.
func (f *Folder) touch(e *list.Element) {
	file, now := e.Value.(*file), time.Now()
	file.used = now
	f.order.MoveToBack(e)
	os.Chtimes(filepath.Join(f.path, file.name), now, now) // fails where another process has removed it
}

// Queue has a page written by and by, or forgets it where too much waits already. The data is the folder's from here on.
func (f *Folder) Queue(key Key, kind int, data []byte) {
	n := name(key, kind)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.broken || f.files[n] != nil || f.waiting[n] != nil {
		return
	}
	p := &page{key, kind, data}
	if f.behind+int64(len(data)) > mostBehind {
		f.lost++
		return
	}
	select {
	case f.queue <- p:
		f.waiting[n] = p
		f.behind += int64(len(data))
	default:
		f.lost++
	}
}

// write is the goroutine that writes.
func (f *Folder) write() {
	defer close(f.done)
	for p := range f.queue {
		f.Save(p.key, p.kind, p.data)
		f.mu.Lock()
		delete(f.waiting, name(p.key, p.kind))
		f.behind -= int64(len(p.data))
		f.mu.Unlock()
	}
}

// Save writes a page at once.
func (f *Folder) Save(key Key, kind int, data []byte) {
	n, size := name(key, kind), int64(headBytes+len(data)+sumBytes)
	path := filepath.Join(f.path, n)
	f.mu.Lock()
	broken := f.broken || f.files[n] != nil || size > f.limit
	if !broken {
		f.shrink(size)
	}
	f.mu.Unlock()
	if broken {
		return
	}
	err := atomic.WritePrivate(path, func(w io.Writer) error { return encode(w, key, kind, data) })
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.add(&file{n, size, time.Time{}})
		f.touch(f.files[n]) // a file system's clock may be coarser than ours
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
