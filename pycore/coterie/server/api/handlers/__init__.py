"""What each API does: functions of one call, named in the table ``coterie.server.api.table``."""
