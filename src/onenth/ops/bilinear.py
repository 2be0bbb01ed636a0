"""The bilinear path, for a rule with factors: R products of segments instead of n².

    x̃_r = Σ_q V[r,q] x_q     S̃_r = Σ_i W[r,i] S_i     ỹ_r = S̃_r x̃_r     y_p = Σ_r U[p,r] ỹ_r

Forward and backward save x, S and the factors. `bilinear` saves ỹ too, for a U that learns: its gradient is
Σ dy_p ỹ_r. `lean` does without, and makes ỹ again where U learns.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from onenth.ops.run import Kernel, Path
from onenth.ops.scratch import scratch
from onenth.precision import autocast_off

CHUNK = 2**22  # elements of x̃ and of ỹ at a time: 16 MiB in float32


def formula(
    U: Tensor, V: Tensor | None, W: Tensor | None, S: Tensor, x: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    left = _mix(V, _segments(x, S.shape[2]))  # x̃ (t, r, c)
    products = left.transpose(0, 1) @ components(W, S).to(x.dtype).mT  # ỹ (r, t, o)
    y = _mix(U, products.transpose(0, 1), offset=bias)
    return y.reshape(*x.shape[:-1], U.shape[0] * S.shape[1]), products


def gradient(grads: Sequence[Any], saved: Sequence[Any], needs: Sequence[bool]) -> Sequence[Tensor | None]:
    dy, dproducts = (*grads, None)[:2]  # ỹ has a gradient only where a backward is differentiated
    U, V, W, S, x, _, *kept = saved
    dU = dV = dW = dS = dx = dbias = None
    segments = _segments(x, S.shape[2])  # (t, q, c)
    left, right = _mix(V, segments), components(W, S).to(x.dtype)  # x̃ (t, r, c), S̃ (r, o, c)

    if dy is not None:
        dsegments = _segments(dy, S.shape[1])  # (t, p, o)
        through = _mix(U.mT, dsegments).transpose(0, 1)
        dproducts = through if dproducts is None else dproducts + through  # (r, t, o)
        if needs[0]:
            products = kept[0] if kept else left.transpose(0, 1) @ right.mT
            dU = _pair(dsegments, products.transpose(0, 1)).to(U.dtype)
        if needs[5]:
            dbias = dy.reshape(-1, dy.shape[-1]).sum(0)
    if needs[2] or needs[3]:
        dright = (dproducts.mT @ left.transpose(0, 1)).to(S.dtype)  # (r, o, c)
        dW, dS = _through_components(dright, W, S, needs[2:4])
    if needs[1] or needs[4]:
        dleft = (dproducts @ right).transpose(0, 1)  # (t, r, c)
        dV = _pair(dleft, segments).to(V.dtype) if V is not None and needs[1] else None
        dx = _mix(None if V is None else V.mT, dleft).reshape(x.shape) if needs[4] else None
    return dU, dV, dW, dS, dx, dbias


def components(W: Tensor | None, S: Tensor) -> Tensor:
    """S̃ (r, o, c), summed in the precision of the parameters."""
    if W is None:
        return S
    with autocast_off(S):
        return (W @ S.flatten(1)).view(-1, *S.shape[1:])


def _formula_in_place(keep: bool) -> Any:
    def formula(
        U: Tensor, V: Tensor | None, W: Tensor | None, S: Tensor, x: Tensor, bias: Tensor | None
    ) -> Any:
        segments, rank, (_, o, c) = _segments(x, S.shape[2]), U.shape[1], S.shape
        rows, step = len(segments), min(len(segments), _step(rank, S))
        y = x.new_empty(rows, len(U), o)
        products = x.new_empty(rank, rows, o) if keep else None
        right, of_c, of_o = scratch(
            x, _components_shape(W, S), (step, rank, c), (0 if keep else step, rank, o)
        )
        right = _components_in(right, W, S)
        for chunk in _chunks(rows, step):
            part = segments[chunk]
            own = of_o.view(rank, -1, o)[:, : len(part)] if products is None else products[:, chunk]
            torch.bmm(_mix(V, part, of_c[: len(part)]).transpose(0, 1), right.mT, out=own)
            _mix(U, own.transpose(0, 1), y[chunk], bias)
        y = y.view(*x.shape[:-1], len(U) * o)
        return (y, products) if keep else y

    return formula


def _gradient_in_place(
    grads: Sequence[Any], saved: Sequence[Any], needs: Sequence[bool]
) -> Sequence[Tensor | None]:
    dy, dproducts_of_grad = (*grads, None)[:2]
    if dy is None or dproducts_of_grad is not None or not dy.numel():
        return gradient(grads, saved, needs)
    U, V, W, S, x, _, *kept = saved
    segments, dsegments = _segments(x, S.shape[2]), _segments(dy, S.shape[1])  # (t, q, c), (t, p, o)
    dU, dV = _zeros(U), _zeros(V) if V is not None and needs[1] else None
    dx = torch.empty_like(segments) if needs[4] else None
    rank, (_, o, c) = U.shape[1], S.shape
    step = min(len(segments), _step(rank, S))
    mixed = _components_shape(W, S)
    right, dright, of_o, of_c = scratch(x, mixed, mixed, (step, rank, o), (step, rank, c))
    right = _components_in(right, W, S)  # S̃ (r, o, c)
    if W is None or S.dtype != x.dtype:
        dright = torch.empty_like(right, dtype=torch.promote_types(right.dtype, torch.float32))
    for chunk in _chunks(len(segments), step):
        x_t, dy_t = segments[chunk], dsegments[chunk]
        left = _mix(V, x_t, of_c[: len(x_t)])
        if needs[0]:
            products = kept[0][:, chunk] if kept else left.transpose(0, 1) @ right.mT
            dU += _pair(dy_t, products.transpose(0, 1))
        dproducts = _mix(U.mT, dy_t, of_o[: len(x_t)]).transpose(0, 1)  # (r, t, o)
        if needs[2] or needs[3]:
            _sum(dright, dproducts.mT, left.transpose(0, 1), first=chunk.start == 0)
        if needs[1] or needs[4]:
            dleft = torch.bmm(dproducts, right, out=of_c.view(rank, -1, c)[:, : len(x_t)]).transpose(0, 1)
            if dV is not None:
                dV += _pair(dleft, x_t)
            if dx is not None and V is not None:
                _mix(V.mT, dleft, dx[chunk])
            elif dx is not None:
                dx[chunk] = dleft
    dW, dS = _through_components(dright.to(S.dtype), W, S, needs[2:4])
    return (
        dU.to(U.dtype) if needs[0] else None,
        None if dV is None else dV.to(U.dtype),
        dW,
        dS,
        None if dx is None else dx.view(x.shape),
        dy.reshape(-1, dy.shape[-1]).sum(0) if needs[5] else None,
    )


def _components_shape(W: Tensor | None, S: Tensor) -> tuple[int, ...]:
    return (0,) if W is None else (len(W), *S.shape[1:])


def _components_in(out: Tensor, W: Tensor | None, S: Tensor) -> Tensor:
    """`components` in the precision of `out`, and in it where they are mixed."""
    if W is None or S.dtype != out.dtype:
        return components(W, S).to(out.dtype)
    with autocast_off(S):
        torch.mm(W, S.flatten(1), out=out.view(len(W), -1))
    return out


def _segments(rows: Tensor, length: int) -> Tensor:
    """(…, q·c) -> (t, q, c)."""
    rows = rows.reshape(-1, rows.shape[-1])
    return rows.view(rows.shape[0], rows.shape[1] // length, length)


def _step(rank: int, S: Tensor) -> int:
    """So many rows that what is mixed of them stays in a cache."""
    return max(64, CHUNK // (rank * max(S.shape[1:])))


def _chunks(rows: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, rows, max(1, step)))


def _mix(M: Tensor | None, parts: Tensor, out: Tensor | None = None, offset: Tensor | None = None) -> Tensor:
    """Σ_b M[a,b] parts[t,b] + offset[a], in the wider precision of both, rounded once to that of the parts.

    In `out` where it is given; M = None is the identity, and gives the parts themselves.
    """
    if M is None:
        return parts
    t, _, length = parts.shape
    wide = torch.promote_types(M.dtype, parts.dtype)
    into = out if parts.dtype == wide else None
    with autocast_off(parts):
        factors = M.to(wide).contiguous().expand(t, *M.shape), parts.to(wide)
        if offset is None:
            mixed = _to(into, torch.bmm, *factors)
        else:
            mixed = _to(into, torch.baddbmm, offset.to(wide).view(1, -1, length), *factors)
    if out is None:
        return mixed.to(parts.dtype)
    return out if mixed is out else out.copy_(mixed)


def _zeros(like: Tensor) -> Tensor:
    """To sum into, over chunks."""
    return torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))


def _sum(total: Tensor, one: Tensor, other: Tensor, first: bool) -> None:
    """total (+)= one · other, of the same precision or a lower one."""
    if total.dtype == one.dtype:
        torch.baddbmm(total, one, other, beta=0 if first else 1, out=total)
    elif first:
        total.copy_(one @ other)
    else:
        total += one @ other


def _to(out: Tensor | None, operation: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """The operation's result, in `out` where there is one; a derivative can only pass where there is none."""
    return operation(*inputs) if out is None else operation(*inputs, out=out)


