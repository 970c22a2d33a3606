package mapped

import "errors"

// Set is files that are open together, such as the files of a model. The zero value is empty.
type Set struct{ files []*File }

// Open adds a file; path and what are those of the function Open.
func (s *Set) Open(path, what string) (*File, error) {
	f, err := Open(path, what)
	if err == nil {
		s.files = append(s.files, f)
	}
	return f, err
}

// Release tells the system that no page of the files is needed for now. All data stays readable: its next use reads the files
// again.
func (s *Set) Release() {
	for _, f := range s.files {
		f.Release(0, len(f.Data))
	}
}

// Close closes the files, and empties the set.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}
