"""Groups, their members, and the coordinator that decides for them."""
