"""What is asked of a server: the table of APIs, calls, their handlers, how they are refused."""
