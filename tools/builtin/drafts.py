#!/usr/bin/env python3
"""Stage 5, drafts: the layer that drafts learns to go on from its own guesses. The model stays as it is.

    drafts.py DATA FOLDER OUT [--written PROMPTS ANSWERS] [--minutes 60] ...

FOLDER is export.py's; OUT becomes a copy with another layer. In train.py the layer saw only what the model made of a token. When it
guesses a second token it sees what it made of the first guess itself, and its keys of that one; so here it does (as in EAGLE-3,
arXiv:2503.01840). Row p of depth d sees token p+1 and what depth d-1 made of row p-1, and guesses token p+2:

    depth 1   hidden(p)     token p+1    keys of depth 1 up to p
    depth 2   depth 1(p-1)  token p+1    keys of depth 1 up to p-1, of depth 2 at p
    depth 3   depth 2(p-1)  token p+1    keys of depth 1 up to p-2, of depth 2 at p-1, of depth 3 at p

Every depth shall agree with what the model says of token p+2.
"""

import argparse
import json
import shutil
import time
from pathlib import Path

STARTED = time.monotonic()

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from feed import Feed
from model import Config, Model
from optimise import Optimiser
from train import Held, Run
from vocabulary import END

WORTH = (2.5, 1.6, 0.8, 0.5)  # of a depth: how much longer what is kept gets with each more that is right, about


def later(x, rows):
    """x [batch, tokens, ...], so many rows later."""
    return F.pad(x, (0, 0) * (x.dim() - 2) + (rows, 0))[:, : x.shape[1]]


