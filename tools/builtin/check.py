#!/usr/bin/env python3
"""The training model against transformers' qwen3_5 on the same random weights: logits and the gradients of all parameters.

    check.py          exits with 1 if they differ by more than 1e-4 of the largest (float32, on the CPU)

The layer that drafts, which transformers does not have, is put together of its parts by ../oracle/draft.py. Rows that go on from its guesses are compared
with what it makes of them one by one.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

sys.path.append(str(Path(__file__).resolve().parent.parent / "oracle"))
from draft import Drafter

import drafts
from delta import delta_rule
from model import Config, Model

TOLERANCE = 1e-4


def off(name, found, want):
    """The largest difference, relative to the largest value."""
    error = ((found - want).abs().max() / want.abs().max().clamp_min(1e-12)).item()
    print(f"{name:<50} {error:.1e}")
    return error


def slow_delta_rule(q, k, v, g, beta):
    """Token by token, in float64."""
    q, k, v, g, beta = (x.double() for x in (q, k, v, g, beta))
    s, out = v.new_zeros(v.shape[0], v.shape[2], k.shape[-1], v.shape[-1]), []
    for i in range(v.shape[1]):
        s = s * g[:, i, :, None, None].exp()
        missing = beta[:, i, :, None] * (v[:, i] - torch.einsum("bhkv,bhk->bhv", s, k[:, i]))
        s = s + k[:, i].unsqueeze(-1) * missing.unsqueeze(-2)
        out.append(torch.einsum("bhkv,bhk->bhv", s, q[:, i]))
    return torch.stack(out, 1)


def rule():
    """The chunked rule and its gradients; every second key is the same, with little decay: what makes powers of a matrix grow."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    q, k, v = (draw(2, 192, 2, 64) for _ in range(3))
    k[:, 1::2] = k[:, 1:2]
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    g, beta = -draw(2, 192, 2).exp() * 0.01, draw(2, 192, 2).add(2).sigmoid()
    inputs = [x.requires_grad_() for x in (q, k, v, g, beta)]
    found, want = delta_rule(*inputs), slow_delta_rule(*inputs)
    up = draw(*want.shape)
    errors = [off("delta rule", found, want)]
    for name, a, b in zip("q k v g beta".split(), torch.autograd.grad(found, inputs, up), torch.autograd.grad(want, inputs, up.double())):
        errors.append(off(f"delta rule, gradient of {name}", a, b))
    return max(errors)


def whole():
    torch.manual_seed(0)
    c = Config(vocab_size=512, hidden_size=128, intermediate_size=192, num_hidden_layers=4)
    ours = Model(c).start(0)
    with torch.no_grad():
        for w in ours.parameters():  # what is 0 or 1 to begin with would hide a gain in the wrong place
            w.add_(torch.randn_like(w) * 0.05)
    config = transformers.AutoConfig.for_model(**{k: v for k, v in c.transformers(0).items() if k not in ("architectures", "dtype")})
    theirs, drafter = Qwen3_5ForCausalLM._from_config(config, attn_implementation="eager").float(), Drafter(config).float()
    missing, unexpected = theirs.load_state_dict({k: v for k, v in ours.state_dict().items() if k.startswith("model.")}, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    drafter.load_state_dict({k.removeprefix("mtp."): v for k, v in ours.mtp.state_dict().items()})
    theirs.tie_weights()
    tokens = torch.randint(0, 512, (2, 193))
    hidden, drafted = ours(tokens)
    found = ours.logits(hidden), ours.logits(drafted)
    state = theirs.model(tokens[:, :-1], use_cache=False).last_hidden_state
    want = theirs.lm_head(state), theirs.lm_head(drafter(theirs, tokens, state))
    errors = [off("logits", found[0], want[0]), off("drafts", found[1], want[1])]
    loss = lambda out: sum(x.float().pow(2).mean() + F.cross_entropy(x.flatten(0, 1), tokens[:, 1:].flatten()) for x in out)
    loss(found).backward()
    loss(want).backward()
    grads = dict(theirs.named_parameters()) | {f"mtp.{k}": w for k, w in drafter.named_parameters()}
    for name, w in ours.named_parameters():
        errors.append(off(f"gradient of {name}", w.grad, grads[name].grad))
    return max(errors)


@torch.no_grad()
def guesses(depths=4, p=150):
    """Rows that go on from guesses, all at once, against the layer's own row p behind rows that do not."""
    torch.manual_seed(0)
    c = Config(vocab_size=512, hidden_size=128, intermediate_size=192, num_hidden_layers=4)
    model = Model(c).start(0)
    for w in model.mtp.parameters():
        w.add_(torch.randn_like(w) * 0.05)
    following, hidden, _ = drafts.said(model, torch.randint(0, 512, (2, 193)))
    outs = drafts.unrolled(model, following, hidden, depths, window=1000)
    errors = [off("guesses of depth 1", outs[0], model.mtp(following, hidden))]
    for d in range(1, depths):
        guessed = [outs[j][:, p - d + j : p - d + j + 1] for j in range(d)]
        row = model.mtp(following[:, : p + 1], torch.cat([hidden[:, : p - d + 1], *guessed], 1))[:, p]
        errors.append(off(f"guesses of depth {d + 1}", outs[d][:, p], row))
    return max(errors)


if __name__ == "__main__":
    worst = max(rule(), whole(), guesses())
    print(f"check: {'ok' if worst < TOLERANCE else 'DIFFERENT'}: {worst:.1e} at most, {TOLERANCE:.0e} allowed")
    sys.exit(worst >= TOLERANCE)
