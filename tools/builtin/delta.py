"""The gated delta rule (arXiv:2412.06464) over whole sequences, by matrix products over chunks of 64 tokens.

A head keeps a matrix S [keys, values], and for each token with its key k, value v, query q, rate b and log-decay g

    S := exp(g) S;    S := S + b k (v - S'k)';    o = S'q

With G the running sum of g within a chunk, L[i,j] = exp(G_i - G_j) for j <= i, and S the state as the chunk begins:

    T = (I + tril(b k k' ∘ L, -1))^-1          u = T (b v)          w = T (b exp(G) k)
    o = exp(G) q S + (q k' ∘ L) (u - w S)      S := exp(G_64) S + (exp(G_64 - G) k)' (u - w S)

T, u and w of all chunks are computed at once. Only S goes from chunk to chunk (`Scan`), one product of 64x64 a chunk and head.
"""

import torch

CHUNK = 64


class Inverse(torch.autograd.Function):
    """(I + a)^-1 of strictly lower triangular a [..., 64, 64]. The gradient costs two products, whatever the way here took."""

    @staticmethod
    def forward(ctx, a):
        t = unit_lower_inverse(a)
        ctx.save_for_backward(t)
        return t

    @staticmethod
    def backward(ctx, grad):
        (t,) = ctx.saved_tensors
        return -(t.mT @ grad @ t.mT).tril(-1)


def unit_lower_inverse(a):
    """Blocks of 8 by (I - a)(I + a²)(I + a⁴), of which the next power is 0; then twice the size, three times.

    In blocks of 64 those powers can reach 10^17 where keys repeat, and their sum cancels; in blocks of 8 they stay below 35. The small
    products are sums of products, which stay in float32 where matrix products of float32 are rounded to TF32.
    """
    n = a.shape[-1]
    small = lambda x, y: (x.unsqueeze(-1) * y.unsqueeze(-3)).sum(-2)
    eye = torch.eye(8, dtype=a.dtype, device=a.device)
    x = torch.stack([a[..., i : i + 8, i : i + 8] for i in range(0, n, 8)], dim=-3)  # [..., 8, 8, 8]
    x2 = small(x, x)
    t = small(small(eye - x, eye + x2), eye + small(x2, x2))
    size = 8
    while size < n:
        below = torch.stack([a[..., i + size : i + 2 * size, i : i + size] for i in range(0, n, 2 * size)], dim=-3)
        upper, lower = t[..., 0::2, :, :], t[..., 1::2, :, :]
        corner = -(lower @ below @ upper)
        t = torch.cat([torch.cat([upper, torch.zeros_like(corner)], -1), torch.cat([corner, lower], -1)], -2)
        size *= 2
    return t.squeeze(-3)


class Scan(torch.autograd.Function):
    """The states as each chunk begins: s[i+1] = d[i] s[i] + m[i] s[i] + b[i], s[0] = 0.

    d [chunks, heads, 1, 1], m [chunks, heads, K, K], b [chunks, heads, K, V]; returns s [chunks, heads, K, V].
    """

    @staticmethod
    def forward(ctx, d, m, b):
        s = [torch.zeros_like(b[0])]
        for i in range(len(b) - 1):
            s.append(torch.baddbmm(torch.addcmul(b[i], d[i], s[i]), m[i], s[i]))
        s = torch.stack(s)
        ctx.save_for_backward(d, m, s)
        return s

    @staticmethod
    def backward(ctx, grad):
        d, m, s = ctx.saved_tensors
        after = torch.zeros_like(grad[0])  # the gradient of s[i+1]
        g = [after]
        for i in range(len(grad) - 1, 0, -1):
            after = grad[i] if i == len(grad) - 1 else torch.baddbmm(torch.addcmul(grad[i], d[i], after), m[i].mT, after)
            g.append(after)
        g = torch.stack(g[::-1])
        return (g * s).sum((-1, -2), keepdim=True), g @ s.mT, g


def delta_rule(q, k, v, g, beta):
    """q, k, v [batch, tokens, heads, width], q and k normalised and q scaled; g, beta [batch, tokens, heads]. Returns o like v.

    The number of tokens is a multiple of 64. All is float32.
    """
    batch, tokens, heads, width = v.shape
    chunks = tokens // CHUNK
    # [chunks, batch*heads, 64, ...]
    cut = lambda x: x.reshape(batch, chunks, CHUNK, heads, -1).permute(1, 0, 3, 2, 4).reshape(chunks, batch * heads, CHUNK, -1)
    q, k, v, g, beta = cut(q), cut(k), cut(v), cut(g), cut(beta)
    g = g.cumsum(-2)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    decay = (g - g.mT).masked_fill(~lower, float("-inf")).exp()
    t = Inverse.apply((beta * (k @ k.mT) * decay).tril(-1))
    wu = t @ torch.cat([beta * g.exp() * k, beta * v], -1)
    w, u = wu[..., :width], wu[..., width:]
    last = g[..., -1:, :]
    mb = ((last - g).exp() * k).mT @ wu
    s = Scan.apply(last.exp(), -mb[..., :width].contiguous(), mb[..., width:].contiguous())
    o = (g.exp() * q) @ s + ((q @ k.mT) * decay) @ (u - w @ s)
    return o.reshape(chunks, batch, heads, CHUNK, width).permute(1, 0, 3, 2, 4).reshape(batch, tokens, heads, width)
