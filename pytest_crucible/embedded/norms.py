"""RMSNorm without its gain: every row divided by its root mean square. Zhang & Sennrich 2019.

Gains are folded into the matrices that read the result (see `model.Folded`), so no pass over the activations is spent on them.
"""

from __future__ import annotations

import numpy as np

from pytest_crucible.embedded.shape import Floats

EPSILON = 1e-6


def normalised(x: Floats) -> tuple[Floats, Floats]:
    """Rows of x over their root mean square, and one over that, (rows, 1)."""
    scale = np.einsum("nw,nw->n", x, x)
    scale /= x.shape[1]
    scale += EPSILON
    np.sqrt(scale, out=scale)
    np.divide(1, scale, out=scale)
    return x * scale[:, None], scale[:, None]


def normalised_backward(d_out: Floats, out: Floats, scale: Floats) -> Floats:
    """Gradient of what was normalised, in place of `d_out`."""
    along = np.einsum("nw,nw->n", d_out, out)
    along /= out.shape[1]
    d_out -= out * along[:, None]
    d_out *= scale
    return d_out
