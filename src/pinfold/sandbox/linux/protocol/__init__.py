"""What the processes of a session say to each other."""
