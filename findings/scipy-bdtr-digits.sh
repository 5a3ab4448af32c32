#!/usr/bin/env bash
# scipy.special.bdtr has nine right digits where betaincc, which is the same tail of the binomial distribution, has sixteen.
#
# Expected: two names of one function agree to rounding. The right value is summed from the probabilities with 40 digits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 mpmath==1.3.0
cat >"$folder/tails.py" <<'PYTHON'
import scipy
from mpmath import exp, log, loggamma, mp, mpf, nstr
from scipy.special import bdtr, betaincc

mp.dps = 40
k, n, p = 367168, 645968, 0.5707267802549445
chance = mpf(p)
term = exp(loggamma(n + 1) - loggamma(k + 1) - loggamma(n - k + 1) + k * log(chance) + (n - k) * log(1 - chance))
tail, count = mpf(0), k
while count >= 0 and term > tail * mpf(10) ** -35:
    tail += term
    term *= mpf(count) / (n - count + 1) * (1 - chance) / chance
    count -= 1
print("scipy", scipy.__version__, "- at most", k, "of", n, "at", p, "=", nstr(tail, 18))
errors = {}
for name, value in {"bdtr": bdtr(k, n, p), "betaincc": betaincc(k + 1, n - k, p)}.items():
    errors[name] = abs(mpf(float(value)) / tail - 1)
    print(f"{name}: {float(value)!r}, relative error {nstr(errors[name], 2)}")
assert 1e-9 < errors["bdtr"] < 2e-9
assert errors["betaincc"] < 1e-15
PYTHON
"$folder/venv/bin/python" "$folder/tails.py"
echo "seen: bdtr errs by more than 1e-9, betaincc by rounding"
