"""Compiled parts. Every public name is re-exported by ``coterie``; the stubs here hold the contracts."""
