package spec

import (
	"math/rand/v2"
	"testing"
)

// Whatever guesses cost, what is lost is not more than what was paid in, but for an overdraft, as long as whoever asks first keeps to it.
func TestLossesAreBoundedByWhatWasPaidIn(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, lost, price := account{balance: initially, odd: 1}, 0.0, 3*rng.Float64()
		const steps = 5000
		for range steps {
			if a.balance > 0 && !a.resting && rng.IntN(3) == 0 {
				a.step(1, 1+price)
				lost += price
			} else {
				a.plain(1)
			}
		}
		if most := initially + paid*steps + price; lost > most {
			t.Errorf("steps that lose %.2f each lost %.1f in %d, want at most %.1f", price, lost, steps, most)
		}
	}
}

func TestAnOverdraftIsPaidBackBeforeAnythingIsGuessed(t *testing.T) {
	a := account{odd: 1}
	a.step(1, 8)
	if !a.resting {
		t.Fatalf("with a balance of %.2f it goes on", a.balance)
	}
	n := 0
	for ; a.resting; n++ {
		a.plain(1)
	}
	if a.balance < 0 || n < 650 || n > 750 {
		t.Errorf("a loss of 7 is paid back after %d steps, balance %.2f, want about 700", n, a.balance)
	}
	a.step(1, 1000)
	if a.balance < mostOwed {
		t.Errorf("one odd time makes a debt of %.1f, want at most %v", -a.balance, -mostOwed)
	}
}

func TestWhatWasReckonedByOldTimesIsRevoked(t *testing.T) {
	a := account{balance: 5, odd: 1}
	for range few {
		a.step(2, 3)
	}
	if a.balance > -3 || !a.sinks() {
		t.Fatalf("balance %.2f after nine steps that lose one each", a.balance)
	}
	if a.revoke(); a.balance < 4.99 || a.balance > 5.01 || a.resting || a.sinks() {
		t.Errorf("balance %.2f, resting %v, want 5, as before", a.balance, a.resting)
	}
}

func TestALossIsNotThatTimesAreLongerInTheMean(t *testing.T) {
	a := account{balance: 0, odd: 1}
	for i := range 640 {
		a.plain([]float64{1, 1, 1, outlier}[i%4]) // more in the mean than in the median
	}
	before := a.balance
	for i := range 64 {
		a.step(1.5, 1.5*[]float64{1, 1, 1, outlier}[i%4])
	}
	if change := a.balance - before; change < -3 || change > 3 {
		t.Errorf("guesses that bring nothing and cost nothing change the balance by %.1f", change)
	}
}
