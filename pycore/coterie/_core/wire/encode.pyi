"""From plain values to bytes by a layout; each value is checked against its field's type.

A field that a dict lacks has its default; keys that are no field of the version are not looked at.
Tagged fields at their default are not written, and unknown ones stand under ``_unknown_tags``.
"""
