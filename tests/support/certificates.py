"""A self-signed certificate for one name."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = timedelta(days=1)


def make(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """Return the file of a certificate for `name`, and a server's context that has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    whose = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(whose)
        .issuer_name(whose)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = folder / "certificate.pem", folder / "key.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return file, context


class Authority:
    """A certificate authority of the tests, and what it issues for this machine's loopback."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        """Keep everything in `folder`."""
        self._folder, self._name = (
            folder,
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]),
        )
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        certificate = self._sign(self._name, self._key, is_authority=True)
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate for `name`, localhost and 127.0.0.1, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        whose = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate, secret = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        signed = self._sign(whose, key, is_authority=False)
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, secret

    def server_context(self) -> ssl.SSLContext:
        """Return a server's context that wants a certificate of this authority from clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server"))
        context.load_verify_locations(self.file)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _sign(
        self, whose: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        here = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = (
            x509.CertificateBuilder()
            .subject_name(whose)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if is_authority:
            usage = {
                "digital_signature": True,
                "key_cert_sign": True,
                "crl_sign": True,
                "content_commitment": False,
                "key_encipherment": False,
                "data_encipherment": False,
                "key_agreement": False,
                "encipher_only": False,
                "decipher_only": False,
            }
            builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
            identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
            builder = builder.add_extension(identifier, critical=False)
        else:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(issuer, critical=False)
            names = x509.SubjectAlternativeName(here)
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())
