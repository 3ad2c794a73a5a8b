"""What a log says: partial states, and the rows, tables and documents made of them."""
