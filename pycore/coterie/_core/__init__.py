"""Compiled parts. Every public name is re-exported by ``coterie``; the stubs hold the contracts."""
