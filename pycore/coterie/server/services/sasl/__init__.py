"""SASL on the server's side: mechanisms, users, and the state of a connection. No I/O but the file.

``users`` reads who may come in, ``plain`` and ``scram`` are the exchanges, ``authentication`` is
what a connection may do before, while and after it authenticates. Time, nonces and
salts are handed in. Sources: SaslServerAuthenticator, RFC 4616, RFC 5802.
"""

from coterie.server.services.sasl.authentication import Authentication, Mechanisms
from coterie.server.services.sasl.refusals import Refused
from coterie.server.services.sasl.users import Users, read_users, users_of

__all__ = ["Authentication", "Mechanisms", "Refused", "Users", "read_users", "users_of"]
