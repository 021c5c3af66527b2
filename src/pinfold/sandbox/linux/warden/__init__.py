"""A pen's warden: answers the system calls that the kernel hands over."""
