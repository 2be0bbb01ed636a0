"""One step: forward and backward over its batches, and an update that a bad batch cannot make."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from onenth.lab.data.batches import Batch
from onenth.lab.engine.capture import Captured
from onenth.lab.engine.ranks import Ranks
from onenth.lab.recipe import Training
from onenth.sharding import clip_grads, total_norm

IGNORED = -100  # a label of no target

Logits = Callable[[nn.Module, dict[str, Tensor]], tuple[Tensor, Tensor]]
Loss = Callable[[nn.Module, dict[str, Tensor]], Tensor]


class Outcome(NamedTuple):
    """What a step came to, on the device: nothing waits for it."""

    loss: Tensor  # mean over the targets of all ranks
    norm: Tensor  # of the gradient, before it was clipped
    bad: Tensor  # 1.0 where loss or gradient are not finite, and nothing was changed
    stop: Tensor  # ranks that want to stop


class Step:
    """The step of a model, as it is wrapped for its ranks.

    The loss is the sum over this rank's targets, divided by the number of targets on all ranks, so that
    neither padding, nor the number of ranks, nor that of the batches of a step, changes what is computed.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        logits: Logits,
        training: Training,
        ranks: Ranks,
    ) -> None:
        self.model, self.optimizer, self.training, self.ranks = model, optimizer, training, ranks
        self._loss = loss_of(logits, training, ranks.device)
        if training.speed == "compile":
            self._loss = torch.compile(self._loss)
        self._parameters = [own for own in model.parameters() if own.requires_grad]
        self._compute = Captured(self._run, ranks.device) if training.speed == "capture" else self._run

    def __call__(self, batches: Sequence[Batch], stop: bool = False) -> Outcome:
        device = self.ranks.device
        tensors = [
            {name: own.to(device, non_blocking=True) for name, own in batch.tensors.items()}
            for batch in batches
        ]
        targets = float(sum(batch.count for batch in batches))
        numbers = torch.tensor([targets, float(stop)]).to(device, non_blocking=True)
        return Outcome(*self._compute(tensors, numbers))

    def _run(self, tensors: list[dict[str, Tensor]], numbers: Tensor) -> tuple[Tensor, ...]:
        """`numbers` are the targets of all batches and ranks, and whether this rank wants to stop."""
        self.optimizer.zero_grad()
        targets, stop = numbers
        losses = []
        for number, own in enumerate(tensors, 1):
            self._synchronise(number == len(tensors))
            loss = self._loss(self.model, own) / targets.to(self._parameters[0].dtype)
            (loss * self.ranks.count).backward()  # of gradients, ranks take the mean
            losses.append(loss.detach())
        total = torch.stack(losses).sum()
        total, stop = self.ranks.sum(torch.stack([total, stop.to(total.dtype)]))
        norm = total_norm(self._parameters)
        bad = 1 - (total.isfinite() & norm.isfinite()).float()
        if self.training.clip is not None:
            clip_grads(self._parameters, self.training.clip, norm)
        optimizer: Any = self.optimizer
        optimizer.grad_scale, optimizer.found_inf = None, bad
        optimizer.step()
        return total, norm, bad, stop

    def _synchronise(self, last: bool) -> None:
        """Gradients are summed over ranks once a step."""
        model: Any = self.model
        if self.ranks.count > 1 and self.training.accumulate > 1:
            if self.training.parallel == "ddp":
                model.require_backward_grad_sync = last
            else:
                model.set_requires_gradient_sync(last)


def loss_of(logits: Logits, training: Training, device: torch.device) -> Loss:
    """The sum of the cross entropies of a batch's targets, with a model in the precision of the training."""
    low = training.precision == "bfloat16"

    def loss(model: nn.Module, tensors: dict[str, Tensor]) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            found, labels = logits(model, tensors)
        found = found.float() if low else found
        return nn.functional.cross_entropy(
            found.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum",
            label_smoothing=training.label_smoothing,
        )  # fmt: skip

    return loss
