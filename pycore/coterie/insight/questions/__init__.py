"""One module for each question: ``NAME``, ``FIELDS``, ``Parameters`` and ``rows``."""
