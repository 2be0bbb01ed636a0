"""Style transfer as a task: sentences in, sentences out."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from onenth.lab.data.encoded import Encoded
from onenth.lab.data.special import BOS, EOS
from onenth.lab.data.splits import Splits
from onenth.lab.data.vocabulary import Pieces, Vocabulary
from onenth.lab.engine.step import IGNORED
from onenth.lab.engine.validate import by_length
from onenth.lab.measure import bleu
from onenth.lab.recipe import Recipe, Search
from onenth.lab.tasks.style import corpus, reader
from onenth.lab.tasks.style.reader import Pair
from onenth.lab.tasks.task import Measured
from onenth.models import Seq2Seq, Seq2SeqConfig


class Pairs:
    """Sentences and what they become."""

    def __init__(self, rows: Iterable[Pair], vocabulary: Vocabulary) -> None:
        self._source = _encoded((row.source for row in rows), vocabulary)
        self._target = _encoded((row.target for row in rows), vocabulary)
        self.lengths = np.maximum(self._source.lengths, self._target.lengths)
        self.counts = self._target.lengths

    def collate(self, rows: np.ndarray, length: int | None = None) -> dict[str, Tensor]:
        labels = self._target.padded(rows, length, pad=IGNORED)
        shifted = torch.cat([torch.full((len(rows), 1), BOS), labels[:, :-1]], 1).clamp(min=0)
        shifted[torch.from_numpy(rows) < 0] = 0
        return {"source": self._source.padded(rows, length), "target": shifted, "labels": labels}


class Style:
    """The task; `Task` says what its parts are for."""

    name = "style"
    title = "Text style transfer"
    metric = "bleu"
    paper: ClassVar[dict[str, float]] = {"dense": 11.65, "n2": 12.20, "n4": 12.42, "n8": 11.66, "n16": 10.76}

    def corpus(self) -> Splits[Pair]:
        return corpus.corpus()

    def read(self, folder: Path) -> Splits[Pair]:
        return reader.read(folder)

    def vocabulary(self, rows: Iterable[Pair], most: int, cache: Path) -> Vocabulary:
        return Pieces.train((text for row in rows for text in row), most, cache)

    def examples(self, rows: Iterable[Pair], vocabulary: Vocabulary) -> Pairs:
        return Pairs(rows, vocabulary)

    def model(self, config: Seq2SeqConfig) -> nn.Module:
        return Seq2Seq(config)

    def load(self, folder: Path) -> nn.Module:
        return Seq2Seq.from_pretrained(folder)

    def logits(self, model: nn.Module, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return model(tensors["source"], tensors["target"]), tensors["labels"]

    def measure(
        self,
        model: nn.Module,
        rows: Sequence[Pair],
        vocabulary: Vocabulary,
        recipe: Recipe,
        device: torch.device,
    ) -> Measured:
        """BLEU, with sacrebleu's tokens and with those of the text as it is."""
        assert recipe.search is not None
        texts = translate(model, [row.source for row in rows], vocabulary, recipe.search, device)
        found, wanted = [best[0][0] for best in texts], [row.target for row in rows]
        plain, cut = bleu.bleu(found, wanted), bleu.bleu(found, wanted, tokenize="none")
        metrics: dict[str, Any] = {
            "bleu": plain.value, "signature": plain.signature,
            "bleu_tokenised": cut.value, "signature_tokenised": cut.signature,
        }  # fmt: skip
        counts = bleu.statistics(found, wanted)
        lines = [
            f"{' '.join(map(str, own))}\t{text}" for own, text in zip(counts.tolist(), found, strict=True)
        ]
        return Measured(metrics, lines)

    def numbers(self, line: str) -> list[int]:
        return [int(number) for number in line.partition("\t")[0].split()]

    def baselines(self, splits: Splits[Pair]) -> dict[str, float]:
        """Copying the source, and replacing each word by the one that it most often becomes."""
        substitute = corpus.substitution(splits.train)
        wanted = [row.target for row in splits.test]
        ways = {"copy": lambda text: text, "word by word": substitute}
        return {
            name: bleu.bleu([way(row.source) for row in splits.test], wanted).value
            for name, way in ways.items()
        }


def translate(
    model: Any,
    texts: Sequence[str],
    vocabulary: Vocabulary,
    search: Search,
    device: torch.device,
    n_best: int = 1,
) -> list[list[tuple[str, float]]]:
    """The best texts for each, with their scores; a text of nothing stays one."""
    source = _encoded(texts, vocabulary)
    found: list[list[tuple[str, float]]] = [[("", 0.0)] for _ in texts]
    full = np.flatnonzero(source.lengths > 1)
    for part in by_length(source.lengths[full], search.tokens):
        rows = full[part]
        ids = source.padded(rows).to(device)
        most = min(model.config.positions, ids.shape[1] + search.more)
        best = model.translate(ids, beam=search.beam, alpha=search.alpha, n_best=n_best, max_length=most)
        for row, tokens, scores, lengths in zip(rows, *(part.tolist() for part in best), strict=True):
            found[row] = [
                (vocabulary.decode([own for own in ids[:length] if own != EOS]), score)
                for ids, score, length in zip(tokens, scores, lengths, strict=True)
            ]
    return found


def _encoded(texts: Iterable[str], vocabulary: Vocabulary) -> Encoded:
    """Each text with its end. The tokeniser takes many at once, and never all."""
    parts = iter(texts)
    return Encoded.of(
        [*ids, EOS]
        for part in iter(lambda: [*islice(parts, 4096)], [])
        for ids in vocabulary.encode_all(part)
    )


STYLE = Style()
