"""How a machine proves who it is: each runner has an Ed25519 key pair, and the hub stores the public key.

The hub sends a random nonce (`Challenge`), the runner signs it (`Proof`). The signature also covers the machine's id,
the protocol and the digest of the access token that the link was opened with. A hub that passes the challenge of
another hub on to a runner gets a signature that the other hub does not accept, because the tokens differ.
"""

from __future__ import annotations

import secrets
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from farsteer.link.messages import Challenge

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# Importing cryptography takes 20 ms, so the functions that need it import it.

KEY_BYTES = 32
"""The size of a public key, and of the seed of a private one."""
NONCE_BYTES = 32
_CONTEXT = b"farsteer machine proof\0"


class MachineKey:
    """The key pair of a machine, made from its secret seed."""

    def __init__(self, seed: bytes) -> None:
        self.seed = seed

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(KEY_BYTES))

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)

    @cached_property
    def public(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def sign(self, challenge: Challenge, machine_id: str, token_digest: bytes) -> bytes:
        """Return the signature for a `Proof`."""
        return self._private.sign(_signed_content(challenge, machine_id, token_digest))


def is_valid_proof(
    public_key: bytes, signature: bytes, challenge: Challenge, machine_id: str, token_digest: bytes
) -> bool:
    """Return whether the holder of the key made `signature` for this challenge."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(signature, _signed_content(challenge, machine_id, token_digest))
    except (InvalidSignature, ValueError):
        return False
    return True


def token_digest(token: str) -> bytes:
    """Return the digest of an access token, as a proof covers it."""
    return sha256(token.encode()).digest()


def _signed_content(challenge: Challenge, machine_id: str, token_digest: bytes) -> bytes:
    # Every part but the last has a fixed length, so no two sets of parts have the same content.
    protocol = challenge.protocol.to_bytes(4, "big")
    return b"".join((_CONTEXT, protocol, challenge.nonce, token_digest, machine_id.encode()))
