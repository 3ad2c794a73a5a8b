"""One self-contained HTML page about the groups of a log: an overview, and a page for each group.

``spans`` counts events by spans of time, ``ownership`` makes the bars of members, ``charts`` draws
commits and offsets, ``sections`` adds tables of the questions of ``coterie.insight``, ``gather``
collects all of it, and ``page`` makes the HTML. Nothing here knows the command line.
"""
