"""From plain values to bytes by a layout; each value is checked against its field's type.

Of a frame a field that a dict lacks has its default; of a record it may not be missing, and a lone
surrogate becomes "?", as Java writes it. For both, keys that are no field of the
version are not looked at, tagged fields at their default are not written, and unknown ones stand
under ``_unknown_tags``.
"""
