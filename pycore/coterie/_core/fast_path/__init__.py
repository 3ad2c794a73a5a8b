"""What a server does often: from the bytes of a request to the coordinator's call, and back."""
