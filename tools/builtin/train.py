#!/usr/bin/env python3
"""Stage 2, train: on one GPU, for so many minutes from start to end, whatever its speed.

    train.py DATA OUT [--minutes 8] [--until 1.0] [--resume FOLDER] ...

DATA is data.py's folder. OUT gets weights-*.safetensors (float32, files below 16 MiB), state.json and log.txt, every minute and at the
end. The rate of learning rises, stays, and falls to 0 from 60 % of the way: the way is time. `--until 0.5` stops half way, and
`--resume` with the folder of that run goes on from there, so two runs of eight minutes are one of sixteen. What the optimiser remembers
does not travel; the rate rises again after a stop.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

STARTED = time.monotonic()

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import corpus
from feed import Feed
from model import Config, Model
from optimise import Optimiser

SHARD = 15 << 20  # bytes of a file of weights at most
DRAFT = 0.2  # what the drafts' loss counts beside the model's
RESERVE = 20  # seconds for the last evaluation and for writing


def losses(hidden, drafted, embedding, tokens):
    """The model's cross-entropy with the text, and the drafts' with what the model says a token later; drafts learn to agree with it."""
    weight = embedding.to(hidden.dtype).T
    logits = hidden @ weight
    text = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
    said = logits[:, 1:].detach().float().softmax(-1)
    drafts = (drafted[:, :-1] @ weight).float().log_softmax(-1)
    return text, -(said * drafts).sum(-1).mean()


def rate(way, steps):
    """The share of the highest rate at a point of the way, so many steps after a start."""
    return min(1.0, (steps + 1) / 200) * min(1.0, (1 - way) / 0.4)


class Held:
    """What is held out, as windows."""

    def __init__(self, folder, window):
        texts = [d.text for d in corpus.read(folder / "held.xz")]
        encoded = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(texts)  # each begins with the end of another
        ids = np.array([i for e in encoded for i in e.ids])
        count = (len(ids) - 1) // window
        self.windows = np.stack([ids[i * window : (i + 1) * window + 1] for i in range(count)])
        self.bytes_a_token = sum(len(t.encode()) for t in texts) / len(ids)

    @torch.no_grad()
    def measure(self, run, model, limit=None, batch=16):
        """Bits a byte, and how often a draft is what the model finds likeliest. Few windows at a time: a GPU's memory for more took a minute."""
        nats = agreed = tokens = 0
        for i in range(0, len(self.windows[:limit]), batch):
            x = torch.from_numpy(self.windows[i : i + batch]).to(run.device)
            with run.autocast(), torch.compiler.set_stance("force_eager"):  # compiling for other sizes would cost a minute
                hidden, drafted = model(x)
                weight = model.model.embed_tokens.weight.to(hidden.dtype).T
                for h, d, t in zip(hidden.split(8), drafted.split(8), x.split(8)):
                    logits = h @ weight
                    nats += F.cross_entropy(logits.flatten(0, 1).float(), t[:, 1:].flatten(), reduction="sum").item()
                    agreed += ((d @ weight)[:, :-1].argmax(-1) == logits[:, 1:].argmax(-1)).float().mean().item() * len(t)
            tokens += x.shape[0] * (x.shape[1] - 1)
        return nats / np.log(2) / tokens / self.bytes_a_token, agreed / len(self.windows[:limit])


class Run:
    """The device and the folder of a run, and its log."""

    def __init__(self, out):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.out = Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.file = open(self.out / "log.txt", "a")

    def autocast(self):
        return torch.autocast(self.device, dtype=torch.bfloat16)

    def log(self, text):
        line = f"{time.monotonic() - STARTED:6.1f} s  {text}"
        print(line, flush=True)
        print(line, file=self.file, flush=True)

    def save(self, model, state):
        shards, size = [{}], 0
        for name, w in model.state_dict().items():
            if size + 4 * w.numel() > SHARD:
                shards.append({})
                size = 0
            shards[-1][name] = w.float().cpu().contiguous()
            size += 4 * w.numel()
        for i, shard in enumerate(shards):
            safetensors.torch.save_file(shard, self.out / f"weights-{i}.safetensors")
        (self.out / "state.json").write_text(json.dumps(state | {"config": asdict(model.config)}, indent=2))


def load(folder):
    """The model of a run's folder, and its state."""
    state = json.loads((Path(folder) / "state.json").read_text())
    model, weights = Model(Config(**state["config"])), {}
    for file in sorted(Path(folder).glob("weights-*.safetensors")):
        weights |= safetensors.torch.load_file(file)
    model.load_state_dict(weights)
    return model, state


