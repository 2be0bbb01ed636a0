"""Decoding, one token at a time, of any model that is written as `Steps`.

greedy           the likeliest token at every step
beam_search      the best of several hypotheses, under GNMT's length penalty
sample           tokens drawn, at a temperature, from the likeliest ones
"""

from onenth.decoding.beam import beam_search
from onenth.decoding.greedy import greedy
from onenth.decoding.sampling import sample
from onenth.decoding.steps import Decoded, Steps

__all__ = ["Decoded", "Steps", "beam_search", "greedy", "sample"]
