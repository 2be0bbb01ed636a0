"""Training that is right under faults: steps, checkpoints, ranks, and what is told of them."""
