package engine

import "time"

// work is what a step's time depends on: its rows, and how many positions they see.
type work struct{ rows, seen int }

// add counts the rows of a chunk from position first on.
func (w *work) add(first, rows int) {
	w.rows += rows
	w.seen += rows*first + rows*(rows+1)/2
}

// slower is how much longer a step of decode rows may take for the sake of prompts.
const slower = 1.4

// cost is what steps are known to take:
//
//	seconds = c0 + c1·rows + c2·seen
//
// The three are fitted to the steps so far by least squares of relative errors, older steps counting less and less. Where steps are
// too alike to tell the three apart, they stay near what they were.
type cost struct {
	c      [3]float64
	a      [3][3]float64 // sums of xᵢ·xⱼ/t² over the steps
	b      [3]float64    // sums of xᵢ/t
	saved  float64       // seconds that decoding steps could have been slower, and were not
	spoken bool          // has learned anything
}

// The units in which rows and positions are counted, so that the three figures are of a size.
const rowUnit, seenUnit = 64, 1 << 16

// newCost is a device that computes eight rows in the time in which it reads its weights.
func newCost() cost { return cost{c: [3]float64{8, rowUnit, 0}} }

func (c *cost) features(w work) [3]float64 {
	return [3]float64{1, float64(w.rows) / rowUnit, float64(w.seen) / seenUnit}
}

// seconds is what a step should take.
func (c *cost) seconds(w work) (t float64) {
	for i, x := range c.features(w) {
		t += x * c.c[i]
	}
	return t
}

// learn hears what a step took.
func (c *cost) learn(w work, took time.Duration) {
	t := took.Seconds()
	if t <= 0 {
		return
	}
	x := c.features(w)
	if !c.spoken { // the first step sets the scale
		scale := t / c.seconds(w)
		for i := range c.c {
			c.c[i] *= scale
		}
		c.spoken = true
	}
	const keeps, holds = 0.99, 0.01
	for i := range x {
		c.b[i] = keeps*c.b[i] + x[i]/t
		for j := range x {
			c.a[i][j] = keeps*c.a[i][j] + x[i]*x[j]/(t*t)
		}
	}
	// Gauss-Seidel from the last values, which hold them where the sums say nothing; none goes below zero.
	for range 8 {
		for i := range c.c {
			weight := holds * c.a[i][i]
			sum := c.b[i] + weight*c.c[i]
			for j := range c.c {
				if j != i {
					sum -= c.a[i][j] * c.c[j]
				}
			}
			if c.a[i][i] > 0 {
				c.c[i] = max(0, sum/(c.a[i][i]+weight))
			}
		}
	}
}

// beside is how many rows of a prompt, from a position on, may ride in a step of decode rows. Where it is less than one a step, it
// is one now and then.
func (c *cost) beside(decode work, position int) int {
	allowed := (slower - 1) * c.seconds(decode)
	row := c.c[1]/rowUnit + c.c[2]/seenUnit*float64(position)
	if row <= 0 {
		return 1 << 20
	}
	c.saved = min(c.saved, row) + allowed
	n := int(min(c.saved/row, 1<<20))
	c.saved -= float64(n) * row
	return n
}
