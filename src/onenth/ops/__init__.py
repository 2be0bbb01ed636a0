"""The one product y[p,o] = Σ_{i,q,c} A[i,p,q] S[i,o,c] x[q,c], and the ways to compute it.

`reference` defines it, `dense` and `bilinear` are its paths, `run` runs a path eagerly, compiled or
transformed, and `dispatch` picks the path.
"""

from onenth.ops.dispatch import product, using, weight
from onenth.ops.run import transformed

__all__ = ["product", "transformed", "using", "weight"]
