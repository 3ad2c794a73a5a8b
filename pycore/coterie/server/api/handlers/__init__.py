"""The handlers of the APIs; each is a function of one call, named in ``server.api.table``."""
