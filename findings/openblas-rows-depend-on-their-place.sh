#!/usr/bin/env bash
# With OpenBLAS's kernel for AVX2 a row of a float32 product of numpy depends on where in the matrix it stands, from 12 rows on.
#
# Expected: the rows of x @ w are products of each row with w, so that a permutation of x permutes the result. It does up to 8 rows;
# from 12 rows on the last bits of a row are others at other places, in one thread and with one number of rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 threadpoolctl==3.6.0
cat >"$folder/rows.py" <<'PYTHON'
import numpy as np
from threadpoolctl import threadpool_info

random = np.random.default_rng(0)
weights = random.standard_normal((128, 512), np.float32)
[blas] = threadpool_info()
print("numpy", np.__version__, "OpenBLAS", blas["version"], "kernel", blas["architecture"], "threads", blas["num_threads"])
changed = {}
for rows in (2, 4, 8, 12, 16, 32):
    x = random.standard_normal((rows, 128), np.float32)
    orders = [random.permutation(rows) for _ in range(20)]
    changed[rows] = sum(not np.array_equal((x @ weights)[order], x[order] @ weights) for order in orders)
    print(f"{rows} rows: {changed[rows]} of 20 permutations change bits")
assert not any(changed[rows] for rows in (2, 4, 8))
assert all(changed[rows] for rows in (12, 16, 32))
PYTHON
OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" "$folder/rows.py"
echo "seen: rows of small products do not depend on their place, those of larger ones do"
