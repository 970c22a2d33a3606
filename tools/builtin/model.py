"""The model: transformers' qwen3_5_text with a layer that drafts (mtp), written for training. Parameters have transformers' names.

    x += delta net, or in every fourth layer gated attention, of rms(x)        x += mlp(rms(x))

check.py compares it with transformers.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

from delta import delta_rule


@dataclass(frozen=True)
class Config:
    vocab_size: int = 8192
    hidden_size: int = 320
    intermediate_size: int = 512
    num_hidden_layers: int = 8
    full_attention_interval: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    linear_num_heads: int = 4  # of keys and of values
    linear_head_dim: int = 64
    linear_conv_kernel_dim: int = 4
    partial_rotary_factor: float = 0.5
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048

    def recurrent(self, layer):
        return (layer + 1) % self.full_attention_interval != 0

    def transformers(self, end):
        """config.json; end is the id of the token that ends a text, and starts one."""
        rotated = int(self.head_dim * self.partial_rotary_factor) // 2
        own = asdict(self)
        for name in ("linear_num_heads", "linear_head_dim", "rope_theta", "partial_rotary_factor"):
            del own[name]
        return own | {
            "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "float32",
            "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": True,
            "linear_num_key_heads": self.linear_num_heads, "linear_num_value_heads": self.linear_num_heads,
            "linear_key_head_dim": self.linear_head_dim, "linear_value_head_dim": self.linear_head_dim,
            "layer_types": ["linear_attention" if self.recurrent(i) else "full_attention" for i in range(self.num_hidden_layers)],
            "partial_rotary_factor": self.partial_rotary_factor,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": self.rope_theta, "partial_rotary_factor": self.partial_rotary_factor,
                "mrope_section": [rotated - 2 * (rotated // 3), rotated // 3, rotated // 3], "mrope_interleaved": True,
            },
            "mtp_num_hidden_layers": 1, "bos_token_id": end, "eos_token_id": end, "use_cache": True,
        }


class Norm(nn.Module):
    """x / rms(x) * (1 + w)."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        return (F.rms_norm(x.float(), x.shape[-1:], eps=self.eps) * (1 + self.weight.float())).type_as(x)


