package memra

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"memra/gguf"
	"memra/state"
	"memra/state/disk"
)

// defaultCacheDisk is what prefixes may take of a disk where nothing else is said.
const defaultCacheDisk = 10_000_000_000

// checkCache reports options of the prefix cache that contradict each other.
func (o Options) checkCache() error {
	switch {
	case o.NoPrefixCache && o.CacheDir != "":
		return fmt.Errorf("memra: a folder for prefixes, %s, and no prefix cache; leave one out", o.CacheDir)
	case o.CacheDir == "" && o.CacheDisk != 0, o.CacheDisk < 0:
		return fmt.Errorf("memra: %d bytes of disk for prefixes in folder %q, want none negative, and a folder", o.CacheDisk, o.CacheDir)
	}
	return nil
}

// remember is the pool's tree of prefixes, with a folder if one is wanted; nil: none. A folder that cannot be used is a line in the log.
func (m *machine) remember(src source, o Options) *state.Tree {
	if !m.prefixes {
		return nil
	}
	tree := state.NewTree(m.pool)
	if o.CacheDir == "" {
		return tree
	}
	limit := int64(o.CacheDisk)
	if limit == 0 {
		limit = defaultCacheDisk
	}
	program, err := programHash()
	if err == nil {
		m.folder, err = disk.Open(o.CacheDir, limit, o.Log)
	}
	if err != nil {
		o.Log.Warn("no prefixes are kept on disk", "reason", err)
		return tree
	}
	model := modelHash(src)
	tree.Spill(m.folder, program, model, m.device.Class())
	o.Log.Info("prefixes are kept on disk", "folder", o.CacheDir, slog.Int64("bytes", m.folder.Bytes()), slog.Int64("limit", limit), "model", model[:16])
	return tree
}

// programHash is of this program: another might round otherwise, and what two of them computed must not meet in an answer.
func programHash() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("memra: the program's own file: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("memra: the program's own file: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("memra: the program's own file: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// probes is how many places of a tensor are looked at, of probeBytes each.
const probes, probeBytes = 32, 64

// modelHash is of what a model's files hold, and of their sizes and times.
func modelHash(src source) string {
	h := sha256.New()
	hashContent(h, src)
	stamp(h, src.Name())
	return hex.EncodeToString(h.Sum(nil))
}

// Fingerprint tells the model from others, whatever its file is called: a hash of what that holds.
func (m *Model) Fingerprint() string {
	h := sha256.New()
	hashContent(h, fileSource{m.file.(file)})
	return hex.EncodeToString(h.Sum(nil))
}

// hashContent adds all metadata, and each tensor's name, type and shape and its data at some places. To read all data would take as long as to
// load the model; what is trained, converted or quantised anew differs everywhere.
func hashContent(h io.Writer, src source) {
	for key, value := range src.Metadata().All() {
		fmt.Fprintf(h, "%q %T %v\n", key, value, value)
	}
	for _, t := range src.Tensors() {
		fmt.Fprintf(h, "%q %v %v\n", t.Name, t.Type, t.Shape)
		hashTensor(h, t)
	}
}

func hashTensor(h io.Writer, t gguf.Tensor) {
	for _, part := range t.Parts {
		hashTensor(h, part)
	}
	n := len(t.Data)
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	for i := range probes {
		at := (n - probeBytes) / (probes - 1) * i
		if i == probes-1 {
			at = n - probeBytes
		}
		at = max(0, at)
		h.Write(t.Data[at:min(n, at+probeBytes)])
	}
}

// stamp adds the sizes and times of a file, or of a folder's; nothing for a model without either.
func stamp(h io.Writer, path string) {
	files := []string{path}
	if entries, err := os.ReadDir(path); err == nil {
		files = nil
		for _, e := range entries {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(h, "%q %d %d\n", filepath.Base(file), info.Size(), info.ModTime().UnixNano())
		}
	}
}
