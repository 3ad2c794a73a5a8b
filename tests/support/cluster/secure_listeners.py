"""Certificates for listeners with TLS, and a user for those with SASL."""

import trustme

USERS = {"alice": "alice-secret"}
JAAS = 'org.apache.kafka.common.security.{0}Module required username="{1}" password="{2}";'


def jaas(login="plain.PlainLogin", password=USERS["alice"]):
    """The value of ``sasl.jaas.config`` for the user."""
    return JAAS.format(login, "alice", password)


def write_certificates(folder, **hosts):
    """Write an authority, another one, and by each name a certificate for its hosts with a key."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other-ca.pem")
    for name, names in hosts.items():
        made = authority.issue_cert(*names, common_name=name)
        made.private_key_pem.write_to_path(folder / f"{name}-key.pem")
        for pem in (*made.cert_chain_pems, made.private_key_pem):
            pem.write_to_path(folder / f"{name}.pem", append=True)
    return folder


def tls_of(folder, name, **more):
    """The option ``tls`` of a Broker with a certificate of :func:`write_certificates`."""
    return {"cert": folder / f"{name}.pem", "key": folder / f"{name}-key.pem", **more}
