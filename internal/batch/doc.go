// Package batch works through a file of lines, many at once, into a file with a line for each, in the same order. It knows nothing of
// what the lines say.
//
//	job := batch.Job{Key: key, Parallel: 16, Work: func(ctx context.Context, l batch.Line) ([]byte, error) { .. }}
//	done, err := job.Resume(in, out) // what an earlier run has done of it
//	err = job.Run(ctx, in, out)      // the rest
//
// What always holds: only whole lines are written, each once all before it are. A run may be killed at any time; the next one, with the
// same key, goes on behind the last whole line. A line's ID is a function of the job's key and of the line with its place, and every line of output
// begins with it: so Resume finds out whether a file is the beginning of this job's output, and touches no other. Memory does not grow with the files:
// a bounded number of lines, and of bytes, is held.
package batch
