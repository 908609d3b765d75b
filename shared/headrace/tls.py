"""TLS to a server, as settings have it."""

import ssl
import tempfile

from headrace.secret_settings import SecretSettings, SecretUnreadable, variable


def tls_context(settings: SecretSettings, server: str) -> ssl.SSLContext:
    """Return what `settings` say of TLS to `server`: its `_ca`, `_cert` and `_key`, all PEM.

    Without an authority the system's are trusted; without a certificate none is shown.

    Raises:
        SecretUnreadable: a file can't be read, or is no certificate or key.
    """
    ca, cert, key = (settings.secret(f"{server}_{what}") for what in ("ca", "cert", "key"))
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError):
        raise SecretUnreadable(f"{variable(f'{server}_ca')} holds no certificate (PEM)") from None
    if cert:
        # OpenSSL takes a certificate of one's own from a file alone; nobody else can read this one.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(f"{key}\n{cert}\n")
            file.flush()
            try:
                context.load_cert_chain(file.name, password=_no_password)
            except (ssl.SSLError, ValueError) as trouble:
                names = f"{variable(f'{server}_cert')}, {variable(f'{server}_key')}"
                why = getattr(trouble, "reason", "") or "no certificate and its key"
                raise SecretUnreadable(f"{names}: {why} (PEM, without a password)") from None
    return context


def _no_password() -> str:
    # Or OpenSSL would ask at the terminal for the password of a key that has one.
    return ""
