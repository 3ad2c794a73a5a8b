"""Server-side SASL: mechanisms, users and the authentication state of a connection.

``users`` reads the users file, ``plain`` and ``scram`` implement the mechanisms, and
``authentication`` decides which requests a connection may send. Time, nonces and salts are passed
in; the only I/O is reading the users file. Sources: SaslServerAuthenticator, RFC 4616, RFC 5802.
"""

from coterie.server.services.sasl.authentication import Authentication, Mechanisms
from coterie.server.services.sasl.refusals import Refused
from coterie.server.services.sasl.users import Users, read_users, users_of

__all__ = ["Authentication", "Mechanisms", "Refused", "Users", "read_users", "users_of"]
