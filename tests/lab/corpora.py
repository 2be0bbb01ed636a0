"""Small corpora in files, in the formats that anybody may bring."""

import random

SMALL = [
    "--set", "model.hidden=16", "--set", "model.filter=32", "--set", "model.heads=2",
    "--set", "model.layers=1", "--set", "training.batch_tokens=256", "--set", "training.steps=6",
    "--set", "training.save_every=3", "--set", "training.warmup=2",
    "--set", "training.evaluate_every=3", "--set", "training.report_every=2",
]  # fmt: skip
NOUNS = ["key", "door", "king", "ship", "tree", "bird"]


def agreement(folder, rows=60, seed=0):
    """train.tsv, dev.tsv, test.tsv with label, attractors and prefix."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", rows), ("dev", 12), ("test", 20)):
        lines = []
        for _ in range(count):
            first, second = (draw.choice(NOUNS) + draw.choice(["", "s"]) for _ in range(2))
            label = "VBP" if first.endswith("s") else "VBZ"
            attractors = int(first.endswith("s") != second.endswith("s"))
            lines.append(f"{label}\t{attractors}\tthe {first} of the {second} {draw.choice('abcdefgh')}\n")
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder


def style(folder, rows=60, seed=0):
    """train.tsv, dev.tsv, test.tsv with source and target."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", rows), ("dev", 8), ("test", 8)):
        words = [[draw.choice(NOUNS) for _ in range(draw.randrange(2, 7))] for _ in range(count)]
        pairs = [(" ".join(own) + " .", " ".join(f"ye {word}" for word in own) + " .") for own in words]
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    return folder
