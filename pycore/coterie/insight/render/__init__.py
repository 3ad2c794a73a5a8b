"""Render the rows of any question for people and programs: fields, tables, JSON, CSV."""
