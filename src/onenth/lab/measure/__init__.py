"""What a run is worth: accuracy, BLEU, their spread, and whether a difference is one."""
