"""Muon for matrices (momentum made orthogonal by a Newton-Schulz iteration), AdamW for the embedding and all that is no matrix."""

import torch


def orthogonal(g):
    """g [n, rows, columns] with singular values near 1: five steps of the quintic iteration of Jordan et al. (2024), in bfloat16."""
    x = g.bfloat16()
    if tall := g.shape[-2] > g.shape[-1]:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon:
    """Matrices of the same shape are updated together. An update's root mean square is 0.2 lr, like AdamW's (arXiv:2502.16982)."""

    def __init__(self, parameters, momentum=0.95, decay=0.1):
        self.momentum, self.decay, self.groups = momentum, decay, []
        shapes = {}
        for p in parameters:
            shapes.setdefault(p.shape, []).append(p)
        for shape, same in shapes.items():
            self.groups.append((same, torch.zeros(len(same), *shape, device=same[0].device)))

    @torch.no_grad()
    def step(self, lr):
        for parameters, average in self.groups:
            grad = torch.stack([p.grad for p in parameters])
            average.lerp_(grad, 1 - self.momentum)
            update = orthogonal(grad.lerp(average, self.momentum)).float() * (0.2 * max(average.shape[-2:]) ** 0.5)
            torch._foreach_mul_(parameters, 1 - lr * self.decay)
            torch._foreach_add_(parameters, list(update.unbind()), alpha=-lr)


class Optimiser:
    def __init__(self, model):
        matrices, others = [], []
        for name, p in model.named_parameters():
            small = "embed_tokens" in name or "in_proj_a" in name or "in_proj_b" in name
            (matrices if p.dim() == 2 and not small else others).append(p)
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW(others, betas=(0.9, 0.97), eps=1e-10, weight_decay=0.0, fused=others[0].is_cuda)

    def step(self, lr):
        self.muon.step(lr)
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for parameters, _ in self.muon.groups:
            for p in parameters:
                p.grad = None
