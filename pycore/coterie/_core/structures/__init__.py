"""The timer wheel, the votes and the offset map: each can be used by itself."""
