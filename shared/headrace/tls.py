"""TLS connections to servers, according to settings."""

import ssl
import tempfile

from headrace.secret_settings import SecretSettings, SecretUnreadable


def tls_context(settings: SecretSettings, server: str) -> ssl.SSLContext:
    """Return the TLS context for `server` from its settings `_ca`, `_cert` and `_key`, all PEM.

    Without a CA the system's CAs are trusted. Without a certificate none is sent.

    Raises:
        SecretUnreadable: A file can't be read, or holds no certificate or key.
    """
    ca, cert, key = (settings.secret(f"{server}_{what}") for what in ("ca", "cert", "key"))
    try:
        context = _trusting(ca) if settings.has(f"{server}_ca") else ssl.create_default_context()
    except (ssl.SSLError, ValueError):
        where = settings.place_of(f"{server}_ca")
        raise SecretUnreadable(f"{where} contains no PEM certificate") from None
    if settings.has(f"{server}_cert"):
        # OpenSSL loads a client certificate from a file only. Only this user can read this file.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(f"{key}\n{cert}\n")
            file.flush()
            try:
                context.load_cert_chain(file.name, password=_no_password)
            except (ssl.SSLError, ValueError) as error:
                places = (settings.place_of(f"{server}_{what}") for what in ("cert", "key"))
                why = getattr(error, "reason", "") or "no certificate with its key"
                raise SecretUnreadable(
                    f"{', '.join(places)}: {why} (PEM, without a password)"
                ) from None
    return context


def _trusting(ca: str) -> ssl.SSLContext:
    if not ca.strip():  # Python would trust the system's CAs.
        raise ValueError("no certificate")
    return ssl.create_default_context(cadata=ca)


def _no_password() -> str:
    # Without this, OpenSSL prompts for the password of an encrypted key.
    return ""
