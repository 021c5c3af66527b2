"""A pen's spawner: confined as its commands are, it starts them."""
