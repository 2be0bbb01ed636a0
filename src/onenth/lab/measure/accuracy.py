"""Accuracy in percent, of all and by a key such as the number of attractors."""

from collections.abc import Sequence

from onenth.lab.errors import Problem


def accuracy(right: Sequence[bool]) -> float:
    """The share of right answers, in percent.

    Example:
        >>> accuracy([True, False, True, True])
        75.0
    """
    if not len(right):
        raise Problem("there is no accuracy of no answers: give at least one")
    return 100 * sum(map(bool, right)) / len(right)


def by(keys: Sequence[int | None], right: Sequence[bool]) -> dict[str, tuple[float, int]]:
    """Accuracy and the number of answers for each key, in ascending order; "?" last, for those with None.

    Example:
        >>> by([0, 1, 0, None], [True, True, False, False])
        {'0': (50.0, 2), '1': (100.0, 1), '?': (0.0, 1)}
    """
    if len(keys) != len(right):
        raise Problem(f"there are {len(keys)} keys for {len(right)} answers: give a key for each answer")
    answers: dict[int | None, list[bool]] = {}
    for key, answer in zip(keys, right, strict=True):
        answers.setdefault(key, []).append(answer)
    known = sorted(key for key in answers if key is not None)
    ordered = [*known, None] if None in answers else known
    return {"?" if key is None else str(key): (accuracy(answers[key]), len(answers[key])) for key in ordered}
