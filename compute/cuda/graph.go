package cuda

import (
	"fmt"
	"slices"
)

// graphs are the steps that have been captured. A step is its list of launches: one that equals an earlier list replays that
// graph; one seen for the second time is captured, with programs in it (program.go); others are issued launch by launch. Nobody
// says "decode": whatever repeats becomes a graph.
type graphs struct {
	list   []*graph   // the one used last comes first
	recent [64]uint64 // hashes of lists that were issued as they were
	next   int        // in recent
	made   int        // graphs, with those that have made room
	eager  bool       // capture nothing: for tests
}

// maxGraphs is how many are kept; the one used least recently makes room.
const maxGraphs = 128

type graph struct {
	launches []launch
	exec     handle
	programs []pointer // their memory
}

// hashOf mixes what distinguishes lists: kernels, grids, arguments.
func hashOf(list []launch) uint64 {
	h := uint64(len(list))
	mix := func(v uint64) {
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	for i := range list {
		l := &list[i]
		mix(uint64(l.kernel.function))
		mix(uint64(l.grid[0])<<32 | uint64(l.grid[1])<<16 | uint64(l.grid[2]))
		mix(uint64(l.shared)<<32 | uint64(l.cluster))
		for _, a := range l.args[:l.count] {
			mix(a)
		}
	}
	return h
}

// issue runs a list of launches on the stream.
func (d *Device) issue(list []launch) error {
	g := &d.graphs
	if g.eager || len(list) == 0 {
		return d.launchAll(list)
	}
	for i, c := range g.list { // lists that differ do so early
		if slices.Equal(c.launches, list) {
			g.use(i)
			return check(d.driver, d.driver.graphLaunch(c.exec, d.stream), "cuGraphLaunch(%d kernels)", len(list))
		}
	}
	hash := hashOf(list)
	if !slices.Contains(g.recent[:], hash) {
		g.recent[g.next] = hash
		g.next = (g.next + 1) % len(g.recent)
		return d.launchAll(list)
	}
	c, err := d.capture(list)
	if err != nil {
		return err
	}
	return check(d.driver, d.driver.graphLaunch(c.exec, d.stream), "cuGraphLaunch(%d kernels)", len(list))
}

// use moves a graph to the front.
func (g *graphs) use(i int) {
	c := g.list[i]
	copy(g.list[1:], g.list[:i])
	g.list[0] = c
}

// capture makes a graph of a list and keeps it. With the cache full it takes over the graph used least recently, by an update
// where the two have the same shape.
func (d *Device) capture(list []launch) (*graph, error) {
	fused, programs, err := d.fuse(list)
	if err != nil {
		return nil, err
	}
	if err := check(d.driver, d.driver.captureBegin(d.stream), "cuStreamBeginCapture"); err != nil {
		return nil, err
	}
	err = d.launchAll(fused)
	h, s := d.driver.captureEnd(d.stream)
	if err != nil {
		return nil, err
	}
	if err := check(d.driver, s, "cuStreamEndCapture(%d kernels)", len(list)); err != nil {
		return nil, err
	}
	defer d.driver.graphDestroy(h)
	c := &graph{launches: append([]launch(nil), list...), programs: programs}
	d.graphs.made++
	if g := &d.graphs; len(g.list) < maxGraphs {
		g.list = slices.Insert(g.list, 0, c)
	} else {
		was := g.list[maxGraphs-1]
		g.list[maxGraphs-1] = c
		g.use(maxGraphs - 1)
		for _, p := range was.programs {
			if err := d.free(p); err != nil {
				return nil, err
			}
		}
		updated, s := d.driver.graphUpdate(was.exec, h)
		if err := check(d.driver, s, "cuGraphExecUpdate(%d kernels)", len(list)); err != nil {
			return nil, err
		}
		if updated {
			c.exec = was.exec
			return c, nil
		}
		if err := check(d.driver, d.driver.execDestroy(was.exec), "cuGraphExecDestroy"); err != nil {
			return nil, err
		}
	}
	c.exec, s = d.driver.graphInstantiate(h)
	return c, check(d.driver, s, "cuGraphInstantiateWithFlags(%d kernels)", len(list))
}

// launchAll launches kernel by kernel.
func (d *Device) launchAll(list []launch) error {
	for i := range list {
		l := &list[i]
		if n := int(l.shared); n > l.kernel.shared { // beyond 48 KiB, with what it declares itself, a function must be allowed to
			if err := check(d.driver, d.driver.functionSetShared(l.kernel.function, n), "cuFuncSetAttribute(%s, %d bytes of dynamic shared memory)", l.kernel.name, n); err != nil {
				return err
			}
			l.kernel.shared = n
		}
		if s := d.driver.launch(l, d.stream); s != success {
			return fmt.Errorf("%w (launch %d of %d)", check(d.driver, s, "cuLaunchKernelEx(%s, grid %v, block %d, %d bytes shared)",
				l.kernel.name, l.grid, l.block[0], l.shared), i+1, len(list))
		}
	}
	return nil
}
