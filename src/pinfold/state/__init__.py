"""What Pinfold remembers between runs, in the user's state directory."""
