"""RMSNorm without its gain: every row divided by its root mean square. Zhang & Sennrich 2019.

Gains are folded into the matrices that read the result (see `model.Folded`), which saves a pass over the activations.
"""

from __future__ import annotations

import numpy as np

from pytest_crucible.local_model.config import Floats

# Keeps a row of zeros from dividing by 0.
EPSILON = 1e-6


def normalise(x: Floats) -> tuple[Floats, Floats]:
    """Return the rows of x over their root mean square, and the reciprocals of that, (rows, 1)."""
    scale = np.einsum("nw,nw->n", x, x)
    scale /= x.shape[1]
    scale += EPSILON
    np.sqrt(scale, out=scale)
    np.divide(1, scale, out=scale)
    return x * scale[:, None], scale[:, None]


def normalise_backward(d_out: Floats, out: Floats, scale: Floats) -> Floats:
    """Return the gradient of the input of `normalise`, in place of `d_out`."""
    along = np.einsum("nw,nw->n", d_out, out)
    along /= out.shape[1]
    d_out -= out * along[:, None]
    d_out *= scale
    return d_out
