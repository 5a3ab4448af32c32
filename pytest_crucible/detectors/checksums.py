"""Checksums of card numbers and of bank accounts."""

from __future__ import annotations

_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
# A letter stands for 10 to 35.
_LETTERS = {ord(letter): str(10 + k) for k, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}


def passes_luhn(digits: str) -> bool:
    """Return whether a number has the check digit of ISO/IEC 7812-1 (Luhn). `digits` are ASCII digits only.

    >>> passes_luhn("4111111111111111"), passes_luhn("4111111111111112")
    (True, False)
    """
    code = digits.encode()
    odd, even = code[-1::-2], code[-2::-2].translate(_DOUBLED)
    return (sum(odd) + sum(even) - 48 * len(code)) % 10 == 0


def passes_mod97(account: str) -> bool:
    """Return whether an IBAN, in upper case without spaces, has the check digits of ISO 13616 (ISO 7064, mod 97-10).

    >>> passes_mod97("GB82WEST12345698765432"), passes_mod97("GB83WEST12345698765432")
    (True, False)
    """
    return int((account[4:] + account[:4]).translate(_LETTERS)) % 97 == 1
