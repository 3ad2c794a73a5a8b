"""Pages that are one file and need no network: what ``coterie report`` and ``designs`` share.

``shell`` makes the file of a template, a style sheet, scripts, the chart library and data;
``assets`` has what every page is drawn with. Nothing here knows what a page is about.
"""
