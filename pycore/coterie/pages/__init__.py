"""Self-contained HTML pages, for ``coterie report`` and ``coterie designs``.

``shell`` makes one file from a template, a style sheet, scripts, the chart library and data;
``assets`` has the shared scripts and styles. Nothing here knows the subject of a page.
"""
