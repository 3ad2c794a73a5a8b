"""Groups of the classic protocol: members, rebalances, their records."""
