"""TLS: trusted certificates, and explanations of its errors."""

from __future__ import annotations

import ssl
from pathlib import Path

from pytest_crucible.records.errors import SpecError


def tls_context(*, verify: bool = True, ca_file: Path | None = None) -> ssl.SSLContext:
    """Return a TLS context. It trusts the system's authorities, those of a PEM file, or (verify=False) any server.

    Raises SpecError.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise SpecError(f"ca_file {str(ca_file)!r} cannot be read as PEM certificates: {error}") from None
    # Only HTTP/1.1 is spoken here; without this some servers choose HTTP/2.
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def explain_tls_error(error: ssl.SSLError, where: str) -> str:
    """Return what failed and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f'the certificate of {where} cannot be verified ({error.verify_message}): give ca_file = "FILE" with the '
            "authority that signed it, or verify = false"
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"{where} does not speak TLS ({reason}): check whether its URL should begin with http://"
