package spec

// account bounds what guessing may lose. What a guess brings is known when it has been tried, and a try has a price: rows that come to
// nothing, a device that prepares for launches that are new to it, a layer that remembers what went by. So every step pays in a small part of
// what it takes without guesses, steps with guesses pay in what they gain and take out what they lose, and what is not known is tried only as
// far as there is something left. Over time nothing is slower than without guesses by more than that part.
//
// It counts in steps without guesses, so that it is worth the same on any device, in any company.
type account struct {
	balance float64
	odd     float64   // how much longer steps take, in the mean, than their size is known to take: others compute on the machine
	resting bool      // too much was lost, and is not yet paid back
	last    []float64 // what the last few steps have changed
}

const (
	paid      = 0.01 // of every step
	initially = 4.0
	mostSaved = 30.0  // so that what has gained for hours does not lose for minutes
	overdraft = -6.0  // from which on nothing is guessed until all is paid back: it is not known what costs so much
	mostOwed  = -25.0 // so that a single odd time does not forbid guesses for long
	outlier   = 1.5   // a step longer than so many times what its size is known to take has been held up by others
	little    = 0.25  // that may be lost in debt, but for an overdraft: what has been prepared is to bring something
)

// step hears of a step that has made so many tokens for each one without guesses, in so many times what one takes, the guessing included.
func (a *account) step(tokens, time float64) { a.add(tokens - time/a.odd) }

// plain hears of a step without guesses that took so many times what its size is known to take.
func (a *account) plain(time float64) {
	a.odd += (min(max(time, 0.5), outlier) - a.odd) / 32
	a.add(0)
}

func (a *account) add(gain float64) {
	before := a.balance
	a.balance = max(mostOwed, min(before+gain+paid, max(before, mostSaved)))
	if a.last = append(a.last, a.balance-before); len(a.last) > few {
		a.last = a.last[1:]
	}
	a.resting = a.balance < overdraft || a.resting && a.balance < 0
}

// revoke forgets the last few steps, for they were reckoned by times that are no longer true.
func (a *account) revoke() {
	for _, change := range a.last {
		a.balance -= change
	}
	a.last, a.odd = nil, 1
	a.resting = a.resting && a.balance < 0
}

// invest allows for so many steps more to be lost.
func (a *account) invest(steps float64) { a.balance += steps }

// sinks reports whether the last few steps have lost so much that it is time to see whether steps without guesses still take what they took.
func (a *account) sinks() bool {
	sum := 0.0
	for _, change := range a.last {
		sum += change
	}
	return sum < -2
}
