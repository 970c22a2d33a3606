package golden

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Folder brings the files of a zip that tools/oracle/hf.py wrote, which all lie beside each other, into a folder that is there.
func Folder(path, folder string) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("golden: %s: %w", path, err)
	}
	defer z.Close()
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("golden: %s: %w", path, err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("golden: %s: %s: %w", path, f.Name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(f.Name)), data, 0o644); err != nil {
			return fmt.Errorf("golden: %w", err)
		}
	}
	return nil
}
