"""What the LSTM and its cell share: the options of their PHM layers, their weights and their state."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from onenth import fit
from onenth.nn import gates
from onenth.nn.checks import placed
from onenth.nn.gates import Gates, Make, Stack, Weights
from onenth.nn.linear import PHMLinear
from onenth.nn.recurrent_checks import check_divides
from onenth.nn.state import check_state
from onenth.ops.dispatch import Held
from onenth.rule import Rule


class Kept(NamedTuple):
    """The matrices of a frozen module, and what its layers held when they were put together."""

    held: list[Held]
    matrices: list[Tensor]


class Recurrent(nn.Module):
    """A module of `Gates`. `rule` is the one that all of its PHM layers share, where they do."""

    input_size: int
    hidden_size: int
    rule: Rule | None
    _kept: Kept | None = None

    def _prepare(self, sizes: dict[str, int], rules: str, options: dict[str, Any]) -> Make:
        """Settles the rules; returns what makes a PHM layer of them."""
        device, dtype, low = (options.pop(name) for name in ("device", "dtype", "component_rank"))
        on_meta = Rule.of(**options, device="meta", dtype=dtype)  # refuses what is wrong before it draws
        self.rules, self.rule = rules, None
        given = isinstance(options["rule"], Rule)
        self._owns_rule = rules == "shared" and not given
        check_divides(self, on_meta, sizes)
        if given or self._owns_rule:
            self.rule = Rule.of(**options, device=device, dtype=dtype)
            options = {"rule": self.rule}
        if given:
            device, dtype = placed(on_meta, device, dtype)
        options |= {"bias": False, "device": device, "dtype": dtype, "component_rank": low}

        def make(d: int, k: int) -> PHMLinear:
            layer = PHMLinear(d, k, **options)
            layer.weight_alone = True
            return layer

        return make

    def all_gates(self) -> Iterator[Gates]:
        """Of each layer and direction, in the order of torch's states."""
        raise NotImplementedError

    def weights(self, x: Tensor | None = None) -> list[Weights]:
        """The dense weights of each layer and direction, computed now and differentiable.

        A frozen module keeps them, in the precision that `x` is computed in.
        """
        return gates.weights(self.all_gates(), lambda stacks: self._held(stacks, x) or gates.build(stacks))

    def _held(self, stacks: Sequence[Stack], x: Tensor | None) -> list[Tensor] | None:
        """What a frozen module keeps: the H of its layers, put together once."""
        held = []
        for layer in (layer for stack in stacks for layer in stack):
            now = None if x is None or layer._frozen is None else layer._frozen.current(layer, x)
            if now is None or now.H is None:
                self._kept = None
                return None
            held.append(now)
        kept = self._kept
        if kept is None or any(one is not other for one, other in zip(kept.held, held, strict=True)):
            own = iter(held)
            kept = Kept(held, [torch.cat([next(own).H for _ in stack]) for stack in stacks])  # type: ignore[misc]
            self._kept = kept
        return kept.matrices

    def reset_parameters(self) -> None:
        """Draws everything anew, a rule only where this module made it: a rule handed in is its owner's."""
        if self.rule is not None and self._owns_rule:
            self.rule.reset_parameters()
        for module in self.modules():  # in the order in which they were made
            if isinstance(module, PHMLinear):
                module.reset_parameters()
        self._draw()

    def _draw(self) -> None:
        for own in self.all_gates():
            own.draw()

    @torch.no_grad()
    def _fit(self, dense: Sequence[Weights]) -> None:
        """Takes on the nearest weights to these, layer by layer; a shared rule that it made fits all."""
        pairs = [
            (layer, W)
            for own, wanted in zip(self.all_gates(), dense, strict=True)
            for stack, matrix in zip(own.stacks(), wanted.matrices(), strict=True)
            for layer, W in zip(stack, matrix.chunk(len(stack)), strict=True)
        ]
        if self.rule is not None and self._owns_rule:
            _fit_rule(self.rule, [W for _, W in pairs])
        for layer, W in pairs:
            if layer.rule.is_one and layer.component_rank is None:  # keeps the bits
                layer.S.copy_(W[None])
                continue
            found = fit.nearest_with(layer.rule, W, layer.component_rank, keep=not layer._owns_rule)
            for name, value in found.values.items():
                layer.get_parameter(name).copy_(value)
        for own, wanted in zip(self.all_gates(), dense, strict=True):
            if own.bias is not None:
                assert wanted.bias is not None
                own.bias.copy_(wanted.bias)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As in any module, but all or nothing: a state that does not fit changes nothing."""
        check_state(self, state_dict, strict=strict)
        return super().load_state_dict(state_dict, strict, assign)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        check_state(self, state_dict, prefix, strict=False)  # what is missing, torch reports to the model
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _fit_rule(rule: Rule, matrices: Sequence[Tensor]) -> None:
    """The best rule for all: that of one matrix whose block (p, q) is their blocks (p, q) in a row."""
    p, q = rule.n_out, rule.n_in
    blocks = [W.view(p, len(W) // p, q, -1).transpose(1, 2).reshape(p, q, -1) for W in matrices]
    found = fit.nearest_with(rule, torch.cat(blocks, dim=2).view(p, -1), None, keep=False)
    for name, value in found.values.items():
        if name != "S":
            rule.get_parameter(name.removeprefix("rule.")).copy_(value)
