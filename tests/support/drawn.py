"""Tables that a command draws, and rows that are made by hand."""


def cells(table):
    """The lines of a table: heading -> cell."""
    return [
        dict(zip(table.headings, line, strict=True)) for line in zip(*table.columns, strict=True)
    ]


def of(fields, **values):
    """A row with these values; all others are None."""
    return dict.fromkeys(fields) | values