class DeltaNorm(nn.Module):
    """x / rms(x) * w * silu(gate)."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x, gate):
        return F.rms_norm(x.float(), x.shape[-1:], eps=self.eps) * self.weight * F.silu(gate.float())


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class DeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.dim, self.taps = c.linear_num_heads, c.linear_head_dim, c.linear_conv_kernel_dim
        inner = self.heads * self.dim
        self.in_proj_qkv, self.in_proj_z = linear(c.hidden_size, 3 * inner), linear(c.hidden_size, inner)
        self.in_proj_b, self.in_proj_a = linear(c.hidden_size, self.heads), linear(c.hidden_size, self.heads)
        self.conv1d = nn.Conv1d(3 * inner, 3 * inner, self.taps, groups=3 * inner, bias=False)
        self.A_log, self.dt_bias = nn.Parameter(torch.empty(self.heads)), nn.Parameter(torch.empty(self.heads))
        self.norm = DeltaNorm(self.dim, c.rms_norm_eps)
        self.out_proj = linear(inner, c.hidden_size)

    def forward(self, n):
        batch, tokens, _ = n.shape
        taps = F.pad(self.in_proj_qkv(n), (0, 0, self.taps - 1, 0))
        weight = self.conv1d.weight[:, 0]
        mixed = F.silu(sum(taps[:, i : i + tokens].float() * weight[:, i] for i in range(self.taps)))
        q, k, v = mixed.view(batch, tokens, 3, self.heads, self.dim).unbind(2)
        unit = lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
        beta = self.in_proj_b(n).float().sigmoid()
        g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(n).float() + self.dt_bias)
        with torch.autocast(n.device.type, enabled=False):
            o = delta_rule(unit(q) * self.dim**-0.5, unit(k), v, g, beta)
        o = self.norm(o, self.in_proj_z(n).view(batch, tokens, self.heads, self.dim))
        return self.out_proj(o.reshape(batch, tokens, -1).type_as(n))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.rotated, self.theta = int(c.head_dim * c.partial_rotary_factor), c.rope_theta
        self.q_proj = linear(c.hidden_size, 2 * self.heads * self.dim)  # of each head, the query and then the gate
        self.k_proj, self.v_proj = (linear(c.hidden_size, self.kv_heads * self.dim) for _ in range(2))
        self.o_proj = linear(self.heads * self.dim, c.hidden_size)
        self.q_norm, self.k_norm = Norm(self.dim, c.rms_norm_eps), Norm(self.dim, c.rms_norm_eps)

    def turn(self, x):
        """x [batch, tokens, heads, width]: the first of its columns turn, the left half of them with the right."""
        half = self.rotated // 2
        speed = self.theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        angle = (torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[:, None] * speed)[:, None]
        cos, sin = angle.cos(), angle.sin()
        a, b, rest = x[..., :half].float(), x[..., half : self.rotated].float(), x[..., self.rotated :]
        return torch.cat([(a * cos - b * sin).type_as(x), (b * cos + a * sin).type_as(x), rest], -1)

    def forward(self, n):
        batch, tokens, _ = n.shape
        q, gate = self.q_proj(n).view(batch, tokens, self.heads, 2 * self.dim).chunk(2, -1)
        k, v = (p(n).view(batch, tokens, self.kv_heads, self.dim) for p in (self.k_proj, self.v_proj))
        q, k = self.turn(self.q_norm(q)), self.turn(self.k_norm(k))
        k, v = (x.repeat_interleave(self.heads // self.kv_heads, 2) for x in (k, v))
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.o_proj((o.transpose(1, 2) * gate.sigmoid()).reshape(batch, tokens, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = (linear(c.hidden_size, c.intermediate_size) for _ in range(2))
        self.down_proj = linear(c.intermediate_size, c.hidden_size)

    def forward(self, n):
        return self.down_proj(F.silu(self.gate_proj(n)) * self.up_proj(n))


class Layer(nn.Module):
    def __init__(self, c, recurrent):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (Norm(c.hidden_size, c.rms_norm_eps) for _ in range(2))
        if recurrent:
            self.linear_attn = DeltaNet(c)
        else:
            self.self_attn = Attention(c)
        self.recurrent, self.mlp = recurrent, MLP(c)

    def forward(self, x):
        mixer = self.linear_attn if self.recurrent else self.self_attn
        x = x + mixer(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Drafter(nn.Module):
    """A layer with attention that sees what the model has made of a token, and the token after it."""

    def __init__(self, c):
        super().__init__()
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (Norm(c.hidden_size, c.rms_norm_eps) for _ in range(3))
        self.fc = linear(2 * c.hidden_size, c.hidden_size)
        self.layers = nn.ModuleList([Layer(c, recurrent=False)])

    def forward(self, following, hidden):
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(following), self.pre_fc_norm_hidden(hidden)], -1))
        return self.norm(self.layers[0](x))


class Trunk(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList([Layer(c, c.recurrent(i)) for i in range(c.num_hidden_layers)])
        self.norm = Norm(c.hidden_size, c.rms_norm_eps)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config, self.residual = c, torch.float32  # what the residual stream is kept in
        self.model, self.mtp = Trunk(c), Drafter(c)

    def start(self, seed):
        """Weights to begin with."""
        generator = torch.Generator().manual_seed(seed)
        uniform = lambda like, low, high: torch.rand(like.shape, generator=generator) * (high - low) + low
        residual = (2 * self.config.num_hidden_layers) ** -0.5
        with torch.no_grad():
            for name, w in self.named_parameters():
                if name.endswith("A_log"):
                    w.copy_(uniform(w, 1, 16).log())
                elif name.endswith("dt_bias"):  # softplus of it is between 0.001 and 0.1
                    w.copy_(uniform(w, -6.9, -2.3).exp().expm1().log())
                elif name.endswith("conv1d.weight"):
                    w.copy_(uniform(w, -0.5, 0.5))
                elif w.dim() > 1:
                    into = name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight"))
                    w.copy_(torch.randn(w.shape, generator=generator) * 0.02 * (residual if into else 1))
        return self

    def forward(self, tokens):
        """What logits are made of, of tokens [batch, T+1]: of the model after 0 to T-1, and of the layer that drafts, which sees one more."""
        embedded = self.model.embed_tokens(tokens).to(self.residual)
        x = embedded[:, :-1]
        for layer in self.model.layers:
            x = layer(x)
        hidden = self.model.norm(x)
        return hidden, self.mtp(embedded[:, 1:], hidden)

    def logits(self, hidden):
        return hidden @ self.model.embed_tokens.weight.type_as(hidden).T
