"""TLS connections to servers, according to settings."""

import ssl
import tempfile

from headrace.environment import variable
from headrace.secret_settings import SecretSettings, SecretUnreadable


def tls_context(settings: SecretSettings, server: str) -> ssl.SSLContext:
    """Return the TLS context for `server` from its settings `_ca`, `_cert` and `_key`, all PEM.

    Without a CA the system's CAs are trusted. Without a certificate none is sent.

    Raises:
        SecretUnreadable: A file can't be read, or holds no certificate or key.
    """
    ca, cert, key = (settings.secret(f"{server}_{what}") for what in ("ca", "cert", "key"))
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError):
        raise SecretUnreadable(f"{variable(f'{server}_ca')} contains no PEM certificate") from None
    if cert:
        # OpenSSL loads a client certificate from a file only. Only this user can read this file.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(f"{key}\n{cert}\n")
            file.flush()
            try:
                context.load_cert_chain(file.name, password=_no_password)
            except (ssl.SSLError, ValueError) as error:
                names = f"{variable(f'{server}_cert')}, {variable(f'{server}_key')}"
                why = getattr(error, "reason", "") or "no certificate with its key"
                raise SecretUnreadable(f"{names}: {why} (PEM, without a password)") from None
    return context


def _no_password() -> str:
    # Without this, OpenSSL prompts for the password of an encrypted key.
    return ""