def _pair(one: Tensor, other: Tensor) -> Tensor:
    """Σ_t ⟨one[t,a], other[t,b]⟩ for all a, b, summed over t in fp32 or wider."""
    with autocast_off(one):
        return torch.bmm(one, other.mT).sum(0, dtype=torch.promote_types(one.dtype, torch.float32))


def _through_components(
    dright: Tensor, W: Tensor | None, S: Tensor, needs: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """dW[r,i] = ⟨dS̃_r, S_i⟩ and dS_i = Σ_r W[r,i] dS̃_r."""
    if W is None:
        return None, dright if needs[1] else None
    flat = dright.reshape(dright.shape[0], -1)
    with autocast_off(S):
        dW = flat @ S.flatten(1).mT if needs[0] else None
        return dW, (W.mT @ flat).view_as(S) if needs[1] else None


_SIGNATURE = "(Tensor U, Tensor? V, Tensor? W, Tensor S, Tensor x, Tensor? bias) -> "
bilinear = Path(
    "bilinear",
    _SIGNATURE + "(Tensor, Tensor)",
    formula,
    gradient,
    kernels={"cpu": Kernel(_formula_in_place(keep=True), _gradient_in_place)},
)
lean = Path(
    "lean",
    _SIGNATURE + "Tensor",
    lambda *inputs: formula(*inputs)[0],
    gradient,
    kernels={"cpu": Kernel(_formula_in_place(keep=False), _gradient_in_place)},
)
