package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a job that answers each line with its ID and itself, after a moment.
func echo(key string) *Job {
	return &Job{Key: key, Parallel: 7, Prefix: `{"id":"`, Work: func(_ context.Context, l Line) ([]byte, error) {
		time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
		return fmt.Appendf(nil, `{"id":"%s","line":%q,"error":%q}`, l.ID, l.Text, fmt.Sprint(l.Err)), nil
	}}
}

// answers is what a job writes for an input in one go.
func answers(t *testing.T, j *Job, input string) string {
	t.Helper()
	var out strings.Builder
	if err := j.Run(t.Context(), NewReader(strings.NewReader(input), j.Key), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestTheOutputHasTheInputsOrder(t *testing.T) {
	out := answers(t, echo("k"), "\n  first\r\n\n"+lines(500)+"last, without an end")
	got := strings.Split(strings.TrimSpace(out), "\n")
	if len(got) != 502 {
		t.Fatalf("%d lines, want 502: blank ones count for nothing", len(got))
	}
	for i, want := range []string{`"first"`, `"line 0"`, `"line 1"`} {
		if !strings.Contains(got[i], want) {
			t.Errorf("line %d is %s, want %s", i, got[i], want)
		}
	}
	if !strings.Contains(got[501], `"last, without an end"`) {
		t.Errorf("the last line is %s", got[501])
	}
}

func TestALineThatIsTooLongIsAnErrorAndTheRestGoesOn(t *testing.T) {
	r := NewReader(strings.NewReader("short\n"+strings.Repeat("x", 3<<20)+"\nlast\n"), "k")
	r.most = 1 << 20
	var got []string
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		got = append(got, fmt.Sprintf("%d %q %v", l.Number, l.Text, l.Err))
	}
	want := `[1 "short" <nil> 2 "" the line has more than 1048576 bytes, want fewer 3 "last" <nil>]`
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// A run that is killed leaves any first part of its output.
func TestAKilledRunGoesOnWhereItStopped(t *testing.T) {
	input := lines(60)
	whole := answers(t, echo("k"), input)
	path := filepath.Join(t.TempDir(), "out")
	for cut := 0; cut <= len(whole); cut += 1 + cut/50 {
		if err := os.WriteFile(path, []byte(whole[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		j := echo("k")
		in := NewReader(strings.NewReader(input), j.Key)
		done, err := j.Resume(in, f)
		if want := strings.Count(whole[:cut], "\n"); err != nil || done != want {
			t.Fatalf("cut at %d: %d lines done, %v, want %d", cut, done, err, want)
		}
		if err := j.Run(t.Context(), in, f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got, _ := os.ReadFile(path); string(got) != whole {
			t.Fatalf("cut at %d: the output differs from that of a run that was not killed", cut)
		}
	}
}

func TestAFileThatIsNotTheBeginningOfTheOutputStaysAsItIs(t *testing.T) {
	input := lines(5)
	whole := answers(t, echo("k"), input)
	first, rest, _ := strings.Cut(whole, "\n")
	for _, c := range []struct {
		name, file, input, key string
		want                   string
	}{
		{"another file", "# Notes\n", input, "k", "line 1 is no answer of a batch"},
		{"another file without a line's end", "notes", input, "k", "line 1 is no answer of a batch"},
		{"JSON of another kind", `{"id":7}` + "\n", input, "k", "line 1 is no answer"},
		{"another model", whole, input, "other", "line 1 was answered by another model"},
		{"an input with a line changed", whole, strings.Replace(input, "line 2", "line two", 1), "k", "line 3 answers another request than line 3 of the input"},
		{"an input with a line in front", whole, "new\n" + input, "k", "line 1 answers another request than line 1"},
		{"an input that ends before", whole, lines(3), "k", "line 4 answers nothing"},
		{"a line that is lost", rest, input, "k", "line 1 answers another request"},
		{"a line that is damaged", strings.Replace(whole, `"}`, `"`, 1), input, "k", "line 1 is damaged"},
		{"half a line of another model", first[:20], input, "other", "was answered by another model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			j := echo(c.key)
			if _, err := j.Resume(NewReader(strings.NewReader(c.input), j.Key), f); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if got, _ := os.ReadFile(path); string(got) != c.file {
				t.Errorf("the file was changed to %q", got)
			}
		})
	}
}

func TestHugeInputsAreReadAsTheyAreNeeded(t *testing.T) {
	var read, wrote, most atomic.Int64
	j := &Job{Parallel: 4, Work: func(context.Context, Line) ([]byte, error) { return []byte("x"), nil }}
	j.Wrote = func(Line) { wrote.Add(1) }
	in := NewReader(readerFunc(func(p []byte) (int, error) {
		if read.Load() == 200_000 {
			return 0, io.EOF
		}
		read.Add(1)
		most.Store(max(most.Load(), read.Load()-wrote.Load()))
		return copy(p, "line\n"), nil
	}), "k")
	if err := j.Run(t.Context(), in, io.Discard); err != nil {
		t.Fatal(err)
	}
	if wrote.Load() != 200_000 || most.Load() > 8*4+64+10 {
		t.Errorf("%d lines written, want 200,000; at most %d read ahead, want about a hundred", wrote.Load(), most.Load())
	}
}

// What is large is held by its size: the first line waits, and those behind it are a quarter of a gigabyte at most, and what was begun by then.
func TestLargeLinesAreHeldByTheirSize(t *testing.T) {
	const size = 8 << 20
	begun, release := make(chan int, 200), make(chan struct{})
	j := &Job{Parallel: 4, Work: func(_ context.Context, l Line) ([]byte, error) {
		begun <- l.Number
		if l.Number == 1 {
			<-release
		}
		return make([]byte, size), nil
	}}
	ended := make(chan error)
	go func() {
		ended <- j.Run(t.Context(), NewReader(strings.NewReader(strings.Repeat("line\n", 100)), "k"), io.Discard)
	}()
	n := 0
	for quiet := false; !quiet; {
		select {
		case <-begun:
			n++
		case <-time.After(200 * time.Millisecond):
			quiet = true
		}
	}
	if most := mostHeld/size + 4 + 2; n < mostHeld/size || n > most {
		t.Errorf("%d lines were worked on while the first was, want %d to %d", n, mostHeld/size, most)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAFailureEndsTheJobAfterWhatCameBefore(t *testing.T) {
	broken := errors.New("the device is gone")
	j := echo("k")
	whole := answers(t, j, lines(100))
	work := j.Work
	j.Work = func(ctx context.Context, l Line) ([]byte, error) {
		if l.Number > 40 {
			return nil, broken
		}
		return work(ctx, l)
	}
	var out strings.Builder
	err := j.Run(t.Context(), NewReader(strings.NewReader(lines(100)), j.Key), &out)
	if !errors.Is(err, broken) || !strings.HasPrefix(whole, out.String()) || strings.Count(out.String(), "\n") != 40 {
		t.Errorf("error %v after %d lines, want that of line 41", err, strings.Count(out.String(), "\n"))
	}
}

func TestAnEndedContextEndsTheJobThoughTheInputIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		fmt.Fprint(w, "one\ntwo\n")
		time.Sleep(20 * time.Millisecond)
		cancel()
	}()
	var out strings.Builder
	j := echo("k")
	if err := j.Run(ctx, NewReader(r, j.Key), &out); !errors.Is(err, context.Canceled) || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("error %v after %q, want the context's after two lines", err, out.String())
	}
}
