"""A model with its configuration in a folder: config.json and model.safetensors."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import nn

from onenth.state import load, replacing, save


@dataclass(frozen=True, kw_only=True)
class Config:
    """What all models are told of their layers. With none of it they are real: n=1, dense layers.

    n, rule, rank: as for `PHMLinear`, rules by name.
    rules: which layers share a rule, as for the layers of the model.
    """

    n: int | None = None
    rule: str = "learned"
    rank: int | None = None

    @property
    def phm(self) -> dict[str, Any]:
        """What PHM layers take."""
        n = 1 if self.n is None and self.rule == "learned" else self.n
        return {"n": n, "rule": self.rule, "rank": self.rank}


class Pretrained(nn.Module):
    """A model made from a configuration, and saved with it."""

    Config: ClassVar[type[Config]]
    config: Any

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes config.json and model.safetensors into the folder, which is made where it is missing."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        save(self, target / "model.safetensors")
        text = json.dumps({"model": type(self).__name__, **dataclasses.asdict(self.config)}, indent=2)
        with replacing(target / "config.json") as aside:
            aside.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Self:
        """The model that `save_pretrained` wrote, on the CPU and in evaluation mode."""
        path = Path(folder) / "config.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is damaged or no JSON: {error}") from error
        if not isinstance(values, dict) or values.pop("model", None) != cls.__name__:
            raise ValueError(f"{path} does not describe a {cls.__name__}")
        known = {field.name for field in dataclasses.fields(cls.Config)}
        if unknown := sorted(values.keys() - known):
            raise ValueError(f"{path} has entries that are not known here: {', '.join(unknown)}")
        model = cls(cls.Config(**values))
        load(model, Path(folder) / "model.safetensors")
        return model.eval()
