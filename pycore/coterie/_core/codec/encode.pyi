"""Plain Python values to bytes by a layout; used by compiled code only."""
