"""The learning rate of the authors' Transformers."""


def highest(hidden: int, warmup: int) -> float:
    """2 · hidden^-½ · warmup^-½, reached at the end of the warm-up.

    Example:
        >>> f"{highest(512, 16_000):.3g}"
        '0.000699'
    """
    return float(2 * hidden**-0.5 * warmup**-0.5)
