package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Resume finds out how much of the job a file has, reads in past the lines that are done, and makes the file ready for the next. Half a line at its
// end, which is what a run leaves that was killed while it wrote, is cut away. A file that is anything but the beginning of this job's output is
// an error, and stays as it is. So is one that another process works on.
func (j *Job) Resume(in *Reader, out *os.File) (done int, err error) {
	if err := lock(out); err != nil {
		return 0, err
	}
	whole, half, done, err := j.verify(in, out)
	if err != nil {
		return done, err
	}
	if half {
		if err := out.Truncate(whole); err != nil {
			return done, err
		}
	}
	_, err = out.Seek(whole, io.SeekStart)
	return done, err
}

// verify compares the lines of a file with those that the job would write. whole is the bytes of those that are whole, half whether there is
// more.
func (j *Job) verify(in *Reader, out *os.File) (whole int64, half bool, done int, err error) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return whole, false, done, err
		}
		if len(text) == 0 {
			return whole, false, done, nil
		}
		in.before = in.end
		l, ended := in.Next()
		if ended != nil && !errors.Is(ended, io.EOF) {
			return whole, false, done, ended
		}
		if ended != nil {
			return whole, false, done, fmt.Errorf("line %d answers nothing: the input ends before; %s", done+1, elsewhere)
		}
		want := j.Prefix + l.ID
		if err != nil { // half a line
			if n := min(len(want), len(text)); string(text[:n]) != want[:n] {
				return whole, false, done, j.strange(done+1, text, l)
			}
			in.again = &l
			return whole, true, done, nil
		}
		if !strings.HasPrefix(string(text[:min(len(text), len(want))]), want) || !json.Valid(bytes.TrimSpace(text)) {
			return whole, false, done, j.strange(done+1, text, l)
		}
		whole += int64(len(text))
		done++
	}
}

const elsewhere = "write to another file, or delete this one"

// strange is the error of a line that the job would not write.
func (j *Job) strange(number int, text []byte, l Line) error {
	id, ours := strings.CutPrefix(string(text[:min(len(text), len(j.Prefix)+len(l.ID))]), j.Prefix)
	switch {
	case !ours || len(id) < 8:
		return fmt.Errorf("line %d is no answer of a batch; %s", number, elsewhere)
	case id == l.ID:
		return fmt.Errorf("line %d is damaged: it is no JSON; %s", number, elsewhere)
	case id[:8] != l.ID[:8]:
		return fmt.Errorf("line %d was answered by another model, or with other flags; %s", number, elsewhere)
	}
	return fmt.Errorf("line %d answers another request than line %d of the input is now; %s", number, l.Number, elsewhere)
}