def unrolled(model, following, hidden, depths, window):
    """What each depth makes of its rows, of which the first d-1 are none."""
    layer, a = model.mtp.layers[0], model.mtp.layers[0].self_attn
    batch, tokens, _ = hidden.shape
    back = torch.arange(tokens, device=hidden.device)
    back = back[:, None] - back
    seen, outs = [], []
    embedded = model.mtp.pre_fc_norm_embedding(following)
    for d in range(depths):
        x = model.mtp.fc(torch.cat([embedded, model.mtp.pre_fc_norm_hidden(later(outs[-1], 1) if d else hidden)], -1))
        n = layer.input_layernorm(x)
        q, gate = a.q_proj(n).view(batch, tokens, a.heads, 2 * a.dim).chunk(2, -1)
        k, v = (p(n).view(batch, tokens, a.kv_heads, a.dim) for p in (a.k_proj, a.v_proj))
        q, k = a.turn(a.q_norm(q)) * a.dim**-0.5, a.turn(a.k_norm(k))
        k, v = (y.repeat_interleave(a.heads // a.kv_heads, 2) for y in (k, v))
        seen.append((k, v))
        keys, values = (y.transpose(1, 2) for y in seen[0])
        far = (q.transpose(1, 2) @ keys.mT).float().masked_fill((back < d) | (back >= window), float("-inf"))
        near = [(later(k, d - j), later(v, d - j)) for j, (k, v) in enumerate(seen) if j > 0]
        scores = torch.cat([far, *((q * k).sum(-1).transpose(1, 2)[..., None].float() for k, _ in near)], -1).softmax(-1).type_as(v)
        o = (scores[..., :tokens] @ values).transpose(1, 2)
        for i, (_, v) in enumerate(near):
            o = o + scores[..., tokens + i].transpose(1, 2)[..., None] * v
        x = x + a.o_proj((o * gate.sigmoid()).reshape(batch, tokens, -1))
        outs.append(model.mtp.norm(x + layer.mlp(layer.post_attention_layernorm(x))))
    return outs


@torch.no_grad()
def said(model, tokens):
    """What the model makes of tokens [batch, T+1]: of each but the last, hidden, and the logits of those behind the first."""
    following = model.model.embed_tokens(tokens)
    x = following[:, :-1]
    for layer in model.model.layers:
        x = layer(x)
    hidden = model.model.norm(x)
    return following[:, 1:], hidden, hidden[:, 1:] @ model.model.embed_tokens.weight.to(hidden.dtype).T


class Agreement(torch.autograd.Function):
    """The cross-entropy of what rows x @ weight say with probabilities p. The gradient costs one product."""

    @staticmethod
    def forward(ctx, x, weight, p):
        log = (x @ weight).float().log_softmax(-1)
        ctx.save_for_backward(weight, (log.exp() - p).to(x.dtype))
        ctx.rows = p[..., 0].numel()
        return -(p * log).sum() / ctx.rows

    @staticmethod
    def backward(ctx, grad):
        weight, difference = ctx.saved_tensors
        return difference @ weight.mT * (grad / ctx.rows).to(weight.dtype), None, None


def losses(outs, logits, weight):
    """Of each depth, on the rows that it has."""
    p = logits.float().softmax(-1)
    return torch.stack([Agreement.apply(x[:, d:-1].to(weight.dtype), weight, p[:, d:]) for d, x in enumerate(outs)])


@torch.no_grad()
def chains(run, model, windows, depths, back, batch=4):
    """How often the first, the first two, .. guesses are what the model finds likeliest, on windows."""
    counts, rows = np.zeros(depths), 0
    for i in range(0, len(windows), batch):
        x = torch.from_numpy(windows[i : i + batch].astype(np.int64)).to(run.device)
        with run.autocast():
            following, hidden, logits = said(model, x)
            weight = model.model.embed_tokens.weight.to(hidden.dtype).T
            choice = logits.argmax(-1)
            right = torch.ones_like(choice[:, depths - 1 :], dtype=torch.bool)
            for d, y in enumerate(unrolled(model, following, hidden, depths, back)):  # depth d of row p goes on from depth d-1 of row p-1
                agrees = (y[:, :-1] @ weight).argmax(-1) == choice
                right &= agrees[:, d : d + right.shape[1]]
                counts[d] += right.sum().item()
            rows += right.numel()
    return counts / rows


def written(prompts, answers, tokenizer, window):
    """Prompts, and what the model went on with, as windows."""
    lines = lambda path: [json.loads(line) for line in open(path)]
    texts = [t for r, w in zip(lines(prompts), lines(answers), strict=True) if w["response"]
             for t in (r["body"]["prompt"], w["response"]["body"]["choices"][0]["text"])]
    encoded = [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    end = tokenizer.token_to_id(END)
    ids = np.array([i for p, a in zip(encoded[::2], encoded[1::2]) for i in (end, *p, *a)], np.uint16)
    return np.stack([ids[i : i + window + 1] for i in range(0, len(ids) - window, window)])


def mixed(batches, own, rng):
    """Batches of which half is what the model wrote."""
    order = []
    for windows in batches:
        half = len(windows) // 2
        if len(order) < half:
            order = rng.permutation(len(own)).tolist()
        yield np.concatenate([windows[half:], own[order[:half]]])
        del order[:half]


def load(folder):
    """The model of a Hugging Face folder."""
    settings = json.loads((folder / "config.json").read_text())
    rope = settings["rope_parameters"]
    ours = settings | {"linear_num_heads": settings["linear_num_key_heads"], "linear_head_dim": settings["linear_key_head_dim"]} | {k: rope[k] for k in ("rope_theta", "partial_rotary_factor")}
    model = Model(Config(**{k: v for k, v in ours.items() if k in Config.__dataclass_fields__}))
    model.load_state_dict(safetensors.torch.load_file(folder / "model.safetensors"))
    return model


def save(model, folder, out):
    """The same folder with the model's weights."""
    out.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if file.name != "model.safetensors":
            shutil.copy(file, out)
    safetensors.torch.save_file({k: w.float().cpu().contiguous() for k, w in model.state_dict().items()}, out / "model.safetensors", {"format": "pt"})


def main(a):
    model = load(a.folder)
    feed = Feed(a.data, a.seed, a.parts, a.window, a.batch, a.workers)
    batches, own = iter(feed), []
    if a.written:
        own = written(*a.written, Tokenizer.from_file(str(a.data / "tokenizer.json")), a.window)
        batches = mixed(batches, own, np.random.default_rng(a.seed))
    run = Run(a.out)
    model.to(run.device).requires_grad_(False)
    model.mtp.requires_grad_(True)
    held = Held(a.data, a.window).windows[:: a.held]
    optimiser = Optimiser(model.mtp)
    worth = torch.tensor(WORTH[: a.depths], device=run.device)
    worth /= worth.sum()
    seconds, began = a.minutes * 60 - (time.monotonic() - STARTED), time.monotonic()

    def show(when):
        found = chains(run, model, held, a.depths, a.back)
        run.log(f"{when}: guesses that are right, and all before them: {' '.join(f'{c:.4f}' for c in found)}; {1 + found.sum():.3f} tokens a step")

    run.log(f"{sum(p.numel() for p in model.mtp.parameters()) / 1e6:.2f} million parameters, {len(held)} windows held out, {len(own)} of the model's own, {run.device}")
    show("to begin with")
    kept, next_log, next_show = [], 30.0, a.show_every
    for step, windows in enumerate(batches):
        elapsed = time.monotonic() - began
        way = elapsed / seconds
        if way >= 1 or step == a.steps:
            break
        tokens = torch.from_numpy(windows.astype(np.int64)).to(run.device)
        with run.autocast():
            following, hidden, logits = said(model, tokens)
            loss = losses(unrolled(model, following, hidden, a.depths, a.back), logits, model.model.embed_tokens.weight.to(hidden.dtype).T)
        (loss * worth).sum().backward()
        optimiser.step(a.rate * min(1.0, (step + 1) / 50) * min(1.0, (1 - way) / 0.6))
        kept.append(loss.detach())
        if elapsed >= next_log:
            run.log(f"step {step + 1}, {way:.1%}: losses {' '.join(f'{x:.4f}' for x in torch.stack(kept).mean(0).tolist())}, {(step + 1) * tokens.numel() / elapsed:.0f} tokens/s")
            kept, next_log = [], elapsed + 60
        if elapsed >= next_show:
            next_show = elapsed + a.show_every
            show(f"step {step + 1}")
            save(model, a.folder, a.out)
    show("at the end")
    save(model, a.folder, a.out)
    feed.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("data", type=Path)
    p.add_argument("folder", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--written", nargs=2, metavar=("PROMPTS", "ANSWERS"), help="what the model wrote itself (prompts.py); half of each batch")
    p.add_argument("--minutes", type=float, default=60, help="from the start of the program, without the last evaluation")
    p.add_argument("--depths", type=int, default=4, help="guesses in a row")
    p.add_argument("--back", type=int, default=512, help="positions that a guess looks back at (draftWindow of model/qwen35draft.go)")
    p.add_argument("--window", type=int, default=1024, help="tokens")
    p.add_argument("--batch", type=int, default=4, help="windows a step")
    p.add_argument("--rate", type=float, default=1.5e-3, help="the highest rate of learning")
    p.add_argument("--seed", type=int, default=2)
    p.add_argument("--parts", type=int, default=512, help="parts of an epoch")
    p.add_argument("--workers", type=int, default=1, help="processes that make parts")
    p.add_argument("--held", type=int, default=16, help="one of so many windows that are held out is looked at")
    p.add_argument("--show-every", type=float, default=600, help="seconds between looks at them")
    p.add_argument("--steps", type=int, help="stop after so many, for a try")
    main(p.parse_args())
