"""One module for each question: ``NAME``, ``FIELDS``, ``Ask`` and ``rows``."""