def compile_parts(run, model, optimiser, first):
    """Compiles layers and losses, if the first steps with them work; returns the losses to use."""
    parts = [*model.model.layers, model.mtp]
    torch._dynamo.config.recompile_limit = 64
    compiled = torch.compile(losses, dynamic=False)
    for part in parts:
        part.compile(dynamic=False)
    try:
        for _ in range(2):
            text, drafts = forward(run, model, compiled, first)
            (text + DRAFT * drafts).backward()
            optimiser.step(0.0)
        if run.device == "cuda":
            torch.cuda.synchronize()
        run.log(f"compiled: losses {text.item():.4f}, {drafts.item():.4f} to begin with")
        return compiled
    except Exception as error:  # whatever the compiler's reason, a run without it is worth more than none
        run.log(f"NOT COMPILED, the run goes on without: {type(error).__name__}: {str(error)[:2000]}")
        for part in parts:
            part._compiled_call_impl = None
        model.zero_grad(set_to_none=True)
    if run.device == "cuda":
        torch.cuda.empty_cache()
    return losses


def forward(run, model, measure, windows):
    tokens = torch.from_numpy(windows.astype(np.int64)).to(run.device, non_blocking=True)
    with run.autocast():
        return measure(*model(tokens), model.model.embed_tokens.weight, tokens)


def main(a):
    feed_from = 0
    if a.resume:
        model, state = load(a.resume)
        feed_from = state["part"]
        if state["way"] >= a.until:
            raise SystemExit(f"train: {a.resume}: is {state['way']:.0%} of the way already; nothing is left until {a.until:.0%}")
    else:
        model, state = Model(Config(**json.loads(a.config))).start(a.seed), {"way": 0.0, "steps": 0, "tokens": 0}
    window = model.config.max_position_embeddings
    feed = Feed(a.data, a.seed, a.parts, window, a.batch, a.workers, feed_from)
    batches = iter(feed)
    run = Run(a.out)
    torch.set_float32_matmul_precision("high")
    model.to(run.device).residual = torch.bfloat16
    held = Held(a.data, window)
    run.log(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} million parameters, {len(held.windows)} windows held out, {torch.cuda.get_device_name() if run.device == 'cuda' else 'CPU'}, torch {torch.__version__}")
    optimiser = Optimiser(model)
    first = next(batches)
    run.log(f"the first batch is there: {first.shape[0]} x {first.shape[1]}")
    measure = compile_parts(run, model, optimiser, first) if a.compile else losses

    began, before, tokens_before, steps, next_log, next_save, slowest = time.monotonic(), state["way"], state["tokens"], 0, 0.0, 60.0, 0.0
    seconds = a.minutes * 60 - RESERVE - (began - STARTED)
    kept = []
    for windows in batches:
        elapsed = time.monotonic() - began
        way = before + (a.until - before) * min(1.0, elapsed / seconds)
        if way >= a.until or steps == a.steps:
            break
        text, drafts = forward(run, model, measure, windows)
        (text + DRAFT * drafts).backward()
        optimiser.step(a.rate * rate(way, steps))
        steps += 1
        state |= {"way": way, "steps": state["steps"] + 1, "tokens": state["tokens"] + windows.shape[0] * window, "part": feed.part}
        kept.append((text.detach(), drafts.detach()))
        if elapsed >= next_log:
            found = torch.tensor([[x.item() for x in pair] for pair in kept]).mean(0).tolist()  # waits for the device
            kept, next_log = [], elapsed + a.log_every
            speed = (state["tokens"] - tokens_before) / (time.monotonic() - began)
            run.log(f"step {state['steps']}: {way:.1%} of the way, epoch {feed.part / a.parts:.2f}, loss {found[0]:.4f}, drafts {found[1]:.4f}, {speed / 1e6:.3f} million tokens/s")
            if not np.isfinite(found[0]):
                raise SystemExit("train: the loss is no number; what was saved last stays")
        if elapsed >= next_save:
            next_save = elapsed + 60
            bits, agreed = held.measure(run, model, limit=128)
            run.log(f"held out, a part of it: {bits:.4f} bits a byte, {agreed:.1%} of drafts agree")
            run.save(model, state)
    if time.monotonic() - began >= seconds:
        state["way"] = a.until
    bits, agreed = held.measure(run, model)
    run.log(f"held out: {bits:.4f} bits a byte, {agreed:.1%} of drafts agree; {state['steps']} steps, {state['tokens'] / 1e6:.0f} million tokens")
    run.save(model, state | {"bits_a_byte": bits, "drafts_agree": agreed})
    feed.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("data", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--minutes", type=float, default=8, help="from the start of the program to its end")
    p.add_argument("--until", type=float, default=1.0, help="the part of the way at which to stop")
    p.add_argument("--resume", help="a run's folder to go on from")
    p.add_argument("--batch", type=int, default=64, help="windows a step")
    p.add_argument("--rate", type=float, default=4e-3, help="the highest rate of learning")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--parts", type=int, default=64, help="parts of an epoch")
    p.add_argument("--workers", type=int, default=10, help="processes that make parts")
    p.add_argument("--steps", type=int, help="stop after so many, for a try")
    p.add_argument("--log-every", type=float, default=10, help="seconds")
    p.add_argument("--config", default="{}", help="JSON over model.Config, for a try")
    p.add_argument("--no-compile", dest="compile", action="store_false")
    main(p.parse_args())
