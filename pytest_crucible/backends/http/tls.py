"""TLS: whom to trust, and what its failures mean."""

from __future__ import annotations

import ssl
from pathlib import Path

from pytest_crucible.errors import SpecError


def context_of(*, verify: bool = True, ca_file: Path | None = None) -> ssl.SSLContext:
    """Trust the system's authorities, those of a file of PEM certificates instead, or everybody. Raises SpecError."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise SpecError(f"ca_file {str(ca_file)!r} cannot be read as PEM certificates: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def sentence(error: ssl.SSLError, where: str) -> str:
    """What failed, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f'the certificate of {where} cannot be verified ({error.verify_message}): give ca_file = "FILE" with the '
            "authority that signed it, or verify = false"
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"{where} does not speak TLS as wanted ({reason}): is its URL rather http:// ?"
