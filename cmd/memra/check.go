package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"memra/compute"
	"memra/compute/cpu"
	"memra/internal/check"
	"memra/internal/devices"
)

type checkCommand struct {
	*app
	device  deviceName
	threads int
	models  []string
	goldens string
	quick   bool
	seed    uint64
	output  choice
}

func newCheck(a *app) *cobra.Command {
	c := &checkCommand{app: a, output: choices("text", "json")}
	cmd := &cobra.Command{
		Use:   "check [flags]",
		Short: "Prove that a device computes what it should",
		Long: `Prove that a device computes what it should, a line for each check; the exit status is 1 if one fails.

Every operation on fresh random inputs, in every weight format that the device takes, against float64, to the tolerance that the
device's class states; rows alone against the same rows among others, bit for bit; whole models by random schedules; graphs against
single launches, and assembly against plain Go, where the device has such. -m adds a model file: its logits against those that float32
transformers gave on the same weights, where --goldens has a record of them, and its schedules.

Inputs are drawn from --seed, which is random unless given and part of the report: any outcome can be had again.`,
		Example: `  memra check
  memra check --device cuda --quick -o json
  memra check -m .models/SmolLM2-135M-Instruct.Q4_1.gguf -m .models/gemma-3-270m-q4_k_m.gguf`,
		Args: cobra.NoArgs,
		RunE: interruptible(c.run),
	}
	flags := cmd.Flags()
	c.device.add(cmd)
	flags.IntVarP(&c.threads, "threads", "t", 0, "threads of the CPU that compute (default one a processor)")
	flags.StringArrayVarP(&c.models, "model", "m", nil, "check this model file too; may be repeated")
	must(cmd.MarkFlagFilename("model", "gguf"))
	flags.StringVar(&c.goldens, "goldens", "model/testdata", "folder with records of model files' logits")
	must(cmd.MarkFlagDirname("goldens"))
	flags.BoolVar(&c.quick, "quick", false, "fewer and smaller shapes")
	flags.Uint64VarP(&c.seed, "seed", "s", 0, "of the inputs (default random)")
	c.output.addOutput(cmd)
	return cmd
}

// checkReport is the outcome in JSON.
type checkReport struct {
	Device string         `json:"device"`
	Class  string         `json:"class"`
	Commit string         `json:"build_commit"`
	Seed   uint64         `json:"seed"`
	Quick  bool           `json:"quick"`
	Failed int            `json:"failed"`
	Checks []check.Result `json:"checks"`
}

func (c *checkCommand) run(ctx context.Context, cmd *cobra.Command, _ []string) (err error) {
	if !cmd.Flags().Changed("seed") {
		c.seed = rand.Uint64N(1 << 32)
	}
	d, err := await(ctx, func() (compute.Device, error) {
		return devices.Open(string(c.device), devices.Options{Threads: c.threads, Log: c.log})
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	o := check.Options{Seed: c.seed, Quick: c.quick, Models: c.models, Goldens: c.goldens}
	if d.Class() == "cpu" {
		o.Plain = func() (compute.Device, error) { return cpu.OpenPlain(c.threads) }
	}
	report := checkReport{Device: d.Name(), Class: d.Class(), Commit: readBuild().Commit, Seed: c.seed, Quick: c.quick}
	var wrote error
	err = check.Run(ctx, d, o, func(r check.Result) {
		report.Checks = append(report.Checks, r)
		if r.Status == check.Failed {
			report.Failed++
		}
		if c.output.value == "text" {
			if _, e := fmt.Fprintf(c.out, "%-7s  %-52s  %6.2f s  %s\n", r.Status, r.Name, r.Seconds, r.Detail); e != nil {
				wrote = e
			}
		}
	})
	if err = errors.Join(err, wrote); err != nil {
		return err
	}
	if c.output.value == "json" {
		err = writeJSON(c.out, report)
	} else {
		_, err = fmt.Fprintf(c.out, "%d checks, %d failed; %s, seed %d\n", len(report.Checks), report.Failed, report.Device, c.seed)
	}
	if err != nil {
		return err
	}
	if report.Failed > 0 {
		return fmt.Errorf("check: %d of %d checks failed on %s; --seed %d repeats them", report.Failed, len(report.Checks), report.Device, c.seed)
	}
	return nil
}
