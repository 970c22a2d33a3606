#!/usr/bin/env python3
"""A tiny hybrid with a layer that drafts, and what transformers' parts make of it in float64.

    draft.py OUT      writes qwen35-draft.zip (the folder), .gguf.gz and .json.gz

transformers ignores the tensors mtp.*: the layer is put together here of its classes, as Qwen3-Next's authors describe it (and vLLM and llama.cpp
compute it): the norm of the next token's embedding beside the norm of the model's last, normalised, hidden state; a matrix; a layer with
attention; a norm; the model's output matrix. The JSON is tiny.py's, of rows for all tokens but the last; `hidden` is the one normalised state,
`logprobs` is 0 for the second token, which nothing drafts.
"""

import dataclasses
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

import tiny
import vocabularies
from families import TINY


class Drafter(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        norm = lambda: Qwen3_5RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = norm(), norm(), norm()
        self.fc = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([Qwen3_5DecoderLayer(config, config.layer_types.index("full_attention"))])

    def forward(self, model, tokens, hidden):
        """Hidden rows of tokens[i+1] after hidden[i]."""
        n = tokens.shape[1] - 1
        embedded = model.model.embed_tokens(tokens[:, 1:])
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden[:, :n])], dim=-1))
        turn = model.model.rotary_emb(x, torch.arange(n)[None])
        mask = torch.full((n, n), float("-inf"), dtype=x.dtype).triu(1)[None, None]
        return self.norm(self.layers[0](x, position_embeddings=turn, attention_mask=mask))


def main(out):
    torch.set_num_threads(1)
    m = dataclasses.replace(next(m for m in TINY if m.name == "qwen35-plain"), name="qwen35-draft")
    with tempfile.TemporaryDirectory() as parent:
        folder, path = Path(parent) / m.name, Path(parent) / "model.gguf"
        folder.mkdir()
        tokenizer = vocabularies.write(m.tokenizer, m.start, folder)
        with tiny.float64(), torch.no_grad():
            model = tiny.build(m, tokenizer.get_vocab_size(), 0)
            drafter = Drafter(model.config).eval()
            rng = np.random.default_rng(1)
            for name, w in drafter.named_parameters():
                k = torch.from_numpy(rng.integers(0, 4, w.shape) * 2.0 - 3)
                w.copy_(k / 16 if w.dim() == 1 or "q_proj" not in name else k / 8)
            prompts = []
            for text in vocabularies.PROMPTS:
                tokens = torch.tensor([tokenizer.encode(text).ids])
                hidden = model.model(tokens, use_cache=False).last_hidden_state
                drafted = drafter(model, tokens, hidden)
                logits, n = model.lm_head(drafted)[0].numpy(), tokens.shape[1] - 1
                positions = tiny.recorded(16, n)
                said = [0, *tiny.log_softmax(logits)[np.arange(n - 1), tokens[0, 2:]].tolist()]
                prompts.append({"tokens": tokens[0].tolist(), "logprobs": said, "positions": positions, "logits": tiny.floats(logits[positions]), "hidden": tiny.floats(drafted.numpy()[:, positions])})
        model.to(torch.float32).save_pretrained(folder)
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        tensors |= {f"mtp.{name}": w.to(torch.float32) for name, w in drafter.state_dict().items()}
        safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"mtp_num_hidden_layers": 1}, indent=2))
        tiny.convert(m, folder, path, drafts=True)
        (out / f"{m.name}.zip").write_bytes(tiny.packed(folder))
        data = path.read_bytes()
    tiny.squeeze(out / f"{m.name}.gguf.gz", data)
    tiny.squeeze(out / f"{m.name}.json.gz", json.dumps({"family": "qwen35", "states": 1, "saved": True, "sha256": hashlib.sha256(data).hexdigest(), "vocab": tokenizer.get_vocab_size(), "width": 64, "prompts": prompts}).encode())


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    main(Path(sys.argv[1]))
