"""One self-contained HTML page about the groups of a log: an overview, and a page for each group.

``spans`` reduces what happened over time to so many points, ``ownership`` tells who owned which
partitions when, ``sections`` puts the questions of ``coterie.insight`` beside them, ``gather``
brings a group's parts together, ``page`` makes HTML of all. Nothing here knows the command line.
"""
